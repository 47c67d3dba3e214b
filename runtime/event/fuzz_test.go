package event_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

func addGoldens(f *testing.F) {
	entries, err := os.ReadDir(goldenDir)
	if err != nil {
		f.Fatal(err)
	}
	for _, entry := range entries {
		for _, record := range readGolden(f, strings.TrimSuffix(filepath.Base(entry.Name()), ".hex")) {
			f.Add(record)
		}
	}
}

// checkDecoded checks that err is nil, matches ErrCorrupt, or is a VersionError.
func checkDecoded(t *testing.T, err error) {
	t.Helper()
	var ve *event.VersionError
	if err != nil && !errors.Is(err, event.ErrCorrupt) && !errors.As(err, &ve) {
		t.Errorf("decode: %v, want ErrCorrupt or a VersionError", err)
	}
}

// allocated returns the number of bytes that a call of f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxPerByte is the maximum memory in bytes that decoding may use for each byte of input. The
// smallest event has 2 bytes and needs a whole Event.
const maxPerByte = 256

func FuzzDecodeFrame(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := event.DecodeFrame(b)
		checkDecoded(t, err)
		if len(b) < 4 {
			return
		}
		// A wrong checksum would end decoding early. Correct it, so that the remaining code is
		// tested.
		b = seal(b)
		var got *event.Frame
		if n := allocated(func() { got, err = event.DecodeFrame(b) }); n > uint64(len(b))*maxPerByte+1<<20 {
			t.Errorf("decoding %d bytes allocates %d", len(b), n)
		}
		checkDecoded(t, err)
		if err != nil {
			return
		}
		again, err := event.AppendFrame(nil, got)
		if err != nil {
			t.Fatalf("a frame that was decoded does not encode: %v", err)
		}
		reread, err := event.DecodeFrame(again)
		if err != nil {
			t.Fatalf("a frame that was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(got, reread); diff != "" {
			t.Fatalf("frame changed (-first +second):\n%s", diff)
		}
		state := event.LogState{}
		for i := range got.Events {
			_ = state.Apply(&got.Events[i]) // Apply refuses most events, but must not panic
		}
		_, _ = state.Status(), state.Due()
	})
}

func FuzzDecodeItem(f *testing.F) {
	addGoldens(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := event.DecodeItem(b)
		checkDecoded(t, err)
		if len(b) < 4 {
			return
		}
		got, err := event.DecodeItem(seal(b))
		checkDecoded(t, err)
		if err != nil {
			return
		}
		again, err := event.AppendItem(nil, got)
		if err != nil {
			t.Fatalf("an item that was decoded does not encode: %v", err)
		}
		reread, err := event.DecodeItem(again)
		if err != nil {
			t.Fatalf("an item that was encoded does not decode: %v", err)
		}
		if diff := cmp.Diff(got, reread); diff != "" {
			t.Fatalf("item changed (-first +second):\n%s", diff)
		}
	})
}

func FuzzParseRunID(f *testing.F) {
	f.Add(string(runA))
	f.Add("order-42")
	f.Add("wrun_81JZ8Q4M5N6P7R8S9TAVBWCXDY")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := event.ParseRunID(s)
		if err == nil && (string(id) != s || !idForm.MatchString(s)) {
			t.Errorf("ParseRunID(%q) = %q, which is not an id", s, id)
		}
		if err != nil && idForm.MatchString(s) && strings.HasPrefix(s, "wrun_") {
			t.Errorf("ParseRunID(%q): %v, but it has the form of an id", s, err)
		}
	})
}

func TestDecodeFrame_TakesMemoryInProportion(t *testing.T) {
	const n = 50_000
	smallest := slices.Repeat([][]byte{rawEvent(event.RunStarted)}, n)
	tests := map[string][]byte{
		"many events":            rawFrame(1, n, smallest...),
		"many causes":            rawFrame(1, 1, rawEvent(event.RunFailed, rawBytes(7, strings.Repeat(string(rawBytes(6, "")), n)))),
		"many tags":              rawFrame(1, 1, rawEvent(event.RunCreated, rawBytes(17, strings.Repeat(string(rawBytes(4, "")), n)))),
		"many unread items":      rawFrame(1, 1, rawEvent(event.RunFailed, []byte(strings.Repeat(string(rawBytes(18, "x")), n)))),
		"many unknown fields":    rawFrame(1, 1, rawEvent(event.RunCreated, []byte(strings.Repeat(string(rawBytes(30, "")), n)))),
		"many repeated failures": rawFrame(1, 1, rawEvent(event.RunFailed, []byte(strings.Repeat(string(rawBytes(7, "")), n)))),
	}
	for name, b := range tests {
		var err error
		took := allocated(func() { _, err = event.DecodeFrame(b) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if limit := uint64(len(b)) * maxPerByte; took > limit {
			t.Errorf("%s: decoding %d bytes allocates %d, want at most %d", name, len(b), took, limit)
		}
	}
}
