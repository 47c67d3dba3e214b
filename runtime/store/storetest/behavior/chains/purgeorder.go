package chains

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// purgeOrderBehaviors test Purge with many runs, with runs that share a workflow ID, and
// concurrently with other operations.
var purgeOrderBehaviors = []behavior{
	{"PurgeRemovesAtMostLimit", func(h *harness) {
		for range 5 {
			h.Ended(suite.Keep(suite.Long))
		}
		h.Clock.Advance(suite.Long)
		for _, limit := range []int{0, -1} {
			h.Unchanged("a purge of none", func() {
				n, next := h.Purge(limit)
				h.Equal("number of purged runs", n, 0)
				h.Equal("next purge", next, h.Clock.Now())
			})
		}
		for _, want := range []int{2, 2, 1, 0} {
			n, _ := h.Purge(2)
			h.Equal("number of purged runs", n, want)
		}
		h.Equal("number of runs", len(h.Inspect().Runs), 0)
	}},
	{"PurgeRemovesTheLongestOverFirst", func(h *harness) {
		var want []event.RunID
		for _, n := range []int{3, 1, 4, 2} {
			want = append(want, h.Ended(suite.Keep(time.Duration(n)*suite.Long)).Run)
		}
		h.Clock.Advance(10 * suite.Long)
		for _, i := range []int{1, 3, 0, 2} {
			h.State(want[i], store.StateEnded)
			n, _ := h.Purge(1)
			h.Equal("number of purged runs", n, 1)
			h.Gone(want[i])
		}
	}},
	{"PurgeTellsWhenTheNextIsDue", func(h *harness) {
		h.Equal("next purge of an empty store", h.Purged(0), time.Time{})
		begin := h.Clock.Now()
		h.Ended(suite.Keep(2 * suite.Long))
		h.Ended(suite.Keep(suite.Long))
		h.Start()
		h.Equal("next purge", h.Purged(0), begin.Add(suite.Long))
		h.Clock.Advance(3 * suite.Long)
		n, next := h.Purge(1)
		h.Equal("number of purged runs", n, 1)
		h.Equal("next purge if one is left that is over", next, begin.Add(2*suite.Long))
		h.Equal("next purge after all", h.Purged(1), time.Time{})
	}},
	{"PurgeOfManyRunsTakesAsManyCallsAsItNeeds", func(h *harness) {
		const runs = 250
		var batch []store.Create
		var logs []*suite.Log
		for range runs {
			l := h.NewLog(suite.Orders, "")
			l.Spec.Retention = suite.Long
			logs, batch = append(logs, l), append(batch, l.Create())
		}
		_, err := h.Store.Create(h.Ctx, batch)
		h.Check("create", err)
		s := h.Session()
		for i, c := range h.Claim(s, runs) {
			h.Equal("claimed run", c.Run, logs[i].Run)
			h.Finish(logs[i], c.Fence, event.StatusCompleted)
		}
		h.Clock.Advance(suite.Long)
		total := 0
		for range runs {
			n, next := h.Purge(1000)
			total += n
			if next.IsZero() {
				break
			}
			if n < 1 || next.After(h.Clock.Now()) {
				h.Fatalf("purge: got %d runs, next at %v; want that it goes on", n, next)
			}
		}
		h.Equal("number of purged runs", total, runs)
		h.Equal("number of runs", len(h.Inspect().Runs), 0)
	}},
	{"APurgedRunFreesItsWorkflowID", func(h *harness) {
		wid := h.WorkflowID("order")
		old := h.Ended(suite.Named(wid), suite.Keep(suite.Long))
		c := h.NewLog(suite.Orders, wid).Create()
		c.Finished = store.FinishedReject
		e := suite.As[*store.FinishedError](h.Harness, "create", h.Create(c).Err)
		h.Equal("finished run", e.Run, old.Run)
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		h.Equal("create", h.Create(c), store.Created{Run: c.Run, New: true})
	}},
	{"APurgedRunLeavesTheMemoryOfItsWorkflowIDToALaterRun", func(h *harness) {
		wid := h.WorkflowID("order")
		h.Ended(suite.Named(wid), suite.Keep(suite.Long))
		later := h.Ended(suite.Named(wid), suite.Keep(2*suite.Long))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("resolve", got, later.Run)
		c := h.NewLog(suite.Orders, wid).Create()
		c.Finished = store.FinishedAllowFailure
		e := suite.As[*store.FinishedError](h.Harness, "create", h.Create(c).Err)
		h.Equal("finished run", e.Run, later.Run)
	}},
	{"AWorkflowIDForgetsItsLastRunAlsoIfAnEarlierOneIsKept", func(h *harness) {
		wid := h.WorkflowID("order")
		earlier := h.Ended(suite.Named(wid), suite.Keep(2*suite.Long))
		h.Ended(suite.Named(wid), suite.Keep(suite.Long))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		_, err := h.Store.Resolve(h.Ctx, wid)
		h.Is("resolve", err, store.ErrRunNotFound)
		h.Equal("workflow id of the earlier run", h.Record(earlier.Run).WorkflowID, wid)
		h.Clock.Advance(suite.Long)
		h.Purged(1)
	}},
	{"APurgedRunLeavesTheActiveRunAndItsLineAsTheyAre", func(h *harness) {
		wid := h.WorkflowID("order")
		h.Ended(suite.Named(wid), suite.Keep(suite.Long))
		active := h.StartAs(suite.Orders, wid)
		next, _ := h.LineUp(wid)
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		snap := h.Inspect()
		h.Equal("active", snap.Active, map[string]event.RunID{wid: active.Run})
		h.Equal("line", snap.Lines, map[string][]event.RunID{wid: {next.Run}})
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID(nil))
		cancels := h.Load(active.Run).Inbox
		c := active.Commit(h.Own(h.Session(), active), append(active.Receive(cancels...), active.End(event.StatusCanceled)...)...)
		h.Commit(active, suite.WithEffect(suite.Consuming(c, cancels...), store.EffectFinish, event.StatusCanceled))
		h.State(next.Run, store.StateReady)
	}},
	{"ARunMayBeCreatedInARouteWhoseRunsWereAllPurged", func(h *harness) {
		s := h.Session(suite.Orders)
		p := h.Wait(suite.WaitFor(s, suite.Orders))
		l := h.Ended(suite.Keep(suite.Long)) // the Wait may take the wake of this start or leave it
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		p.Cancel()
		_, _ = p.Result(h.Harness, "wait")
		next := h.Start()
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{next.Run})
		h.Gone(l.Run)
	}},
	{"AWaitIsToldOfARunInARouteWhoseRunsWereAllPurged", func(h *harness) {
		h.Ended(suite.Keep(suite.Long))
		s := h.Session(suite.Orders)
		h.Poll(s, suite.Orders) // takes the wake if the purge has left it
		p := h.Wait(suite.WaitFor(s, suite.Orders))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		h.Start()
		got, err := p.Result(h.Harness, "wait")
		h.Check("wait", err)
		h.Equal("woken", got, store.Woken{Claim: []int{0}})
	}},
	{"WatchEndsWhenTheRunIsPurged", func(h *harness) {
		l := h.Ended(suite.Keep(suite.Long))
		p := h.Watch(l.Run, 99)
		h.Clock.Advance(suite.Long)
		h.Purged(1)
		_, err := p.Result(h.Harness, "watch")
		h.Is("watch", err, store.ErrRunNotFound)
	}},
	{"ConcurrentPurgesRemoveEachRunOnce", func(h *harness) {
		const runs, purgers = 60, 6
		for range runs {
			h.Ended(suite.Keep(suite.Long))
		}
		h.Clock.Advance(suite.Long)
		removed := make([]int, purgers)
		suite.Together(purgers, func(i int) {
			for {
				n, next, err := h.Purger().Purge(h.Ctx, 0, 3)
				if err != nil {
					h.Errorf("purge: %v", err)
				}
				removed[i] += n
				if err != nil || next.IsZero() {
					return
				}
			}
		})
		total := 0
		for _, n := range removed {
			total += n
		}
		h.Equal("number of purged runs", total, runs)
	}},
	{"ReadersSeeARunWholeOrNotAtAllWhileItIsPurged", func(h *harness) {
		const runs, readers = 40, 4
		wid := h.WorkflowID("order")
		var logs []*suite.Log
		for range runs {
			logs = append(logs, h.Ended(suite.Named(wid), suite.Keep(suite.Long)))
		}
		h.Clock.Advance(suite.Long)
		suite.Together(readers+1, func(i int) {
			for n := range runs {
				if i == readers {
					if _, _, err := h.Purger().Purge(h.Ctx, 0, 1); err != nil {
						h.Errorf("purge: %v", err)
					}
					continue
				}
				if err := h.readWhole(logs[n]); err != nil {
					h.Errorf("read run %s: %v", logs[n].Run, err)
				}
			}
		})
		h.Equal("number of runs", len(h.Inspect().Runs), 0)
	}},
}

// readWhole returns an error unless every read finds the ended run either completely or not at all.
// The test calls readWhole concurrently with purges.
func (h *harness) readWhole(l *suite.Log) error {
	got, err := h.Store.Load(h.Ctx, []store.Load{{Run: l.Run}})
	switch {
	case err != nil:
		return err
	case errors.Is(got[0].Err, store.ErrRunNotFound):
	case got[0].Err != nil:
		return got[0].Err
	case len(got[0].Frames) != 2 || got[0].Record.N != 2 || got[0].Record.Last != l.Last || got[0].Record.WorkflowID != l.Spec.WorkflowID:
		return fmt.Errorf("got %d frames and %+v", len(got[0].Frames), got[0].Record)
	}
	if err := h.Store.Watch(h.Ctx, l.Run, 1); err != nil && !errors.Is(err, store.ErrRunNotFound) {
		return err
	}
	if _, err := h.Store.Resolve(h.Ctx, l.Spec.WorkflowID); err != nil && !errors.Is(err, store.ErrRunNotFound) {
		return err
	}
	if lister, ok := store.As[store.Lister](h.Store); ok {
		page, err := lister.List(h.Ctx, store.Query{})
		if err != nil {
			return err
		}
		for _, r := range page.Runs {
			if r.QueueState != store.StateEnded || r.N != 2 || r.WorkflowID != l.Spec.WorkflowID {
				return fmt.Errorf("list: got %+v", r)
			}
		}
	}
	return nil
}
