package archive_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

var update = flag.Bool("update", false, "write the golden file again")

const golden = "testdata/format1.jsonl"

var route = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// source is a store with one run of every kind.
type source struct {
	*memstore.Store
	t     *testing.T
	ids   *storetest.IDs
	clock *storetest.Clock
	runs  []event.RunID
}

// newSource returns a store with a chain of two runs and its streams, a failed run and an open run.
func newSource(t *testing.T) *source {
	t.Helper()
	clock := storetest.NewClock()
	s := &source{Store: memstore.NewWith(memstore.Config{Clock: clock}), t: t, ids: &storetest.IDs{}, clock: clock}
	t.Cleanup(func() { _ = s.Close() })
	first, fence := s.start(event.Spec{WorkflowID: "order-\xff\x00", Tags: map[string]string{"region": "<eu>"}, Priority: 3})
	c, second := first.Continue(fence, nil)
	c.Publish = []store.Publication{{Stream: "a", Body: []byte("dropped")}, {Stream: "a", Body: []byte("kept"), Keep: 1}, {Stream: "\xfe", Body: []byte{}, Close: true}, {Stream: "empty", Close: true}}
	s.commit(first, c)
	fence = s.own(second)
	s.end(second, fence, event.StatusCompleted, nil)
	bad, fence := s.start(event.Spec{Retention: time.Hour})
	s.end(bad, fence, event.StatusFailed, &store.FailureGroup{Group: "f1-0a", Kind: store.FailureKindFailed, Workflow: route.Workflow, Step: "charge", Text: "declined: §"})
	open, fence := s.start(event.Spec{Parent: second.Run, Root: first.Run})
	work := open.Commit(fence, open.Work()...)
	work.Status = event.StatusRunning
	s.commit(open, work)
	return s
}

func (s *source) start(spec event.Spec) (*storetest.Log, store.Fence) {
	s.t.Helper()
	spec.Workflow, spec.Queue = route.Workflow, route.Queue
	s.clock.Advance(time.Second)
	l := storetest.NewLog(s.ids, s.clock, s.ids.Run(s.clock.Now(), event.SlotOf(spec.WorkflowID)), spec)
	create := l.Create()
	create.Priority = spec.Priority
	if got, err := s.Create(s.t.Context(), []store.Create{create}); err != nil || got[0].Err != nil {
		s.t.Fatal(err, got)
	}
	return l, s.own(l)
}

func (s *source) own(l *storetest.Log) store.Fence {
	s.t.Helper()
	id := s.ids.Session()
	if err := s.OpenSession(s.t.Context(), store.Session{ID: id, TTL: time.Minute, Routes: []store.Route{route}}); err != nil {
		s.t.Fatal(err)
	}
	got, err := s.ClaimRun(s.t.Context(), 0, id, s.ids.Token(), l.Run)
	if err != nil {
		s.t.Fatal(err)
	}
	s.runs = append(s.runs, l.Run)
	return got.Fence
}

func (s *source) commit(l *storetest.Log, c store.Commit) {
	s.t.Helper()
	s.clock.Advance(time.Second)
	if got, err := s.Commit(s.t.Context(), []store.Commit{c}); err != nil || got[0].Err != nil {
		s.t.Fatal(err, got)
	}
	l.Accept(c)
}

func (s *source) end(l *storetest.Log, fence store.Fence, status event.Status, label *store.FailureGroup) {
	s.t.Helper()
	c := l.Commit(fence, l.End(status)...)
	c.Effect, c.Status, c.FailureGroup = store.EffectFinish, status, label
	s.commit(l, c)
}

// export exports runs, or all runs if none are given.
func (s *source) export(runs ...event.RunID) []byte {
	s.t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Head{Source: "memory", Exported: s.clock.Now()})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(runs) == 0 {
		runs = s.runs
	}
	x := archive.NewExporter(s, w, nil)
	for _, run := range runs {
		if err := x.Run(s.t.Context(), run); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return b.Bytes()
}

func file(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOPS1_TheFormatStays(t *testing.T) {
	got := newSource(t).export()
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the format has changed: raise archive.Format, and read both: (-want +got)\n%s", diff)
	}
}

func TestOPS1_AFileShowsWhatTheStoreHad(t *testing.T) {
	s, ctx := newSource(t), t.Context()
	got, err := archive.Open(file(t, s.export()))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	for _, run := range s.runs {
		for _, q := range []store.Load{{Run: run}, {Run: run, After: 1}, {Run: run, Limit: 1}, {Run: run, Limit: -1}, {Run: run, After: 99}} {
			same(t, fmt.Sprint(q), s.Store, got, func(st store.Store) (any, error) {
				all, err := st.Load(ctx, []store.Load{q})
				all[0].Record.Owner, all[0].Record.Fence.Token = "", event.Token{}
				return all, err
			})
		}
		for _, name := range []string{"a", "\xfe", "empty", "none"} {
			for _, q := range []store.ReadStream{{}, {From: 2}, {From: 3}, {Tail: 1}, {Tail: 9}, {Limit: -1}} {
				q.Run, q.Stream = run, name
				same(t, fmt.Sprint(q), s.Store, got, func(st store.Store) (any, error) { return st.ReadStream(ctx, q) })
			}
		}
		same(t, "streams", s.Store, got, func(st store.Store) (any, error) { return st.(store.StreamLister).StreamNames(ctx, run) })
	}
	for _, q := range []store.Query{{}, {Oldest: true}, {Limit: 1}, {Limit: 2, Oldest: true}, {Roots: true}, {Failing: true}, {Group: "f1-0a"}, {Parent: s.runs[1]}, {Root: s.runs[0]}, {Budget: 2}, {Statuses: []event.Status{event.StatusRunning}}} {
		for range 9 {
			var next string
			same(t, fmt.Sprint(q), s.Store, got, func(st store.Store) (any, error) {
				page, err := st.(store.Lister).List(ctx, q)
				next, page.Looked = page.Cursor, 0
				for i := range page.Runs {
					page.Runs[i].Owner, page.Runs[i].Fence.Token = "", event.Token{}
				}
				return page, err
			})
			if q.Cursor = next; next == "" {
				break
			}
		}
		q.Cursor = ""
		if q.Budget == 0 { // the store decides which runs a budget covers, so only queries without one are compared
			same(t, fmt.Sprint("count ", q), s.Store, got, func(st store.Store) (any, error) {
				n, err := st.(store.Lister).Count(ctx, q)
				n.Looked = 0
				return n, err
			})
		}
	}
	same(t, "resolve", s.Store, got, func(st store.Store) (any, error) { return st.Resolve(ctx, "order-\xff\x00") })
	same(t, "troubles", s.Store, got, func(st store.Store) (any, error) {
		return st.(store.FailureGroupLister).FailureGroups(ctx, store.FailureGroupQuery{})
	})
}

// same compares the results of ask for two stores.
func same(t *testing.T, what string, want, got store.Store, ask func(store.Store) (any, error)) {
	t.Helper()
	a, wantErr := ask(want)
	b, err := ask(got)
	if diff := cmp.Diff(a, b, cmp.Comparer(func(a, b event.CommitID) bool { return a == b }), cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" || (err == nil) != (wantErr == nil) {
		t.Errorf("%s: %v, want %v (-store +file)\n%s", what, err, wantErr, diff)
	}
}

func TestOPS1_AFileIsChangedByNobody(t *testing.T) {
	s, ctx := newSource(t), t.Context()
	f, err := archive.Open(file(t, s.export()))
	if err != nil {
		t.Fatal(err)
	}
	run := s.runs[0]
	for what, do := range map[string]func() error{
		"create":    func() error { _, err := f.Create(ctx, nil); return err },
		"open":      func() error { return f.OpenSession(ctx, store.Session{}) },
		"heartbeat": func() error { _, err := f.Heartbeat(ctx, 0, ""); return err },
		"reconcile": func() error { _, err := f.Reconcile(ctx, 0, ""); return err },
		"close":     func() error { return f.CloseSession(ctx, 0, "") },
		"claim":     func() error { _, err := f.Claim(ctx, store.Claim{}); return err },
		"claim run": func() error { _, err := f.ClaimRun(ctx, 0, "", event.Token{}, run); return err },
		"due":       func() error { _, err := f.Due(ctx, 0, 1); return err },
		"commit":    func() error { _, err := f.Commit(ctx, nil); return err },
		"release":   func() error { return f.Release(ctx, run, store.Fence{}) },
		"deliver":   func() error { _, err := f.Deliver(ctx, store.Deliver{Run: run}); return err },
		"outbox":    func() error { _, _, err := f.Outbox(ctx, 0, 1); return err },
		"mark":      func() error { return f.Mark(ctx, 0, nil) },
		"confirm":   func() error { return f.Confirm(ctx, run, "") },
		"publish":   func() error { return f.Publish(ctx, run, store.Fence{}, nil) },
		"delete":    func() error { return f.Delete(ctx, run) },
		"purge":     func() error { _, _, err := f.Purge(ctx, 0, 1); return err },
		"wait":      func() error { _, err := f.Wait(ctx, store.Wait{}); return err },
		"watch":     func() error { return f.Watch(ctx, s.runs[3], 2) },
		"await":     func() error { return f.AwaitStream(ctx, s.runs[3], "a", 0) },
	} {
		if err := do(); !errors.As(err, new(*store.ReadOnlyError)) || store.Unknown(err) {
			t.Errorf("%s: got %v, want a *store.ReadOnlyError", what, err)
		}
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if _, err := f.Load(ctx, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("load of a closed file: got %v, want %v", err, store.ErrClosed)
	}
}

// imports adds the runs of a file to a store, and returns the result for each run.
func imports(ctx context.Context, t *testing.T, b []byte, into store.Store) (all []archive.Imported) {
	t.Helper()
	err := archive.Import(ctx, bytes.NewReader(b), into, "somebody", func(got archive.Imported) { all = append(all, got) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOPS1_WhatIsImportedIsExportedAgainAsItWas(t *testing.T) {
	s := newSource(t)
	ended := s.runs[:3]
	want := s.export(ended...)
	into, err := sqlitestore.OpenWith(filepath.Join(t.TempDir(), "runs.db"), sqlitestore.Config{Clock: s.clock})
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	for _, fresh := range []bool{true, false} {
		for i, got := range imports(t.Context(), t, want, into) {
			if got.Run != ended[i] || got.Err != nil || got.Fresh != fresh {
				t.Errorf("run %d: got %+v, want new %v", i, got, fresh)
			}
		}
	}
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Head{Source: "memory", Exported: s.clock.Now()})
	if err != nil {
		t.Fatal(err)
	}
	x := archive.NewExporter(into, w, nil)
	for _, run := range []event.RunID{ended[1], ended[2], ended[0]} { // exporting a later run exports its chain, and no run is exported twice
		if err := x.Run(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(without(t, want), without(t, b.Bytes())); diff != "" {
		t.Errorf("exported again: (-want +got)\n%s", diff)
	}
}

// without returns the lines of a file without their sums and without retentions, which count from
// the import.
func without(t *testing.T, b []byte) (lines []string) {
	t.Helper()
	for line := range strings.Lines(string(b)) {
		if at := strings.Index(line, `,"retention":"`); at >= 0 {
			end := at + len(`,"retention":"`) + strings.Index(line[at+len(`,"retention":"`):], `"`) + 1
			line = line[:at] + line[end:]
		}
		lines = append(lines, line[:strings.LastIndex(line, `,"sum":`)])
	}
	return lines
}

func TestOPS1_OpenRunsAreNotImported(t *testing.T) {
	s := newSource(t)
	into := memstore.New()
	defer into.Close()
	all := imports(t.Context(), t, s.export(), into)
	if refused, ok := errors.AsType[*store.ImportError](all[3].Err); len(all) != 4 || !ok || refused.Why != store.ImportOpen {
		t.Errorf("imported: got %+v, want the last run refused", all)
	}
}

// TestOPS1_AnEditedLogIsNotTakenForTheSame proves that an import compares the logs of an existing
// run and not only the records. An edited file can have valid sums.
func TestOPS1_AnEditedLogIsNotTakenForTheSame(t *testing.T) {
	s := newSource(t)
	run := s.runs[2]
	loaded, err := s.Load(t.Context(), []store.Load{{Run: run}})
	if err != nil {
		t.Fatal(err)
	}
	first, err := event.DecodeFrame(loaded[0].Frames[0])
	if err != nil {
		t.Fatal(err)
	}
	first.Events[0].Payload = []byte(`{"n":2}`)
	edited, err := event.AppendFrame(nil, first)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Head{})
	if err != nil {
		t.Fatal(err)
	}
	rec := &loaded[0].Record
	label := store.FailureGroup{Group: rec.Group}
	if err := errors.Join(w.Run(rec, label, 0), w.Frame(1, edited), w.Frame(2, loaded[0].Frames[1]), w.Close()); err != nil {
		t.Fatal(err)
	}
	got := imports(t.Context(), t, b.Bytes(), s.Store)
	if refused, ok := errors.AsType[*store.ImportError](got[0].Err); !ok || refused.Why != store.ImportOther {
		t.Errorf("imported: got %+v, want it refused as another run", got)
	}
}

func TestOPS1_EveryByteOfAFileCounts(t *testing.T) {
	whole := newSource(t).export()
	if _, n, err := archive.Check(bytes.NewReader(whole)); err != nil || n != (archive.Counts{Runs: 4, Frames: 8, Streams: 3, Chunks: 2}) {
		t.Fatalf("check: %+v, %v", n, err)
	}
	refused := func(what string, b []byte) {
		t.Helper()
		if _, _, err := archive.Check(bytes.NewReader(b)); !errors.As(err, new(*archive.LineError)) {
			t.Errorf("%s: got %v, want a *archive.LineError", what, err)
		}
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		refused(fmt.Sprintf("byte %d of %q", i, whole[max(0, i-20):i+1]), changed)
		refused(fmt.Sprintf("cut off at %d", i), whole[:i])
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	for i := range lines {
		left := append(append([][]byte{}, lines[:i]...), lines[i+1:]...)
		refused(fmt.Sprintf("without line %d", i+1), bytes.Join(left, nil))
		twice := append(append([][]byte{}, lines[:i+1]...), lines[i:]...)
		refused(fmt.Sprintf("line %d twice", i+1), bytes.Join(twice, nil))
		if i > 0 {
			swapped := append([][]byte{}, lines...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			refused(fmt.Sprintf("lines %d and %d", i, i+1), bytes.Join(swapped, nil))
		}
	}
	refused("more behind the end", append(bytes.Clone(whole), '\n'))
}

// TestOPS1_LinesThatDoNotFitAreRefused proves that a reader validates the order and the numbers of
// the lines. An edited file can have valid sums.
func TestOPS1_LinesThatDoNotFitAreRefused(t *testing.T) {
	s := newSource(t)
	whole := s.export()
	if _, _, err := archive.Check(bytes.NewReader(archive.Resealed(whole, []byte(`{"line":"head","format":1}`)))); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"line":"head","format":2}`, `{"line":"head","x":1}`, `{"line":"frame","n":2,"body":"AA=="}`, `{"line":"frame","n":1}`, `{"line":"frame","n":1,"body":"?"}`,
		`{"line":"chunk","n":1,"body":"AA=="}`, `{"line":"chunk","n":2}`, `{"line":"stream","name":"a","first":3,"last":2}`, `{"line":"stream","name":"a","first":0,"last":0}`,
		`{"line":"stream","name":"","first":2,"last":2}`, `{"line":"stream","first":2,"last":2}`, `{"line":"stream","name":"a","first":1,"last":18446744073709551615}`,
		`{"line":"end","x":1}`, `{"line":"end","counts":{"runs":4,"frames":8,"streams":3,"chunks":3}}`, `{"line":"end","counts":{"runs":3,"frames":8,"streams":3,"chunks":2}}`,
		`{"line":"run","frames":2,"streams":3}`, `{"line":"run","run":{},"frames":2,"streams":3}`,
	} {
		_, _, err := archive.Check(bytes.NewReader(archive.Resealed(whole, []byte(line))))
		if !errors.As(err, new(*archive.LineError)) {
			t.Errorf("%s: got %v, want a *archive.LineError", line, err)
		}
	}
}

// dropping is a store with a stream that loses chunks while a caller reads it.
type dropping struct{ *memstore.Store }

func (d dropping) ReadStream(ctx context.Context, q store.ReadStream) (store.StreamPage, error) {
	page, err := d.Store.ReadStream(ctx, q)
	if q.From > 0 && len(page.Chunks) > 0 {
		page.Chunks = page.Chunks[1:]
	} else if len(page.Chunks) > 0 {
		page.Chunks = page.Chunks[:1]
	}
	return page, err
}

func TestOPS1_AStreamThatLosesChunksMeanwhileIsNotExported(t *testing.T) {
	s := newSource(t)
	l, fence := s.start(event.Spec{})
	c := l.Commit(fence, l.Work()...)
	c.Publish = []store.Publication{{Stream: "a", Body: []byte("1")}, {Stream: "a", Body: []byte("2")}, {Stream: "a", Body: []byte("3")}}
	s.commit(l, c)
	w, err := archive.NewWriter(io.Discard, archive.Head{})
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.NewExporter(dropping{s.Store}, w, nil).Run(t.Context(), l.Run); err == nil || !strings.Contains(err.Error(), "chunk 2 was dropped") {
		t.Errorf("export: got %v, want that chunk 2 was dropped", err)
	}
}

func TestOPS1_AFileThatCannotBeReadIsNotDamaged(t *testing.T) {
	broken := errors.New("broken disk")
	whole := newSource(t).export()
	r := io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failing{broken})
	if _, _, err := archive.Check(r); !errors.Is(err, broken) || errors.As(err, new(*archive.LineError)) {
		t.Errorf("check: got %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzReader(f *testing.F) {
	whole, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"line":"head","format":1,"sum":"0000000000000000"}` + "\n"))
	for line := range bytes.Lines(whole) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, n, err := archive.Check(bytes.NewReader(b))
		if err == nil && n.Runs > 0 && n.Frames < n.Runs {
			t.Errorf("%+v: %+v has runs without logs", head, n)
		}
	})
}

// FuzzImport imports files with valid sums and arbitrary contents. It checks that only valid runs
// are imported.
func FuzzImport(f *testing.F) {
	whole, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(whole) {
		f.Add(bytes.TrimSpace(line[:bytes.LastIndex(line, []byte(`,"sum":`))]))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := archive.Resealed(whole, append(bytes.Clone(body), '}'))
		into := memstore.New()
		defer into.Close()
		_ = archive.Import(t.Context(), bytes.NewReader(b), into, "fuzz", func(archive.Imported) {})
		for _, found := range fsck.Check(inspect(t, into)) {
			t.Error(found)
		}
	})
}

func inspect(t *testing.T, s *memstore.Store) *store.Snapshot {
	t.Helper()
	snap, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}
