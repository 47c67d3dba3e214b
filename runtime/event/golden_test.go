package event_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

var update = flag.Bool("update", false, "write the golden files of the current wire version; never after its release")

const goldenDir = "testdata/v1"

// goldenFrames returns the contents of each golden file of frames.
func goldenFrames() map[string][]*event.Frame {
	files := map[string][]*event.Frame{}
	for typ, e := range exampleEvents() {
		files["event_"+typ.String()] = []*event.Frame{{
			CommitID: cid(1), Prev: cid(101), Epoch: 300, Token: event.Token{8, 7, 6, 5, 4, 3, 2, 1}, Time: at(0), Events: []event.Event{e},
		}}
	}
	files["event_everything"] = []*event.Frame{{CommitID: cid(1), Epoch: 1 << 40, Time: at(0), Events: []event.Event{everything()}}}
	files["event_attributes"] = []*event.Frame{{CommitID: cid(1), Time: at(0), Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: at(0), Spec: &event.Spec{Workflow: "w", Queue: "q", Attributes: map[string]string{"principal": "ada", "tenant": "acme"}, Build: "0123456789ab"}},
		{Seq: 2, Type: event.MessageReceived, Time: at(0), Name: "approval", Item: "key:1", By: "eve", Attributes: map[string]string{"empty": "", "traceparent": "00-1-2-01"}},
	}}}
	files["event_pinned"] = []*event.Frame{{CommitID: cid(1), Time: at(0), Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: at(0), Spec: &event.Spec{Workflow: "w", Queue: "q", Build: "0123456789ab", Pin: "v1.2.3-rc.1+linux"}},
	}}}
	for name, log := range exampleLogs() {
		files["log_"+name] = framed(log, 3)
	}
	return files
}

func goldenItems() map[string]*event.Event {
	return map[string]*event.Event{
		"item_message": {Type: event.MessageReceived, Name: "approval", Payload: []byte(`{"ok":true}`), By: "api"},
		"item_traced":  {Type: event.AskReceived, Name: "set-limit", Payload: []byte(`100`), By: "api", Attributes: map[string]string{"tenant": "acme", "traceparent": "00-1-2-01"}},
		"item_input":   {Type: event.InputReceived, Payload: []byte(`{"n":1}`)},
		"item_cancel":  {Type: event.CancelRequested, Reason: "customer left", By: "api"},

		"item_hook": {Type: event.HookReceived, Token: "order-42/paid", Payload: []byte(`{"ok":true}`)},
		"item_step": {Type: event.HookReceived, Token: "wrun_7.secret", Key: "call-7", Failure: declined(), Payload: []byte(`{"fatal":true}`)},
		"item_ask":  {Type: event.AskReceived, Name: "set-limit", Payload: []byte(`100`)},

		"item_stream_written": {Type: event.StreamWritten, Name: "tokens", Key: "fulfil/orders.write#1", Attempt: 2, Payload: []byte{1, 2, 3}},

		"item_resource_wait": {Type: event.ResourceWait, Key: "fulfil/orders.render#1", Next: runB, From: at(0), Uses: []event.Use{{Limit: "gpu", Weight: 2}}},

		"item_child_failed": {Type: event.ChildFailed, Key: "fulfil/orders.invoice#1", Next: runB, Failure: declined()},
	}
}

// readGolden returns the records of a golden file. A record is a block of hexadecimal lines; empty
// lines separate records.
func readGolden(t testing.TB, name string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(goldenDir, name+".hex"))
	if err != nil {
		t.Fatalf("%v (a new golden file is written by -update)", err)
	}
	var records [][]byte
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		record, err := hex.DecodeString(strings.ReplaceAll(block, "\n", ""))
		if err != nil {
			t.Fatalf("%s.hex: %v", name, err)
		}
		records = append(records, record)
	}
	return records
}

func writeGolden(t *testing.T, name string, records [][]byte) {
	t.Helper()
	var text bytes.Buffer
	for i, record := range records {
		if i > 0 {
			text.WriteByte('\n')
		}
		for len(record) > 0 {
			n := min(len(record), 32)
			text.WriteString(hex.EncodeToString(record[:n]) + "\n")
			record = record[n:]
		}
	}
	if err := os.WriteFile(filepath.Join(goldenDir, name+".hex"), text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func checkGolden(t *testing.T, name string, encoded [][]byte) {
	t.Helper()
	if *update {
		writeGolden(t, name, encoded)
	}
	if diff := cmp.Diff(readGolden(t, name), encoded); diff != "" {
		t.Errorf("this release writes other bytes than %s.hex (-golden +now):\n%s", name, diff)
	}
}

func TestGolden_FramesKeepTheirBytesAndValues(t *testing.T) {
	for name, frames := range goldenFrames() {
		t.Run(name, func(t *testing.T) {
			var encoded [][]byte
			for _, f := range frames {
				encoded = append(encoded, encode(t, f))
			}
			checkGolden(t, name, encoded)
			for i, record := range readGolden(t, name) {
				got, err := event.DecodeFrame(record)
				if err != nil {
					t.Fatalf("decode frame %d: %v", i, err)
				}
				if diff := cmp.Diff(frames[i], got); diff != "" {
					t.Errorf("frame %d reads as another value (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestGolden_ItemsKeepTheirBytesAndValues(t *testing.T) {
	for name, want := range goldenItems() {
		t.Run(name, func(t *testing.T) {
			encoded, err := event.AppendItem(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, name, [][]byte{encoded})
			for _, record := range readGolden(t, name) {
				got, err := event.DecodeItem(record)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("item reads as another value (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestGolden_EveryFileIsChecked(t *testing.T) {
	entries, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	frames, items := goldenFrames(), goldenItems()
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".hex")
		if frames[name] == nil && items[name] == nil {
			t.Errorf("%s/%s belongs to no test: a golden file of a release is never given up", goldenDir, entry.Name())
		}
	}
}

func TestGolden_LogsLeadToTheirStatus(t *testing.T) {
	want := map[string]event.Status{
		"log_completed":  event.StatusCompleted,
		"log_failed":     event.StatusFailed,
		"log_cancelled":  event.StatusCanceled,
		"log_continued":  event.StatusContinued,
		"log_parent":     event.StatusCompleted,
		"log_controlled": event.StatusFailed,
		"log_delayed":    event.StatusFailed,
		"log_streaming":  event.StatusCompleted,
		"log_heard":      event.StatusCompleted,
		"log_answered":   event.StatusCompleted,
		"log_limited":    event.StatusCompleted,
		"log_gathered":   event.StatusRunning,
		"log_pending":    event.StatusCompleted,
	}
	for name := range goldenFrames() {
		if !strings.HasPrefix(name, "log_") {
			continue
		}
		var state event.LogState
		for _, record := range readGolden(t, name) {
			f, err := event.DecodeFrame(record)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range f.Events {
				if err := state.Apply(&f.Events[i]); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		if got := state.Status(); got != want[name] {
			t.Errorf("%s leads to %q, want %q", name, got, want[name])
		}
	}
}

func TestDecode_RefusesNewerVersionsByName(t *testing.T) {
	decoders := map[string]func([]byte) error{
		"log_completed": func(b []byte) error { _, err := event.DecodeFrame(b); return err },
		"item_message":  func(b []byte) error { _, err := event.DecodeItem(b); return err },
	}
	for name, decode := range decoders {
		for _, record := range readGolden(t, name) {
			record[1] = event.SealedVersion + 1
			err := decode(seal(record))
			var ve *event.VersionError
			if !errors.As(err, &ve) {
				t.Fatalf("%s of version 3: %v, want a VersionError", name, err)
			}
			if diff := cmp.Diff(&event.VersionError{Got: 3, Known: 2}, ve); diff != "" {
				t.Error(diff)
			}
			if text := err.Error(); !strings.Contains(text, "version 3") || !strings.Contains(text, "up to 2") {
				t.Errorf("error %q does not name both versions", text)
			}
			if errors.Is(err, event.ErrCorrupt) {
				t.Errorf("error %q calls a newer frame corrupt", err)
			}
		}
	}
}
