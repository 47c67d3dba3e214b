package suite

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Accepts fails the test unless the store accepts a delivery for the given run.
func (h *Harness) Accepts(what string, d store.Deliver, run event.RunID) {
	h.Helper()
	got, err := h.Store.Deliver(h.Ctx, d)
	h.Check("deliver "+what, err)
	h.Equal("run that accepts a delivery "+what, got, run)
}

// ContinueWithItems claims a run and continues it while other goroutines send items. The continued
// run consumes at least half of its inbox and every item with ScopeRun. ContinueWithItems may be
// called from any goroutine. If it fails, it reports an error and returns nil.
func (h *Harness) ContinueWithItems(s store.SessionID, l *Log) *Log {
	claimed, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
	if err != nil {
		h.Errorf("claim run: %v", err)
		return nil
	}
	for {
		loaded, err := h.Store.Load(h.Ctx, []store.Load{{Run: l.Run, Inbox: true}})
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
			c = Consuming(c, inbox[:n]...)
		}
		answers, err := h.Store.Commit(h.Ctx, []store.Commit{c})
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

// ContinueRun continues an owned run whose inbox is empty.
func (h *Harness) ContinueRun(l *Log, fence store.Fence) *Log {
	h.Helper()
	c, next := l.Continue(fence, nil)
	h.Commit(l, c)
	return next
}

// Chain starts a run and continues it n-1 times. It returns all runs of the chain; the last one is
// ready.
func (h *Harness) Chain(n int, change ...func(*Log)) []*Log {
	h.Helper()
	l := h.NewLog(Orders, "")
	for _, f := range change {
		f(l)
	}
	if l.Spec.WorkflowID != "" {
		l.Run = h.IDs.Run(h.Clock.Now(), event.SlotOf(l.Spec.WorkflowID))
	}
	h.Create(l.Create())
	all := []*Log{l}
	for range n - 1 {
		l = h.ContinueRun(l, h.Own(h.Session(), l))
		all = append(all, l)
	}
	return all
}

// CreatedBy creates a run as the receiver of the outbox record creator, and returns the log of the
// run.
func (h *Harness) CreatedBy(creator event.ItemID, change ...func(*Log)) *Log {
	h.Helper()
	l := h.NewLog(Orders, "")
	for _, f := range change {
		f(l)
	}
	c := l.Create()
	c.CreatedBy = creator
	h.Equal("create", h.Create(c), store.Created{Run: l.Run, New: true})
	return l
}

// Confirm confirms an outbox record that has created a run or was accepted by a chain.
func (h *Harness) Confirm(run event.RunID, record event.ItemID) {
	h.Helper()
	h.Check("confirm", h.Store.Confirm(h.Ctx, run, record))
}

// ConfirmAll confirms every item that the store keeps until Confirm.
func (h *Harness) ConfirmAll() {
	h.Helper()
	for chain, items := range h.Inspect().Kept {
		for _, id := range items {
			h.Confirm(chain, id)
		}
	}
}
