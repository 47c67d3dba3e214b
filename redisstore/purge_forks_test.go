package redisstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRUN11_RUN13_AfterForksAndDeletesDBSizeIsWhatItWas proves that forked runs leave no keys after
// their purge, whether they were deleted or their retention is over.
func TestRUN11_RUN13_AfterForksAndDeletesDBSizeIsWhatItWas(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Start(t), storetest.NewClock()
	client := server.Client(t)
	st := must(redisstore.New(client, redisstore.Config{Clock: clock, Partitions: 3}))
	w := repairtest.New(t, st, clock)
	// Keys of failure groups are not counted, because failure groups are kept for a while after the
	// purge of their runs.
	size := func() int {
		return len(slices.DeleteFunc(must(client.Keys(w.Ctx, "*").Result()), func(key string) bool {
			return strings.HasPrefix(key, "{") && slices.Contains([]string{"1H", "1E", "1Z"}, key[strings.Index(key, "}")+1:])
		}))
	}

	workAndForget(t, w, false) // creates the keys that remain in every used store
	before := size()
	workAndForget(t, w, true)
	if after := size(); after != before {
		t.Errorf("%d keys before the forks, %d after their deletes: %v", before, after, must(client.Keys(w.Ctx, "*").Result()))
	}
}

// workAndForget makes runs complete, fail and be canceled, forks them if again is set, deletes half
// of all runs, and purges all.
func workAndForget(t *testing.T, w *repairtest.World, again bool) {
	t.Helper()
	opts := repairtest.Long("forked")
	completed, failed, canceled := w.Client.Run(w.Completed(opts...).Run), w.Client.Run(w.Failed().Run), w.Client.Run(w.Canceled().Run)
	runs := []*workflow.Handle{completed, failed, canceled}
	if again {
		step := ""
		for e, err := range completed.Events(w.Ctx, workflow.Types(event.StepCreated)) {
			if err != nil {
				t.Fatal(err)
			}
			step = e.Key
		}
		stop := w.Work()
		for _, h := range []*workflow.Handle{
			must(completed.Fork(w.Ctx, step)), must(failed.Retry(w.Ctx)), must(canceled.Restart(w.Ctx)), must(failed.Restart(w.Ctx)),
		} {
			if err := h.Cancel(w.Ctx, "enough"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				t.Fatal(err)
			}
			for _, err := range h.Events(w.Ctx) { // the iteration ends with the run
				if err != nil {
					t.Fatal(err)
				}
			}
			runs = append(runs, h)
		}
		stop()
	}
	for n, h := range runs {
		if n%2 == 0 {
			if err := ops.New(w.Client).Delete(w.Ctx, h.ID()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Clock.Advance(store.DefaultRetention + 2*time.Hour)
	p, _ := store.As[store.Purger](w.Store)
	purged := 0
	for n := range w.Store.Partitions() {
		gone, _, err := p.Purge(w.Ctx, n, 100)
		if err != nil {
			t.Fatal(err)
		}
		purged += gone
	}
	if purged != len(runs) {
		t.Errorf("purged %d runs, want %d", purged, len(runs))
	}
}

// TestRUN13_FsckFindsNothingOnceTheRunThatEndedLastIsGone proves that fsck reports no lost key
// after the last field of a hash was deleted, which removes the hash. An earlier run of the
// workflow ID may still exist.
func TestRUN13_FsckFindsNothingOnceTheRunThatEndedLastIsGone(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, w *repairtest.World, last event.RunID){
		"deleted": func(t *testing.T, w *repairtest.World, last event.RunID) {
			if err := ops.New(w.Client).Delete(w.Ctx, last); err != nil {
				t.Fatal(err)
			}
		},
		"purged": func(t *testing.T, w *repairtest.World, _ event.RunID) {
			w.Clock.Advance(25 * time.Hour)
			p, _ := store.As[store.Purger](w.Store)
			if n, _, err := p.Purge(w.Ctx, 0, 10); n != 1 || err != nil {
				t.Errorf("purge: got %d runs, %v, want 1", n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			st := must(redisstore.New(redistest.Start(t).Client(t), redisstore.Config{Clock: clock, Partitions: 1}))
			w := repairtest.New(t, st, clock)
			resolves := func(want event.RunID, wantErr error) {
				t.Helper()
				if run, err := st.Resolve(w.Ctx, "a"); run != want || !errors.Is(err, wantErr) {
					t.Errorf("resolve the workflow id: got %q, %v, want %q, %v", run, err, want, wantErr)
				}
				if got := w.Repair(fsck.Options{}); len(got.Fixes) > 0 || len(got.Remaining) > 0 {
					t.Errorf("fsck found %+v", got)
				}
			}
			w.Completed(workflow.WithID("a"), workflow.WithRetention(48*time.Hour))
			clock.Advance(time.Hour)
			last := w.Completed(workflow.WithID("a"), workflow.WithRetention(time.Hour))
			resolves(last.Run, nil)
			remove(t, w, last.Run)
			resolves("", store.ErrRunNotFound)
			resolves(w.Completed(workflow.WithID("a")).Run, nil)
		})
	}
}
