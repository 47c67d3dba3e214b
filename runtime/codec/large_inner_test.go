package codec

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestOPS11_ALargePayloadIsConvertedInOneBuffer proves that sealing a large payload takes one buffer
// of its size, and opening it one for the blob, in addition to one for a compressed payload.
func TestOPS11_ALargePayloadIsConvertedInOneBuffer(t *testing.T) {
	const size = 16 << 20
	blobs, err := NewFileBlobs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	c, err := New(Config{Keys: Keys(must(NewKey("k1"))), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	random := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	text := bytes.Clone(random)
	for i := range text {
		text[i] = 'a' + text[i]&31
	}
	for _, payload := range []struct {
		name       string
		plain      []byte
		seal, open int // MiB
	}{{"random", random, 17, 17}, {"text", text, 17, 28}} {
		var stored, opened []byte
		seal := func() {
			if stored, err = c.Seal(t.Context(), Place{Blobs: place}, payload.plain); err != nil {
				t.Fatal(err)
			}
		}
		open := func() {
			if opened, err = c.Open(t.Context(), Place{Blobs: place}, stored); err != nil {
				t.Fatal(err)
			}
		}
		if used := allocated(seal); used > payload.seal<<20 {
			t.Errorf("%s: sealing %d bytes allocates %d bytes", payload.name, size, used)
		}
		if used := allocated(open); used > payload.open<<20 {
			t.Errorf("%s: opening %d bytes allocates %d bytes", payload.name, size, used)
		}
		if !bytes.Equal(opened, payload.plain) {
			t.Errorf("%s: the opened payload differs", payload.name)
		}
	}
}

// allocated returns the bytes that f allocates, apart from what it keeps for its next call.
func allocated(f func()) int {
	least := math.MaxInt
	for range 4 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, int(after.TotalAlloc-before.TotalAlloc))
	}
	return least
}

func place(context.Context) (string, error) { return "wrun_1", nil }
