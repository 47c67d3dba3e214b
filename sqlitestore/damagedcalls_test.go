package sqlitestore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// file is a store with a fake clock. A session owns its runs.
type file struct {
	*sqlitestore.Store
	t     *testing.T
	path  string
	clock *storetest.Clock
	logs  map[event.RunID]*storetest.Log
}

func newFile(t *testing.T) *file {
	f := &file{t: t, path: filepath.Join(t.TempDir(), "runs.db"), clock: storetest.NewClock(), logs: map[event.RunID]*storetest.Log{}}
	f.Store = openStore(t, f.path, f.clock)
	for _, l := range start(t, f, 150) {
		f.logs[l.Run] = l
	}
	f.session("before", "the code of before")
	return f
}

func (f *file) session(id store.SessionID, code string) {
	f.t.Helper()
	check(f.t, f.OpenSession(testContext(f.t), store.Session{ID: id, Worker: "test", TTL: time.Hour, Routes: routes, Fingerprint: code}))
}

// commitAll claims all runs, and commits to each.
func (f *file) commitAll(change func(l *storetest.Log, c *store.Commit)) {
	f.t.Helper()
	claimed := claim(f.t, f, "before", len(f.logs))
	if len(claimed) != len(f.logs) {
		f.t.Fatalf("claimed %d runs, want %d", len(claimed), len(f.logs))
	}
	for _, r := range claimed {
		c := f.logs[r.Run].Commit(r.Fence)
		change(f.logs[r.Run], &c)
		answers, err := f.Commit(testContext(f.t), []store.Commit{c})
		check(f.t, err)
		check(f.t, answers[0].Err)
	}
}

// overwrite overwrites the page in the middle of the table runs. It returns the runs that are still
// readable.
func (f *file) overwrite() map[event.RunID]bool {
	f.t.Helper()
	check(f.t, f.Close())
	overwrite(f.t, f.path, "runs", middle)
	f.Store = openStore(f.t, f.path, f.clock)
	innocent := map[event.RunID]bool{}
	for run := range f.logs {
		loaded, err := f.Load(testContext(f.t), []store.Load{{Run: run, Limit: -1}})
		check(f.t, err)
		if loaded[0].Err == nil {
			innocent[run] = true
		}
	}
	if len(innocent) < 20 || len(innocent) == len(f.logs) {
		f.t.Fatalf("%d of %d runs are beside the page", len(innocent), len(f.logs))
	}
	return innocent
}

func TestREC10_PurgesLeaveOutRunsOfADamagedPage(t *testing.T) {
	f := newFile(t)
	f.commitAll(func(l *storetest.Log, c *store.Commit) {
		*c = l.Commit(c.Fence, append(l.Work(), l.End(event.StatusCompleted)...)...)
		c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	})
	innocent := f.overwrite()
	f.clock.Advance(store.DefaultRetention)
	n, next, err := f.Purge(testContext(t), 0, 1000)
	if err != nil || n < len(innocent)/3 || !next.IsZero() {
		t.Errorf("purge: got %d runs, the next at %v, %v, want %d and none", n, next, err, len(innocent))
	}
	page, err := f.List(testContext(t), store.Query{Limit: 1000})
	if err != nil || len(page.Runs) != len(innocent)-n {
		t.Errorf("list: got %d runs, %v, want %d", len(page.Runs), err, len(innocent)-n)
	}
	// SQLite cannot merge an empty page with a damaged one, so a readable run beside the page may
	// remain.
	told := map[event.RunID]bool{}
	for _, d := range f.Damage() {
		told[d.Run] = true
	}
	for _, r := range page.Runs {
		if !told[r.Run] {
			t.Errorf("run %s was not purged, and nothing was told of it", r.Run)
		}
	}
}

func TestREC10_BlockedRunsOfADamagedPageKeepNoOther(t *testing.T) {
	f := newFile(t)
	f.commitAll(func(_ *storetest.Log, c *store.Commit) { c.Effect, c.Status = store.EffectBlock, event.StatusBlocked })
	innocent := f.overwrite()
	f.session("after", "other code")
	got := map[event.RunID]bool{}
	for _, r := range claim(t, f, "after", 1000) {
		got[r.Run] = true
	}
	if diff := cmp.Diff(innocent, got); diff != "" {
		t.Errorf("blocked runs that were claimed (-want +got):\n%s", diff)
	}
}

func TestREC10_ASessionKeepsItsRunsBesideADamagedPage(t *testing.T) {
	f := newFile(t)
	if got := claim(t, f, "before", 1000); len(got) != 150 {
		t.Fatalf("claimed %d runs, want 150", len(got))
	}
	for run := range f.logs {
		_, err := f.Deliver(testContext(t), store.Deliver{Run: run, Item: store.Item{ID: event.NewItemID()}})
		check(t, err)
	}
	innocent := f.overwrite()
	beat, err := f.Heartbeat(testContext(t), 0, "before")
	check(t, err)
	owned, err := f.Reconcile(testContext(t), 0, "before")
	check(t, err)
	woken, err := f.Wait(testContext(t), store.Wait{Sessions: []store.WaitSession{{Session: "before"}}})
	check(t, err)
	for what, got := range map[string]int{"owned, by a heartbeat": beat.Owned, "with unread items, by a heartbeat": len(beat.Unread), "owned": len(owned), "with unread items": len(woken.Unread)} {
		if got != len(innocent) {
			t.Errorf("%d runs are %s, want %d", got, what, len(innocent))
		}
	}
	check(t, f.CloseSession(testContext(t), 0, "before"))
	f.session("after", "")
	if got := claim(t, f, "after", 1000); len(got) != len(innocent) {
		t.Errorf("claimed %d runs of a closed session, want %d", len(got), len(innocent))
	}
	if got := f.Damage(); len(got) != len(f.logs)-len(innocent) {
		t.Errorf("told of %d damaged runs, want %d", len(got), len(f.logs)-len(innocent))
	}
}

func TestREC10_ADamagedRunAnswersByName(t *testing.T) {
	f := newFile(t)
	innocent := f.overwrite()
	var run event.RunID
	for run = range f.logs {
		if !innocent[run] {
			break
		}
	}
	ctx := testContext(t)
	_, deliver := f.Deliver(ctx, store.Deliver{Run: run, Item: store.Item{ID: event.NewItemID()}})
	_, claimed := f.ClaimRun(ctx, 0, "before", event.NewToken(), run)
	_, notes := f.StepData(ctx, run)
	_, stream := f.ReadStream(ctx, store.ReadStream{Run: run, Stream: "s"})
	for what, err := range map[string]error{
		"deliver": deliver, "claim": claimed, "step data": notes, "read stream": stream, "watch": f.Watch(ctx, run, 1), "delete": f.Delete(ctx, run),
		"await stream": f.AwaitStream(ctx, run, "s", 0), "release": f.Release(ctx, run, store.Fence{}), "confirm": f.Confirm(ctx, run, "x"),
	} {
		if damage, ok := errors.AsType[*store.DamagedError](err); !ok || damage.Run != run || store.Unknown(err) {
			t.Errorf("%s: got %v, want a DamagedError that names run %s", what, err, run)
		}
	}
}
