package codec_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
)

var place = codec.Place{Owner: "01JF0000000000000000000RUN", Field: "step_completed/7/payload", Blobs: inChain}

const chain = "01JF00000000000000000CHAIN"

func inChain(context.Context) (string, error) { return chain, nil }

// key returns the key with an ID whose secret is derived from seed.
func key(id string, seed byte) codec.Key {
	k := codec.Key{ID: id}
	for i := range k.Secret {
		k.Secret[i] = seed + byte(i)
	}
	return k
}

func newCodec(t testing.TB, cfg codec.Config) *codec.Codec {
	t.Helper()
	c, err := codec.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func seal(t testing.TB, c *codec.Codec, at codec.Place, plain []byte) []byte {
	t.Helper()
	stored, err := c.Seal(t.Context(), at, plain)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// text returns JSON of n bytes that can be compressed, and noise bytes that cannot.
func text(n int) []byte {
	return []byte(`"` + strings.Repeat("order 17 of customer 4711, ", n/27+1)[:n-2] + `"`)
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// configs contains a codec of each kind.
func configs() map[string]codec.Config {
	keys := codec.Keys(key("k2", 2), key("k1", 1))
	return map[string]codec.Config{
		"nothing":                  {CompressAbove: -1},
		"compressed":               {},
		"encrypted":                {Keys: keys, CompressAbove: -1},
		"encrypted and compressed": {Keys: keys},
		"offloaded":                {Blobs: &blobs{}, CompressAbove: -1, OffloadAbove: 100},
		"all":                      {Keys: keys, Blobs: &blobs{}, OffloadAbove: 100},
	}
}

// blobs is a blob store in memory.
type blobs struct {
	codec.BlobStore
	mu   sync.Mutex
	data map[string][]byte
	err  error // of Put
}

func (b *blobs) Put(_ context.Context, name string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if b.data == nil {
		b.data = map[string][]byte{}
	}
	b.data[name] = bytes.Clone(data)
	return nil
}

func (b *blobs) Get(_ context.Context, name string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.data[name]
	if !ok {
		return nil, codec.ErrBlobNotFound
	}
	return bytes.Clone(data), nil
}

func TestOPS5_EveryPayloadIsOpenedAsItWasSealed(t *testing.T) {
	payloads := map[string][]byte{
		"null": []byte("null"), "one byte": {'7'}, "marker": {0xF8}, "like a sealed one": {0xF8, 1, 2, 3},
		"512": text(512), "513": text(513), "noise": noise(2000), "1 MB": text(1 << 20), "3 MB noise": noise(3 << 20), "zeros": make([]byte, 1<<21),
	}
	for kind, cfg := range configs() {
		c := newCodec(t, cfg)
		for name, plain := range payloads {
			stored := seal(t, c, place, plain)
			got, err := c.Open(t.Context(), place, bytes.Clone(stored))
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s, %s: opened as %d bytes, %v; want the %d bytes that were sealed", kind, name, len(got), err, len(plain))
			}
			info, err := codec.Inspect(stored)
			if err != nil || info.PlainSize != int64(len(plain)) || info.StoredSize != int64(len(stored)) {
				t.Errorf("%s, %s: described as %+v, %v", kind, name, info, err)
			}
			if cfg.Keys != nil && (!codec.IsSealed(stored) || info.Key != "k2") {
				t.Errorf("%s, %s: sealed %v with key %q, want k2", kind, name, codec.IsSealed(stored), info.Key)
			}
			if again := seal(t, newCodec(t, cfg), place, plain); !bytes.Equal(again, stored) {
				t.Errorf("%s, %s: has another stored form when it is sealed once more", kind, name)
			}
		}
		for _, empty := range [][]byte{nil, {}} {
			if stored, err := c.Seal(t.Context(), place, empty); err != nil || len(stored) != 0 || (stored == nil) != (empty == nil) {
				t.Errorf("%s: empty input became %q, %v", kind, stored, err)
			}
		}
	}
}

// TestOPS5_SmallPayloadsAreCompressedIfTheyRepeatThemselves proves that the encoder is not called in
// vain for small payloads without structure, and that JSON with the usual structure is compressed.
func TestOPS5_SmallPayloadsAreCompressedIfTheyRepeatThemselves(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString(noise(3000))
	payloads := map[string]struct {
		plain string
		want  bool
	}{
		"list":             {string(orders(600)), true},
		"larger list":      {string(orders(4096)), true},
		"zeros":            {strings.Repeat("\x00", 600), true},
		"spaces":           {`"` + strings.Repeat(" ", 600) + `"`, true},
		"object":           {order, true},
		"base64":           {encoded[:1024], false},
		"larger base64":    {encoded[:4000], false},
		"filled to 100":    {`"run 17 ` + strings.Repeat("x", 92) + encoded[:900] + `"`, false},
		"noise":            {string(noise(600)), false},
		"late repetition":  {encoded[:700] + strings.Repeat(" ", 324), false},
		"at the threshold": {strings.Repeat(" ", 512), false},
	}
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	for name, tt := range payloads {
		info, err := codec.Inspect(seal(t, c, place, []byte(tt.plain)))
		if err != nil || info.Compressed != tt.want {
			t.Errorf("%s: compressed is %v, want %v (%v)", name, info.Compressed, tt.want, err)
		}
	}
}

// order is an object of 700 bytes.
const order = `{"id":"3f2a9c1e-77b1-4c1e-9c51-0e3f0e6d9f10","customer":{"name":"Ada Lovelace","email":"ada@example.com",` +
	`"phone":"+44 20 7946 0000"},"address":{"street":"12 St James's Square","city":"London","zip":"SW1Y 4JH","country":"GB"},"items":[` +
	`{"sku":"A-1001","title":"Blue notebook","price":12.5,"quantity":2},{"sku":"B-2002","title":"Fountain pen","price":89.99,"quantity":1},` +
	`{"sku":"C-41000","title":"Ink, black, 50 ml","price":8.99,"quantity":3},{"sku":"D-9931","title":"Paper, A4","price":4.99,"quantity":10}],` +
	`"shipping":"express","notes":"Leave at the door if nobody answers","created":"2026-11-30T20:29:20Z","total":114.99,"paid":true}`

func TestOPS5_APayloadThatIsNotSealedIsOpenedUnchanged(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	for _, plain := range []string{"", "null", `{"a":1}`, "text", "\xf7", "\xff"} {
		got, err := c.Open(t.Context(), place, []byte(plain))
		if err != nil || string(got) != plain || codec.IsSealed([]byte(plain)) {
			t.Errorf("%q was opened as %q, %v", plain, got, err)
		}
	}
}

func TestOPS5_TheStoredFormContainsNoPlainText(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	for _, n := range []int{30, 5000} {
		stored := seal(t, c, place, text(n))
		if bytes.Contains(stored, []byte("customer")) {
			t.Errorf("the stored form of %d bytes contains text: %q", n, stored)
		}
	}
}

func TestOPS5_EqualPayloadsDifferAtDifferentPlaces(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	other := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 9))})
	seen := map[string]string{}
	add := func(what string, stored []byte) {
		text := string(stored[len(stored)-36 : len(stored)-16]) // of the ciphertext, without the tag
		if first, ok := seen[text]; ok {
			t.Errorf("%s and %s have the same ciphertext", first, what)
		}
		seen[text] = what
	}
	add("place", seal(t, c, place, text(40)))
	add("owner", seal(t, c, codec.Place{Owner: "x", Field: place.Field}, text(40)))
	add("field", seal(t, c, codec.Place{Owner: place.Owner, Field: "x"}, text(40)))
	add("shifted", seal(t, c, codec.Place{Owner: place.Owner + "s", Field: place.Field[1:]}, text(40)))
	add("content", seal(t, c, place, text(41)[1:]))
	add("key", seal(t, other, place, text(40)))
}

func TestOPS5_ASwappedPayloadIsRefused(t *testing.T) {
	for kind, cfg := range configs() {
		c := newCodec(t, cfg)
		stored := seal(t, c, place, text(5000))
		if !codec.IsSealed(stored) {
			continue
		}
		for what, at := range map[string]codec.Place{
			"owner":    {Owner: "01JF000000000000000000OTHER", Field: place.Field, Blobs: place.Blobs},
			"field":    {Owner: place.Owner, Field: "step_completed/8/payload", Blobs: place.Blobs},
			"boundary": {Owner: place.Owner + place.Field[:1], Field: place.Field[1:], Blobs: place.Blobs},
			"nowhere":  {Blobs: place.Blobs},
		} {
			_, err := c.Open(t.Context(), at, stored)
			if damaged, ok := errors.AsType[*codec.DamagedError](err); !ok || damaged.Place.Owner != at.Owner || damaged.Place.Field != at.Field {
				t.Errorf("%s: a payload with another %s was opened: %v", kind, what, err)
			}
		}
		if _, err := c.Open(t.Context(), place, stored); err != nil {
			t.Errorf("%s: the payload cannot be opened at its place: %v", kind, err)
		}
	}
}

func TestOPS5_OldKeysOpenPayloadsAndTheActiveKeySealsThem(t *testing.T) {
	before := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	after := newCodec(t, codec.Config{Keys: codec.Keys(key("k2", 2), key("k1", 1))})
	old := seal(t, before, place, text(100))
	if got, err := after.Open(t.Context(), place, old); err != nil || !bytes.Equal(got, text(100)) {
		t.Errorf("a payload of the old key was opened as %q, %v", got, err)
	}
	_, err := before.Open(t.Context(), place, seal(t, after, place, text(100)))
	missing, ok := errors.AsType[*codec.KeyError](err)
	if !ok || missing.Key != "k2" || !errors.Is(err, codec.ErrKeyNotFound) {
		t.Errorf("a payload of key k2 without this key: %v, want a KeyError that names it", err)
	}
}

func TestOPS5_AnotherSecretUnderTheSameIDIsRefused(t *testing.T) {
	stored := seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, text(100))
	_, err := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 2))}).Open(t.Context(), place, stored)
	if damaged, ok := errors.AsType[*codec.DamagedError](err); !ok || damaged.Key != "k1" || !strings.Contains(err.Error(), "correct the secret of key k1") {
		t.Errorf("opened with another secret: %v", err)
	}
}

func TestOPS5_AMissingKeyIsNeededOnlyForEncryptedPayloads(t *testing.T) {
	encrypted := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	without := newCodec(t, codec.Config{})
	if _, err := encrypted.Open(t.Context(), place, seal(t, without, place, text(5000))); err != nil {
		t.Errorf("a compressed payload: %v", err)
	}
	_, err := without.Open(t.Context(), place, seal(t, encrypted, place, text(5000)))
	if missing, ok := errors.AsType[*codec.KeyError](err); !ok || missing.Key != "k1" {
		t.Errorf("an encrypted payload without keys: %v, want a KeyError about k1", err)
	}
}

// failing is a key provider that fails.
type failing struct{ err error }

func (f failing) Active(context.Context) (codec.Key, error)      { return codec.Key{}, f.err }
func (f failing) Key(context.Context, string) (codec.Key, error) { return codec.Key{}, f.err }

func TestOPS5_AFailingKeyProviderIsAKeyError(t *testing.T) {
	cause := errors.New("no network")
	c := newCodec(t, codec.Config{Keys: failing{cause}})
	_, sealErr := c.Seal(t.Context(), place, text(100))
	_, openErr := c.Open(t.Context(), place, seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, text(100)))
	for id, err := range map[string]error{"": sealErr, "k1": openErr} {
		if e, ok := errors.AsType[*codec.KeyError](err); !ok || e.Key != id || !errors.Is(err, cause) {
			t.Errorf("key %q: %v, want a KeyError with the cause", id, err)
		}
	}
	wrong := newCodec(t, codec.Config{Keys: always{key("k2", 1)}})
	_, err := wrong.Open(t.Context(), place, seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, text(100)))
	if e, ok := errors.AsType[*codec.KeyError](err); !ok || e.Key != "k1" || !strings.Contains(err.Error(), "returned key k2") {
		t.Errorf("a provider that returns another key: %v, want a KeyError that names both", err)
	}
}

// always is a key provider that returns its key under each ID. It does not check the key.
type always struct{ key codec.Key }

func (a always) Active(context.Context) (codec.Key, error)      { return a.key, nil }
func (a always) Key(context.Context, string) (codec.Key, error) { return a.key, nil }

// TestOPS5_AKeyWithAChangedSecretReplacesItsCipher proves that a codec uses the secret that its
// provider returns now, although a provider must not change the secret of a key.
func TestOPS5_AKeyWithAChangedSecretReplacesItsCipher(t *testing.T) {
	keys := &always{key("k1", 1)}
	c := newCodec(t, codec.Config{Keys: keys})
	old := seal(t, c, place, text(100))
	keys.key = key("k1", 2)
	if _, err := c.Open(t.Context(), place, old); !errors.As(err, new(*codec.DamagedError)) {
		t.Errorf("a payload of the old secret: %v, want a DamagedError", err)
	}
	if stored, want := seal(t, c, place, text(100)), seal(t, newCodec(t, codec.Config{Keys: codec.Keys(keys.key)}), place, text(100)); !bytes.Equal(stored, want) {
		t.Error("payloads are still sealed with the old secret")
	}
}

func TestOPS5_AnInvalidKeyIsRefused(t *testing.T) {
	good := key("k1", 1)
	for name, keys := range map[string]codec.KeyProvider{
		"empty ID": codec.Keys(key("", 1)), "space": codec.Keys(key("k 1", 1)), "long": codec.Keys(key(strings.Repeat("k", 65), 1)),
		"not ASCII": codec.Keys(key("ключ", 1)), "second": codec.Keys(good, key("a/b", 1)),
		"twice": codec.Keys(good, key("k1", 2)), "no secret": codec.Keys(codec.Key{ID: "k1"}),
	} {
		if c, err := codec.New(codec.Config{Keys: keys}); err == nil {
			t.Errorf("%s: got the codec %v, want an error", name, c)
		}
	}
	for name, k := range map[string]codec.Key{"empty ID": key("", 1), "no secret": {ID: "k1"}} {
		c := newCodec(t, codec.Config{Keys: always{k}}) // the provider has no method Check
		if _, err := c.Seal(t.Context(), place, text(100)); !errors.As(err, new(*codec.KeyError)) {
			t.Errorf("%s of the active key: %v, want a KeyError", name, err)
		}
	}
	if _, err := codec.NewKey("a b"); err == nil {
		t.Error("NewKey accepted the ID \"a b\"")
	}
}

func TestOPS5_AKeyIsPrintedWithoutItsSecret(t *testing.T) {
	k, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		for _, v := range []any{k, &k, []codec.Key{k}, struct{ K codec.Key }{k}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, hex.EncodeToString(k.Secret[:4])) || strings.Contains(got, fmt.Sprint(k.Secret[0], k.Secret[1])) || !strings.Contains(got, "key k1") {
				t.Errorf("%s prints %s", verb, got)
			}
		}
	}
	parsed, err := codec.ParseKey(k.Text())
	if err != nil || parsed != k {
		t.Errorf("%s was parsed as another key (%v)", k, err)
	}
}

func TestOPS5_PayloadsAboveTheLimitAreRefused(t *testing.T) {
	c := newCodec(t, codec.Config{MaxSize: 1000})
	large := newCodec(t, codec.Config{})
	_, sealErr := c.Seal(t.Context(), place, text(1001))
	_, openErr := c.Open(t.Context(), place, seal(t, large, place, text(1001)))
	for _, err := range []error{sealErr, openErr} {
		if e, ok := errors.AsType[*codec.SizeError](err); !ok || e.Size != 1001 || e.Max != 1000 {
			t.Errorf("1001 bytes: %v, want a SizeError", err)
		}
	}
	if _, err := c.Open(t.Context(), place, seal(t, c, place, text(1000))); err != nil {
		t.Errorf("1000 bytes: %v", err)
	}
}

func TestOPS11_ALargePayloadIsStoredAsABlob(t *testing.T) {
	for _, keys := range []codec.KeyProvider{nil, codec.Keys(key("k1", 1))} {
		store := &blobs{}
		c := newCodec(t, codec.Config{Keys: keys, Blobs: store})
		large, nowhere := noise(1<<20), codec.Place{Owner: place.Owner, Field: place.Field}
		stored := seal(t, c, place, large)
		info, err := codec.Inspect(stored)
		if err != nil || len(stored) > 128 || len(store.data) != 1 || info.BlobSize < 1<<20 || len(store.data[chain+"/"+info.Blob]) != int(info.BlobSize) {
			t.Errorf("a large payload became %d bytes and %d blobs, described as %+v, %v", len(stored), len(store.data), info, err)
		}
		if got, err := c.Open(t.Context(), place, stored); err != nil || !bytes.Equal(got, large) {
			t.Errorf("a large payload was opened as %d bytes, %v", len(got), err)
		}
		for name, stored := range map[string][]byte{"compressible": seal(t, c, place, text(1<<20)), "without a prefix": seal(t, c, nowhere, large)} {
			if info, err := codec.Inspect(stored); err != nil || info.Blob != "" || len(store.data) != 1 {
				t.Errorf("%s: described as %+v, %v, with %d blobs, want no blob for it", name, info, err, len(store.data))
			}
		}
	}
}
