package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/store"
)

// terminateItem is the ID of all requests to terminate a run, so that only the first one is
// recorded.
const terminateItem event.ItemID = "terminate"

// terminate ends the run without executing its code: see ops.Client.Terminate.
func (h *Handle) terminate(ctx context.Context, reason string) error {
	if err := store.CheckText("reason", reason, MaxReason); err != nil {
		return fmt.Errorf("terminate: %w", err)
	}
	run, err := h.commandable(ctx, "terminate")
	if err == nil {
		err = h.c.terminate(ctx, run, &event.Event{Type: event.CancelRequested, Name: event.Terminate, Reason: reason})
	}
	if err != nil {
		return fmt.Errorf("terminate: %w", err)
	}
	return nil
}

// obedience is how long a worker that has claimed a run may take to end it as requested by the item
// in its inbox.
//
// After that the client takes the run from the worker, in one action of the store. The action
// changes the fence, as a recovery does, and does not depend on the worker or on the code of the
// run. An earlier commit of the worker is in the log that the client reads afterwards, and a later
// commit writes nothing; so the run ends with the contents of its log, once. The worker detects the
// lost run by its next commit, or by its session.
const obedience = time.Second

// terminate first puts the request into the inbox of the run. Thus any worker that has the run, or
// claims it before this client does, ends it, and so does another client if this one dies.
func (c *Client) terminate(ctx context.Context, run RunID, request *event.Event) error {
	item := store.Item{ID: terminateItem, Scope: store.ScopeChain}
	request.By = engine.Behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, request); err != nil {
		return err
	}
	how := takeLined
	for delay := time.Millisecond; ; delay = min(2*delay, obedience) {
		if delay == obedience {
			how = takeOwned
		}
		// Repeated in each iteration: if the run has continued as new, the continuation gets the
		// item, and the store recognizes a repeated item.
		if run, err = c.accept(ctx, run, item, true, time.Time{}); err != nil {
			return err
		}
		l, err := c.load(ctx, store.Load{Run: run, Limit: -1})
		if err == nil && l.Record.QueueState == store.StateEnded && l.Record.Next == "" {
			return nil
		}
		ended, err := c.endAlone(ctx, c.partitionOf(run), []RunID{run}, how, func(claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
			return c.terminating(ctx, claimed, l)
		})
		switch {
		case len(ended) > 0:
			return nil
		case err != nil && !errors.Is(err, store.ErrFenced):
			return fmt.Errorf("run %s: %w", run, err)
		}
		if err := c.pause(ctx, delay); err != nil {
			return fmt.Errorf("run %s: it was asked to end, and has not yet: %w", run, err)
		}
	}
}

// terminating returns the commit that ends a run as requested by the item in its inbox, or nil if
// there is no item. The only necessary property of the log is its length, which is in the record of
// the run. References to children and to the parent are used as far as the log can be read.
func (c *Client) terminating(ctx context.Context, claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
	if _, damaged := errors.AsType[*store.DamagedError](l.Err); damaged {
		record, err := c.load(ctx, store.Load{Run: claimed.Run, Limit: -1, Inbox: true})
		if err != nil {
			return nil, err
		}
		l = &record
	}
	if l.Err != nil {
		return nil, l.Err
	}
	state := readable(l.Frames)
	state.Seq = claimed.Seq
	now := c.store.Clock().Now()
	if now.Before(state.Time) {
		now = state.Time
	}
	var end *event.Event
	var late []event.ItemID
	for _, item := range l.Inbox {
		if item.ID != terminateItem {
			late = append(late, item.ID)
			continue
		}
		asked, err := event.DecodeItem(item.Body)
		if err != nil {
			return nil, err
		}
		asked.Item = item.ID
		e := effects.Termination(asked)
		end = &e
	}
	if end == nil {
		return nil, nil
	}
	end.Seq, end.Time, end.By, end.Unread = claimed.Seq+1, now, cmp.Or(end.By, "client"), late
	if err := state.Apply(end); err != nil {
		return nil, err
	}
	return endCommit(claimed, state, []event.Event{*end}, l.Inbox)
}

// readable returns the state of a log as far as it can be read.
func readable(frames [][]byte) *event.LogState {
	state := &event.LogState{}
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		for i := 0; err == nil && i < len(f.Events); i++ {
			err = state.Apply(&f.Events[i])
		}
		if err != nil {
			break
		}
	}
	if state.Spec == nil {
		state.Run, state.Spec = event.StatePending, &event.Spec{}
	}
	return state
}
