package record_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/step"
)

func TestRecord_TellsWhatBeganAndHowItEnded(t *testing.T) {
	dir := t.TempDir()
	before := time.Now()
	write := func(worker string, f func(w *record.Writer) error) {
		t.Helper()
		w, err := record.NewWriter(dir, worker)
		if err != nil {
			t.Fatal(err)
		}
		if err := f(w); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a, b := step.Call{RunID: "a", Key: `odd "key" [1 2]`, Attempt: 1}, step.Call{RunID: "b", Key: "k", Attempt: 2}
	write("w1", func(w *record.Writer) error {
		return errorsOf(w.Begin(a), w.Begin(b), w.End(b, record.Failed), w.End(a, record.Done))
	})
	write("w2", func(w *record.Writer) error { return w.Begin(b) })

	got, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Execution{
		{Worker: "w1", Run: "a", Key: a.Key, Attempt: 1, Outcome: record.Done},
		{Worker: "w1", Run: "b", Key: "k", Attempt: 2, Outcome: record.Failed},
		{Worker: "w2", Run: "b", Key: "k", Attempt: 2},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(record.Execution{}, "Began", "Ended")); diff != "" {
		t.Errorf("executions (-want +got):\n%s", diff)
	}
	for _, x := range got {
		if x.Began.Before(before) || x.Ended.IsZero() != (x.Outcome == record.Unknown) || x.Outcome != record.Unknown && x.Ended.Before(x.Began) {
			t.Errorf("%+v began and ended at strange times", x)
		}
	}
	if !record.Exists(dir, "w1") || record.Exists(dir, "w3") {
		t.Error("it is not known which workers have records")
	}
}

func errorsOf(errs ...error) error {
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

func TestRecord_TwoWorkersDoNotShareAName(t *testing.T) {
	dir := t.TempDir()
	w, err := record.NewWriter(dir, "w")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := record.NewWriter(dir, "w"); err == nil {
		t.Error("a second one was made")
	}
}

func TestRecord_DamagedLinesAreErrorsThatNameThem(t *testing.T) {
	for line, want := range map[string]string{
		"began 1 r 1":           "five fields",
		"began x r 1 \"k\"":     "parsing",
		"began 1 r x \"k\"":     "parsing",
		"began 1 r 1 k":         "key k",
		"danced 1 r 1 \"k\"":    "danced",
		"done 1 r 1 \"k\"":      "not begun",
		"began 1 r 1 \"torn\nx": "key",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "w.steps"), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := record.Read(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q gives %v, want line 1 and %q", line, err, want)
		}
	}
}
