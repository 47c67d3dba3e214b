package chains

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// chainRaceBehaviors test operations that run concurrently with a commit that continues a run.
var chainRaceBehaviors = []behavior{
	{"M4_NoItemIsLostOrReceivedTwiceWhileARunContinues", func(h *harness) {
		const rounds, senders, batch = 100, 4, 5
		s, first := h.Session(), h.Start()
		runs := []*suite.Log{first}
		accepted := make([][]event.ItemID, senders)
		for range rounds {
			last := runs[len(runs)-1]
			var next *suite.Log
			suite.Together(senders+1, func(i int) {
				if i == senders {
					next = h.ContinueWithItems(s, last)
					return
				}
				for n := range batch {
					item := store.Item{ID: event.ItemID(fmt.Sprintf("sender %d: %s", i, h.IDs.Item()))}
					d := store.Deliver{Run: runs[(n*7919+i)%len(runs)].Run, Item: item, Keep: n%2 == 0}
					if i == 0 {
						d.Run, d.Item.Scope = last.Run, store.ScopeRun
					}
					_, err := h.Store.Deliver(h.Ctx, d)
					if _, refused := errors.AsType[*store.TerminalError](err); refused && i == 0 {
						continue
					}
					if err != nil {
						h.Errorf("deliver: %v", err)
					}
					accepted[i] = append(accepted[i], item.ID)
				}
			})
			if next == nil {
				h.Fatalf("the run did not continue")
			}
			runs = append(runs, next)
		}
		last := runs[len(runs)-1]
		h.consumeAndFinish(last, h.Own(s, last))
		received := h.receivedBy(runs)
		for i, want := range accepted {
			h.Equal(fmt.Sprintf("items received from sender %d", i), received[fmt.Sprintf("sender %d", i)], want)
		}
	}},
	{"M4_ACancelIsNeverLostToAContinuingRun", func(h *harness) {
		s := h.Session()
		for n := range 30 {
			wid := h.WorkflowID(fmt.Sprintf("order-%d-", n))
			l := h.StartAs(suite.Orders, wid)
			c, next := l.Continue(h.Own(s, l), nil)
			behind := h.NewLog(suite.Orders, wid).Create()
			behind.Active, behind.Cancel = store.ActiveCancel, h.Item()
			suite.Together(2, func(i int) {
				var err error
				if i == 0 {
					_, err = h.Store.Create(h.Ctx, []store.Create{behind})
				} else {
					var answers []store.Committed
					if answers, err = h.Store.Commit(h.Ctx, []store.Commit{c}); err == nil {
						err = answers[0].Err
					}
				}
				if err != nil {
					h.Errorf("create or continue: %v", err)
				}
			})
			snap := h.Inspect()
			h.Equal("active", snap.Active[wid], next.Run)
			h.Equal("line", snap.Lines[wid], []event.RunID{behind.Run})
			h.Equal("inbox of the last run", snap.Runs[next.Run].Inbox, []store.Item{behind.Cancel})
			h.Own(s, next)
		}
	}},
	{"W3_ConcurrentTriesOfOneContinueAreAppliedOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Deliver(l.Run)
		c, next := l.Continue(fence, nil)
		c = suite.Sending(c, h.NewSend(h.RunID()))
		suite.Together(20, func(int) {
			got, err := h.Store.Commit(h.Ctx, []store.Commit{c})
			if err != nil || got[0].Err != nil || got[0].N != 2 {
				h.Errorf("commit: got %+v, %v", got, err)
			}
		})
		snap := h.Inspect()
		h.Equal("number of runs", len(snap.Runs), 2)
		h.Equal("number of records", len(snap.Outbox), 1)
		h.Equal("inbox", len(snap.Runs[next.Run].Inbox), 1)
	}},
}

// receivedBy returns the items in the logs of a chain's runs, in log order and grouped by sender.
// The sender is the part of the item ID before the colon.
func (h *harness) receivedBy(runs []*suite.Log) map[string][]event.ItemID {
	h.Helper()
	snap := h.Inspect()
	received := map[string][]event.ItemID{}
	for _, l := range runs {
		for _, b := range snap.Runs[l.Run].Frames {
			f, err := event.DecodeFrame(b)
			h.Check("decode frame", err)
			for _, e := range f.Events {
				if e.Item != "" {
					sender, _, _ := strings.Cut(string(e.Item), ":")
					received[sender] = append(received[sender], e.Item)
				}
			}
		}
	}
	return received
}
