package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// chainRaceBehaviors test operations that run concurrently with a commit that continues a run.
var chainRaceBehaviors = []behavior{
	{"M4_NoItemIsLostOrReceivedTwiceWhileARunContinues", func(h *harness) {
		const rounds, senders, batch = 100, 4, 5
		s, first := h.session(), h.start()
		runs := []*Log{first}
		accepted := make([][]event.ItemID, senders)
		for range rounds {
			last := runs[len(runs)-1]
			var next *Log
			together(senders+1, func(i int) {
				if i == senders {
					next = h.continueWithItems(s, last)
					return
				}
				for n := range batch {
					item := store.Item{ID: event.ItemID(fmt.Sprintf("sender %d: %s", i, h.ids.Item()))}
					d := store.Deliver{Run: runs[(n*7919+i)%len(runs)].Run, Item: item, Keep: n%2 == 0}
					if i == 0 {
						d.Run, d.Item.Scope = last.Run, store.ScopeRun
					}
					_, err := h.store.Deliver(h.ctx, d)
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
		h.consumeAndFinish(last, h.own(s, last))
		received := h.receivedBy(runs)
		for i, want := range accepted {
			h.equal(fmt.Sprintf("items received from sender %d", i), received[fmt.Sprintf("sender %d", i)], want)
		}
	}},
	{"M4_ACancelIsNeverLostToAContinuingRun", func(h *harness) {
		s := h.session()
		for n := range 30 {
			wid := h.workflowID(fmt.Sprintf("order-%d-", n))
			l := h.startAs(orders, wid)
			c, next := l.Continue(h.own(s, l), nil)
			behind := h.newLog(orders, wid).Create()
			behind.Active, behind.Cancel = store.ActiveCancel, h.item()
			together(2, func(i int) {
				var err error
				if i == 0 {
					_, err = h.store.Create(h.ctx, []store.Create{behind})
				} else {
					var answers []store.Committed
					if answers, err = h.store.Commit(h.ctx, []store.Commit{c}); err == nil {
						err = answers[0].Err
					}
				}
				if err != nil {
					h.Errorf("create or continue: %v", err)
				}
			})
			snap := h.inspect()
			h.equal("active", snap.Active[wid], next.Run)
			h.equal("line", snap.Lines[wid], []event.RunID{behind.Run})
			h.equal("inbox of the last run", snap.Runs[next.Run].Inbox, []store.Item{behind.Cancel})
			h.own(s, next)
		}
	}},
	{"W3_ConcurrentTriesOfOneContinueAreAppliedOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.deliver(l.Run)
		c, next := l.Continue(fence, nil)
		c = sending(c, h.newSend(h.runID()))
		together(20, func(int) {
			got, err := h.store.Commit(h.ctx, []store.Commit{c})
			if err != nil || got[0].Err != nil || got[0].N != 2 {
				h.Errorf("commit: got %+v, %v", got, err)
			}
		})
		snap := h.inspect()
		h.equal("number of runs", len(snap.Runs), 2)
		h.equal("number of records", len(snap.Outbox), 1)
		h.equal("inbox", len(snap.Runs[next.Run].Inbox), 1)
	}},
}

// continueWithItems claims a run and continues it while other goroutines send items. The run
// receives at least half of its inbox, and every item that is addressed to this run only. It may be
// called from any goroutine and returns nil if it fails.
func (h *harness) continueWithItems(s store.SessionID, l *Log) *Log {
	claimed, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
	if err != nil {
		h.Errorf("claim run: %v", err)
		return nil
	}
	for {
		loaded, err := h.store.Load(h.ctx, []store.Load{{Run: l.Run, Inbox: true}})
		if err != nil {
			h.Errorf("load: %v", err)
			return nil
		}
		inbox := loaded[0].Inbox
		n := len(inbox) / 2
		for i := range inbox {
			if inbox[i].Scope == store.ScopeRun {
				n = max(n, i+1)
			}
		}
		c, next := l.Continue(claimed.Fence, nil, l.Receive(inbox[:n]...)...)
		if n > 0 {
			c = consuming(c, inbox[:n]...)
		}
		answers, err := h.store.Commit(h.ctx, []store.Commit{c})
		switch {
		case err != nil:
			h.Errorf("commit: %v", err)
			return nil
		case errors.Is(answers[0].Err, store.ErrUnread):
			continue
		case answers[0].Err != nil:
			h.Errorf("commit: %v", answers[0].Err)
			return nil
		}
		l.Accept(c)
		return next
	}
}

// receivedBy returns the items in the logs of a chain's runs in log order, keyed by the sender,
// which is the part of the item ID before the colon.
func (h *harness) receivedBy(runs []*Log) map[string][]event.ItemID {
	h.Helper()
	snap := h.inspect()
	received := map[string][]event.ItemID{}
	for _, l := range runs {
		for _, b := range snap.Runs[l.Run].Frames {
			f, err := event.DecodeFrame(b)
			h.check("decode frame", err)
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
