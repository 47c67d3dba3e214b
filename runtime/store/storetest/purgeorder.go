package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// purgeOrderBehaviors test Purge with many runs, with runs that share a workflow ID, and
// concurrently with other operations.
var purgeOrderBehaviors = []behavior{
	{"PurgeRemovesAtMostLimit", func(h *harness) {
		for range 5 {
			h.ended(keep(long))
		}
		h.clock.Advance(long)
		for _, limit := range []int{0, -1} {
			h.unchanged("a purge of none", func() {
				n, next := h.purge(limit)
				h.equal("number of purged runs", n, 0)
				h.equal("next purge", next, h.clock.Now())
			})
		}
		for _, want := range []int{2, 2, 1, 0} {
			n, _ := h.purge(2)
			h.equal("number of purged runs", n, want)
		}
		h.equal("number of runs", len(h.inspect().Runs), 0)
	}},
	{"PurgeRemovesTheLongestOverFirst", func(h *harness) {
		var want []event.RunID
		for _, n := range []int{3, 1, 4, 2} {
			want = append(want, h.ended(keep(time.Duration(n)*long)).Run)
		}
		h.clock.Advance(10 * long)
		for _, i := range []int{1, 3, 0, 2} {
			h.state(want[i], store.StateEnded)
			n, _ := h.purge(1)
			h.equal("number of purged runs", n, 1)
			h.gone(want[i])
		}
	}},
	{"PurgeTellsWhenTheNextIsDue", func(h *harness) {
		h.equal("next purge of an empty store", h.purged(0), time.Time{})
		begin := h.clock.Now()
		h.ended(keep(2 * long))
		h.ended(keep(long))
		h.start()
		h.equal("next purge", h.purged(0), begin.Add(long))
		h.clock.Advance(3 * long)
		n, next := h.purge(1)
		h.equal("number of purged runs", n, 1)
		h.equal("next purge if one is left that is over", next, begin.Add(2*long))
		h.equal("next purge after all", h.purged(1), time.Time{})
	}},
	{"PurgeOfManyRunsTakesAsManyCallsAsItNeeds", func(h *harness) {
		const runs = 250
		var batch []store.Create
		var logs []*Log
		for range runs {
			l := h.newLog(orders, "")
			l.Spec.Retention = long
			logs, batch = append(logs, l), append(batch, l.Create())
		}
		_, err := h.store.Create(h.ctx, batch)
		h.check("create", err)
		s := h.session()
		for i, c := range h.claim(s, runs) {
			h.equal("claimed run", c.Run, logs[i].Run)
			h.finish(logs[i], c.Fence, event.StatusCompleted)
		}
		h.clock.Advance(long)
		total := 0
		for range runs {
			n, next := h.purge(1000)
			total += n
			if next.IsZero() {
				break
			}
			if n < 1 || next.After(h.clock.Now()) {
				h.Fatalf("purge: got %d runs, next at %v; want that it goes on", n, next)
			}
		}
		h.equal("number of purged runs", total, runs)
		h.equal("number of runs", len(h.inspect().Runs), 0)
	}},
	{"APurgedRunFreesItsWorkflowID", func(h *harness) {
		wid := h.workflowID("order")
		old := h.ended(named(wid), keep(long))
		c := h.newLog(orders, wid).Create()
		c.Finished = store.FinishedReject
		e := as[*store.FinishedError](h, "create", h.create(c).Err)
		h.equal("finished run", e.Run, old.Run)
		h.clock.Advance(long)
		h.purged(1)
		h.equal("create", h.create(c), store.Created{Run: c.Run, New: true})
	}},
	{"APurgedRunLeavesTheMemoryOfItsWorkflowIDToALaterRun", func(h *harness) {
		wid := h.workflowID("order")
		h.ended(named(wid), keep(long))
		later := h.ended(named(wid), keep(2*long))
		h.clock.Advance(long)
		h.purged(1)
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("resolve", got, later.Run)
		c := h.newLog(orders, wid).Create()
		c.Finished = store.FinishedAllowFailure
		e := as[*store.FinishedError](h, "create", h.create(c).Err)
		h.equal("finished run", e.Run, later.Run)
	}},
	{"AWorkflowIDForgetsItsLastRunAlsoIfAnEarlierOneIsKept", func(h *harness) {
		wid := h.workflowID("order")
		earlier := h.ended(named(wid), keep(2*long))
		h.ended(named(wid), keep(long))
		h.clock.Advance(long)
		h.purged(1)
		_, err := h.store.Resolve(h.ctx, wid)
		h.is("resolve", err, store.ErrRunNotFound)
		h.equal("workflow id of the earlier run", h.record(earlier.Run).WorkflowID, wid)
		h.clock.Advance(long)
		h.purged(1)
	}},
	{"APurgedRunLeavesTheActiveRunAndItsLineAsTheyAre", func(h *harness) {
		wid := h.workflowID("order")
		h.ended(named(wid), keep(long))
		active := h.startAs(orders, wid)
		next, _ := h.lineUp(wid)
		h.clock.Advance(long)
		h.purged(1)
		snap := h.inspect()
		h.equal("active", snap.Active, map[string]event.RunID{wid: active.Run})
		h.equal("line", snap.Lines, map[string][]event.RunID{wid: {next.Run}})
		h.equal("last ended", snap.LastEnded, map[string]event.RunID(nil))
		cancels := h.load(active.Run).Inbox
		c := active.Commit(h.own(h.session(), active), append(active.Receive(cancels...), active.End(event.StatusCanceled)...)...)
		h.commit(active, withEffect(consuming(c, cancels...), store.EffectFinish, event.StatusCanceled))
		h.state(next.Run, store.StateReady)
	}},
	{"ARunMayBeCreatedInARouteWhoseRunsWereAllPurged", func(h *harness) {
		s := h.session(orders)
		p := h.wait(waitFor(s, orders))
		l := h.ended(keep(long)) // the Wait may take the wake of its start or leave it
		h.clock.Advance(long)
		h.purged(1)
		p.cancel()
		_, _ = p.result(h, "wait")
		next := h.start()
		h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{next.Run})
		h.gone(l.Run)
	}},
	{"AWaitIsToldOfARunInARouteWhoseRunsWereAllPurged", func(h *harness) {
		h.ended(keep(long))
		s := h.session(orders)
		h.poll(s, orders) // takes a wake that may be left
		p := h.wait(waitFor(s, orders))
		h.clock.Advance(long)
		h.purged(1)
		h.start()
		got, err := p.result(h, "wait")
		h.check("wait", err)
		h.equal("woken", got, store.Woken{Claim: []int{0}})
	}},
	{"WatchEndsWhenTheRunIsPurged", func(h *harness) {
		l := h.ended(keep(long))
		p := h.watch(l.Run, 99)
		h.clock.Advance(long)
		h.purged(1)
		_, err := p.result(h, "watch")
		h.is("watch", err, store.ErrRunNotFound)
	}},
	{"ConcurrentPurgesRemoveEachRunOnce", func(h *harness) {
		const runs, purgers = 60, 6
		for range runs {
			h.ended(keep(long))
		}
		h.clock.Advance(long)
		removed := make([]int, purgers)
		together(purgers, func(i int) {
			for {
				n, next, err := h.purger().Purge(h.ctx, 0, 3)
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
		h.equal("number of purged runs", total, runs)
	}},
	{"ReadersSeeARunWholeOrNotAtAllWhileItIsPurged", func(h *harness) {
		const runs, readers = 40, 4
		wid := h.workflowID("order")
		var logs []*Log
		for range runs {
			logs = append(logs, h.ended(named(wid), keep(long)))
		}
		h.clock.Advance(long)
		together(readers+1, func(i int) {
			for n := range runs {
				if i == readers {
					if _, _, err := h.purger().Purge(h.ctx, 0, 1); err != nil {
						h.Errorf("purge: %v", err)
					}
					continue
				}
				if err := h.readWhole(logs[n]); err != nil {
					h.Errorf("read run %s: %v", logs[n].Run, err)
				}
			}
		})
		h.equal("number of runs", len(h.inspect().Runs), 0)
	}},
}

// readWhole returns an error unless all reads find an ended run completely or not at all. It is
// called concurrently with purges.
func (h *harness) readWhole(l *Log) error {
	got, err := h.store.Load(h.ctx, []store.Load{{Run: l.Run}})
	switch {
	case err != nil:
		return err
	case errors.Is(got[0].Err, store.ErrRunNotFound):
	case got[0].Err != nil:
		return got[0].Err
	case len(got[0].Frames) != 2 || got[0].Record.N != 2 || got[0].Record.Last != l.Last || got[0].Record.WorkflowID != l.Spec.WorkflowID:
		return fmt.Errorf("got %d frames and %+v", len(got[0].Frames), got[0].Record)
	}
	if err := h.store.Watch(h.ctx, l.Run, 1); err != nil && !errors.Is(err, store.ErrRunNotFound) {
		return err
	}
	if _, err := h.store.Resolve(h.ctx, l.Spec.WorkflowID); err != nil && !errors.Is(err, store.ErrRunNotFound) {
		return err
	}
	if lister, ok := store.As[store.Lister](h.store); ok {
		page, err := lister.List(h.ctx, store.Query{})
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
