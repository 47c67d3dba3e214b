package codec_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/codec"
)

var update = flag.Bool("update", false, "write testdata/v1.txt")

// TestOPS5_StoredFormsStayReadable compares the stored forms of all kinds of payloads with those in
// v1.txt, and opens these and the ones of earlier.txt. A stored form may change with the compressor
// or with the function that computes salts: then add the old lines to earlier.txt.
func TestOPS5_StoredFormsStayReadable(t *testing.T) {
	path := filepath.Join("testdata", "v1.txt")
	plain := map[string][]byte{"small": []byte(`{"order":17}`), "marker": []byte("\xf8\x00"), "large": text(600)}
	var lines strings.Builder
	kinds := configs()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		cfg := kinds[kind]
		c := newCodec(t, cfg)
		for _, name := range slices.Sorted(maps.Keys(plain)) {
			stored := seal(t, c, place, plain[name])
			if !codec.IsSealed(stored) {
				continue
			}
			lines.WriteString(strings.ReplaceAll(kind, " ", "-") + " " + name + " " + hex.EncodeToString(stored))
			if b, ok := cfg.Blobs.(*blobs); ok {
				for blob, data := range b.data {
					lines.WriteString(" " + blob + "=" + hex.EncodeToString(data))
				}
				clear(b.data)
			}
			lines.WriteString("\n")
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), lines.String()); diff != "" {
		t.Errorf("stored forms differ (-golden +now):\n%s", diff)
	}
	store := &blobs{data: map[string][]byte{}}
	c := newCodec(t, codec.Config{Keys: codec.Keys(key("k3", 3), key("k2", 2)), Blobs: store})
	earlier, err := os.ReadFile(filepath.Join("testdata", "earlier.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(golden) + string(earlier)) {
		fields := strings.Fields(line)
		for _, blob := range fields[3:] {
			name, data, _ := strings.Cut(blob, "=")
			store.data[name] = unhex(t, data)
		}
		got, err := c.Open(t.Context(), place, unhex(t, fields[2]))
		if err != nil || !bytes.Equal(got, plain[fields[1]]) {
			t.Errorf("%s, %s: opened as %q, %v", fields[0], fields[1], got, err)
		}
	}
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
