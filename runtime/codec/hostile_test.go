package codec_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
)

// refused reports whether err is one of the types that Open documents.
func refused(err error) bool {
	for _, target := range []any{new(*codec.DamagedError), new(*codec.VersionError), new(*codec.SizeError), new(*codec.KeyError), new(*codec.BlobError)} {
		if errors.As(err, target) {
			return true
		}
	}
	return false
}

func TestOPS5_AnAlteredPayloadIsRefused(t *testing.T) {
	for kind, cfg := range configs() {
		c := newCodec(t, cfg)
		for name, plain := range map[string][]byte{"small": []byte("\xf8{}"), "large": text(600)} {
			stored := seal(t, c, place, plain)
			if !codec.IsSealed(stored) {
				continue
			}
			refuse := func(how string, at int, altered []byte) {
				t.Helper()
				got, err := c.Open(t.Context(), place, altered)
				if err == nil || !refused(err) {
					t.Errorf("%s, %s, %s %d: opened as %.40q, %v", kind, name, how, at, got, err)
				}
				if _, err := codec.Inspect(altered); err != nil && !refused(err) {
					t.Errorf("%s, %s, %s %d: Inspect returned %v", kind, name, how, at, err)
				}
			}
			for n := 1; n < len(stored); n++ {
				refuse("truncated to", n, stored[:n])
			}
			for i := 8; i < 8*len(stored); i++ { // without the marker
				altered := bytes.Clone(stored)
				altered[i/8] ^= 1 << (i % 8)
				refuse("flipped bit", i, altered)
			}
			for i := range len(stored) {
				refuse("inserted at", i+1, slices.Insert(bytes.Clone(stored), i+1, 0))
			}
			padded := append(bytes.Clone(stored), 0) // another form of the size of a blob
			padded[len(padded)-2] |= 0x80
			refuse("padded", 0, padded)
			refuse("doubled", 0, append(bytes.Clone(stored), stored...))
		}
	}
}

func TestOPS5_InspectFindsWrongSizesWithoutAKey(t *testing.T) {
	store := &blobs{}
	keys := codec.Keys(key("k1", 1))
	for kind, cfg := range map[string]codec.Config{"inline": {Keys: keys, CompressAbove: -1}, "offloaded": {Keys: keys, CompressAbove: -1, Blobs: store, OffloadAbove: 1}, "plain": {}} {
		stored := seal(t, newCodec(t, cfg), place, []byte("\xf8 payload"))
		for n := range stored {
			if info, err := codec.Inspect(stored[:n]); n > 0 && !refused(err) {
				t.Errorf("%s, truncated to %d bytes: %+v, %v", kind, n, info, err)
			}
		}
		for size := range byte(127) { // the size of the payload is the third byte
			altered := bytes.Clone(stored)
			altered[2] = size
			if info, err := codec.Inspect(altered); refused(err) == (size == stored[2]) {
				t.Errorf("%s, size %d instead of %d: %+v, %v", kind, size, stored[2], info, err)
			}
		}
	}
}

func TestOPS5_UnknownFlagsAreOfANewerRelease(t *testing.T) {
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))})
	stored := seal(t, c, place, text(100))
	for bit := 3; bit < 8; bit++ {
		altered := bytes.Clone(stored)
		altered[1] |= 1 << bit
		_, openErr := c.Open(t.Context(), place, altered)
		_, inspectErr := codec.Inspect(altered)
		for _, err := range []error{openErr, inspectErr} {
			if newer, ok := errors.AsType[*codec.VersionError](err); !ok || newer.Flags != 1<<bit || !strings.Contains(err.Error(), "use a newer release") {
				t.Errorf("flag %#x: %v, want a VersionError", 1<<bit, err)
			}
		}
	}
}

func TestOPS5_AKeyIDThatIsNoIDIsRefused(t *testing.T) {
	stored := seal(t, newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}), place, text(100))
	for _, id := range []string{"k\n", "k\x1b", "\xff\xfe", "k "} {
		altered := bytes.Replace(stored, []byte("k1"), []byte(id), 1)
		if _, err := codec.Inspect(altered); err == nil || strings.Contains(err.Error(), id) {
			t.Errorf("key ID %q: %v, want an error without it", id, err)
		}
	}
}

func TestOPS11_AMissingOrAlteredBlobIsABlobError(t *testing.T) {
	store := &blobs{}
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1)), Blobs: store})
	stored := seal(t, c, place, noise(300<<10))
	info, err := codec.Inspect(stored)
	if err != nil {
		t.Fatal(err)
	}
	name := chain + "/" + info.Blob
	good := store.data[name]
	altered := bytes.Clone(good)
	altered[1000] ^= 1
	for what, data := range map[string][]byte{"altered": altered, "truncated": good[:len(good)-1], "longer": append(bytes.Clone(good), 0), "empty": nil} {
		store.data[name] = data
		_, err := c.Open(t.Context(), place, stored)
		if e, ok := errors.AsType[*codec.BlobError](err); !ok || e.Name != name || errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("%s: %v, want a BlobError", what, err)
		}
	}
	delete(store.data, name)
	_, missingErr := c.Open(t.Context(), place, stored)
	elsewhere := place
	elsewhere.Blobs = nil
	_, nowhereErr := c.Open(t.Context(), elsewhere, stored)
	for _, err := range []error{missingErr, nowhereErr} {
		if e, ok := errors.AsType[*codec.BlobError](err); !ok || !strings.Contains(e.Name, info.Blob) || !errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("missing: %v, want a BlobError that matches ErrBlobNotFound", err)
		}
	}
	_, err = newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1))}).Open(t.Context(), place, stored)
	if e, ok := errors.AsType[*codec.BlobError](err); !ok || e.Name != name {
		t.Errorf("without a blob store: %v, want a BlobError", err)
	}
	store.data[name] = good
	if _, err := c.Open(t.Context(), place, stored); err != nil {
		t.Errorf("after the blob was restored: %v", err)
	}
}

func TestOPS11_ABlobOfAnotherChainIsFoundByItsPrefix(t *testing.T) {
	store := &blobs{}
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k1", 1)), Blobs: store})
	stored := seal(t, c, place, noise(300<<10))
	moved := place
	moved.Blobs = func(context.Context) (string, error) { return "IMPORTED", nil }
	for name, data := range maps.Clone(store.data) {
		store.data[strings.Replace(name, chain, "IMPORTED", 1)] = data
		delete(store.data, name)
	}
	if _, err := c.Open(t.Context(), moved, stored); err != nil {
		t.Errorf("a payload whose blob has another prefix: %v", err)
	}
}

func TestOPS11_AFailingBlobStoreLeavesNoStoredForm(t *testing.T) {
	full := errors.New("no space left on device")
	c := newCodec(t, codec.Config{Blobs: &blobs{err: full}})
	stored, err := c.Seal(t.Context(), place, noise(300<<10))
	if e, ok := errors.AsType[*codec.BlobError](err); stored != nil || !ok || e.Name == "" || !errors.Is(err, full) {
		t.Errorf("got %d bytes and %v, want a BlobError with the cause", len(stored), err)
	}
}

func FuzzOpen(f *testing.F) {
	keys := codec.Keys(key("k1", 1))
	codecs := []*codec.Codec{newCodec(f, codec.Config{Keys: keys, Blobs: &blobs{}, MaxSize: 1 << 20}), newCodec(f, codec.Config{MaxSize: 1 << 20})}
	for _, cfg := range configs() {
		c := newCodec(f, cfg)
		for _, plain := range []string{"\xf8", `{"a":1}`, string(text(700))} {
			stored, err := c.Seal(f.Context(), place, []byte(plain))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(stored)
		}
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		info, inspectErr := codec.Inspect(stored)
		if inspectErr != nil && !refused(inspectErr) {
			t.Errorf("Inspect returned %v", inspectErr)
		}
		for _, c := range codecs {
			plain, err := c.Open(t.Context(), place, stored)
			if err != nil && !refused(err) {
				t.Errorf("Open returned %v", err)
			}
			if err == nil && (inspectErr != nil || info.PlainSize != int64(len(plain))) {
				t.Errorf("opened %d bytes, described as %+v, %v", len(plain), info, inspectErr)
			}
		}
	})
}

func FuzzSeal(f *testing.F) {
	f.Add("run", "field", []byte(`{"a":1}`))
	f.Add("", "", []byte{0xF8})
	f.Add("run", "field", bytes.Repeat([]byte("ab"), 1000))
	f.Fuzz(func(t *testing.T, owner, field string, plain []byte) {
		at := codec.Place{Owner: owner, Field: field, Blobs: inChain}
		for kind, cfg := range configs() {
			c := newCodec(t, cfg)
			got, err := c.Open(t.Context(), at, seal(t, c, at, plain))
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s: %q was opened as %q, %v", kind, plain, got, err)
			}
		}
	})
}
