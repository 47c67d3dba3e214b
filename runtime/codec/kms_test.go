package codec_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
)

// kms is a KMS that unwraps secrets by inverting their bits.
type kms struct {
	mu    sync.Mutex
	calls map[string]int
	err   error
	block bool // until the context of the call ends
	takes time.Duration
}

func (m *kms) Unwrap(ctx context.Context, id string, wrapped []byte) ([]byte, error) {
	m.count(id)
	if m.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(m.takes)
	if m.err != nil {
		return nil, m.err
	}
	return invert(wrapped), nil
}

func (m *kms) count(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls = map[string]int{}
	}
	m.calls[id]++
}

func invert(b []byte) []byte {
	inverted := make([]byte, len(b))
	for i := range b {
		inverted[i] = ^b[i]
	}
	return inverted
}

func wrap(k codec.Key) codec.WrappedKey {
	return codec.WrappedKey{ID: k.ID, Wrapped: invert(k.Secret[:])}
}

func TestOPS5_AKMSUnwrapsEachKeyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &kms{takes: time.Second}
		keys := codec.KeysFromKMS(m, wrap(key("k2", 2)), wrap(key("k1", 1)), wrap(key("k0", 7)))
		c := newCodec(t, codec.Config{Keys: keys})
		old := seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, text(100))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if info, err := codec.Inspect(seal(t, c, place, text(100))); err != nil || info.Key != "k2" {
					t.Errorf("sealed with key %s, %v, want k2", info.Key, err)
				}
				if _, err := c.Open(t.Context(), place, old); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if m.calls["k1"] != 1 || m.calls["k2"] != 1 || m.calls["k0"] != 0 {
			t.Errorf("calls of the KMS: %v, want one for k1 and k2 each", m.calls)
		}
	})
}

func TestOPS5_AFailureOfAKMSIsRetriedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &kms{err: errors.New("access denied")}
		c := newCodec(t, codec.Config{Keys: codec.KeysFromKMS(m, wrap(key("k1", 1)))})
		for range 10 {
			_, err := c.Seal(t.Context(), place, text(100))
			if e, ok := errors.AsType[*codec.KeyError](err); !ok || e.Key != "k1" || !errors.Is(err, m.err) {
				t.Errorf("got %v, want a KeyError about k1 with the cause", err)
			}
		}
		if m.calls["k1"] != 1 {
			t.Errorf("the KMS was called %d times within a second, want once", m.calls["k1"])
		}
		m.err = nil
		time.Sleep(time.Second)
		if _, err := c.Seal(t.Context(), place, text(100)); err != nil || m.calls["k1"] != 2 {
			t.Errorf("a second later: %v after %d calls", err, m.calls["k1"])
		}
	})
}

func TestOPS5_AKMSThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &kms{block: true}
		keys := codec.KeysFromKMS(m, wrap(key("k1", 1)))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := keys.Active(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		// The caller gave up, which is no failure of the KMS: the next caller tries at once.
		began = time.Now()
		_, err := keys.Active(t.Context())
		if _, ok := errors.AsType[*codec.KeyError](err); !ok || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second || m.calls["k1"] != 2 {
			t.Errorf("after %v and %d calls: %v, want a KeyError after 10s", time.Since(began), m.calls["k1"], err)
		}
		// A caller that waits for the call of another one can give up.
		time.Sleep(2 * time.Second)
		go keys.Active(t.Context())
		synctest.Wait()
		short, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := keys.Active(short); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || m.calls["k1"] != 3 {
			t.Errorf("after %v and %d calls: %v", time.Since(began), m.calls["k1"], err)
		}
	})
}

func TestOPS5_AKMSThatReturnsGarbageIsRefused(t *testing.T) {
	for name, wrapped := range map[string][]byte{"short": make([]byte, 31), "long": make([]byte, 33), "zeros": invert(make([]byte, 32))} {
		keys := codec.KeysFromKMS(&kms{}, codec.WrappedKey{ID: "k1", Wrapped: wrapped})
		_, err := newCodec(t, codec.Config{Keys: keys}).Seal(t.Context(), place, text(100))
		if e, ok := errors.AsType[*codec.KeyError](err); !ok || e.Key != "k1" {
			t.Errorf("%s: %v, want a KeyError about k1", name, err)
		}
	}
}

func TestOPS5_InvalidWrappedKeysAreRefused(t *testing.T) {
	k1 := wrap(key("k1", 1))
	for name, keys := range map[string]codec.KeyProvider{
		"no KMS": codec.KeysFromKMS(nil, k1), "no secret": codec.KeysFromKMS(&kms{}, k1, codec.WrappedKey{ID: "k2"}),
		"invalid ID": codec.KeysFromKMS(&kms{}, wrap(key("k 1", 1))), "twice": codec.KeysFromKMS(&kms{}, k1, k1),
	} {
		if _, err := codec.New(codec.Config{Keys: keys}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOPS5_TheKeysOfACodecIdentifyIt(t *testing.T) {
	k1, k2 := key("k1", 1), key("k2", 2)
	path := filepath.Join(t.TempDir(), "keys")
	writeKeys(t, path, k2.Text(), k1.Text())
	file, err := codec.KeysFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		keys codec.KeyProvider
		want string
	}{
		"none": {nil, ""}, "static": {codec.Keys(k2, k1), "k1 k2"}, "file": {file, "k1 k2"}, "KMS": {codec.KeysFromKMS(&kms{}, wrap(k2), wrap(k1)), "k1 k2"},
		"failing": {failing{errors.New("no network")}, "none"},
	} {
		if got := newCodec(t, codec.Config{Keys: tt.keys}).Keys(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestOPS5_OnlyErrorsThatRetriesMayCureAreNotPermanent(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	stored := seal(t, c, place, text(100))
	for name, tt := range map[string]struct {
		cfg  codec.Config
		want bool
	}{
		"no keys":       {codec.Config{}, true},
		"other key":     {codec.Config{Keys: codec.Keys(key("k2", 2))}, true},
		"other secret":  {codec.Config{Keys: codec.Keys(key("k1", 2))}, true},
		"failing":       {codec.Config{Keys: failing{errors.New("no network")}}, false},
		"failing KMS":   {codec.Config{Keys: codec.KeysFromKMS(&kms{err: errors.New("access denied")}, wrap(key("k1", 1)))}, false},
		"not in a KMS":  {codec.Config{Keys: codec.KeysFromKMS(&kms{}, wrap(key("k2", 2)))}, true},
		"too large now": {codec.Config{Keys: codec.Keys(key("k1", 1)), MaxSize: 10}, true},
	} {
		_, err := newCodec(t, tt.cfg).Open(t.Context(), place, stored)
		if e, ok := errors.AsType[interface {
			error
			Permanent() bool
		}](err); !ok || e.Permanent() != tt.want {
			t.Errorf("%s: %v, want permanent %v", name, err, tt.want)
		}
	}
}
