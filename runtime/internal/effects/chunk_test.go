package effects

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

const run = event.RunID("wrun_01JGFJJZ00000000000000000A")

func TestChunk_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Chunk{Value: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "value")}
		if rapid.Bool().Draw(t, "of a step") {
			want.Run, want.Key, want.Attempt = run, rapid.String().Draw(t, "key"), int(rapid.Int32Min(1).Draw(t, "attempt"))
		}
		got, err := DecodeChunk(AppendChunk(nil, &want))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestBatch_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Batch{Keep: int(rapid.Int32Min(0).Draw(t, "keep"))}
		for range rapid.IntRange(0, 4).Draw(t, "chunks") {
			want.Bodies = append(want.Bodies, rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "body"))
		}
		got, err := DecodeBatch(want.Encode())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// TestChunk_KeepsItsBytes proves that the stored form of a chunk does not change. The stores keep
// chunks for as long as the runs.
func TestChunk_KeepsItsBytes(t *testing.T) {
	for want, c := range map[string]Chunk{
		"\x01\x00\"hi\"": {Value: []byte(`"hi"`)},
		"\x01\x02\x1f" + string(run) + "\x05f/g#1" + "7": {Value: []byte("7"), Run: run, Key: "f/g#1", Attempt: 2},
	} {
		if got := AppendChunk(nil, &c); string(got) != want {
			t.Errorf("%+v is stored as %q, want %q", c, got, want)
		}
	}
	b := Batch{Keep: 3, Bodies: [][]byte{[]byte("ab"), []byte("c")}}
	if got, want := string(b.Encode()), "\x01\x03\x02ab\x01c"; got != want {
		t.Errorf("a batch travels as %q, want %q", got, want)
	}
}

func TestDecodeChunk_RefusesDamageAndNewerVersions(t *testing.T) {
	whole := AppendChunk(nil, &Chunk{Run: run, Key: "key", Attempt: 300})
	batch := (&Batch{Keep: 300, Bodies: [][]byte{bytes.Repeat([]byte("x"), 200)}}).Encode()
	for n := range whole {
		if _, err := DecodeChunk(whole[:n]); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("a chunk cut at %d: %v, want ErrCorrupt", n, err)
		}
	}
	for n := range batch {
		if _, err := DecodeBatch(batch[:n]); n != 3 && !errors.Is(err, event.ErrCorrupt) { // the first 3 bytes are a valid batch without chunks
			t.Errorf("a batch cut at %d: %v, want ErrCorrupt", n, err)
		}
	}
	whole[0], batch[0] = version+1, version+1
	_, err1 := DecodeChunk(whole)
	_, err2 := DecodeBatch(batch)
	for _, err := range []error{err1, err2} {
		if err == nil || errors.Is(err, event.ErrCorrupt) || !strings.Contains(err.Error(), "version 2") || !strings.Contains(err.Error(), "up to 1") {
			t.Errorf("a newer version: %v, want an error that names both", err)
		}
	}
}
