package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// terminateItem is the id of all requests to terminate a run: the first one is recorded.
const terminateItem event.ItemID = "terminate"

// Terminate ends the run without its code: nothing of it is executed any more, so nothing is cleaned up or
// undone. It is the way out for a run that cannot end by itself, because it is blocked, its log is
// damaged or too large to be read, or nobody serves it; for any other one [Handle.Cancel] is better. The
// run is then canceled, and the code of its error is "terminated". As at any other end its children are asked to
// end and its parent is told, but for what a damaged log does not tell any more. An attempt of a step that is under
// way is told to stop, and what it has done outside of the run remains.
//
// When it returns nil the run has ended. A worker that has it is told and ends it; if that does not within about a second, because
// the code of the run keeps it from it or it has died, Terminate takes the run from it.
// If ctx ends first the request is durable, and the next worker that takes the run carries it out;
// calling Terminate again goes on. A second call does nothing and returns nil. Workers of a release that does not know Terminate
// take it for Cancel.
//
// Errors: one that matches ErrRunTerminal if the run has ended and was never terminated; ErrRunNotFound; an
// *[InvalidError] for a reason of more than [MaxReason] bytes or one that is not UTF-8.
func (h *Handle) Terminate(ctx context.Context, reason string) error {
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

// obedience is for how long a worker that has a run may take to end it as the request in its inbox asks.
//
// After that the client takes the run from the worker, in one action of the store: that changes the fence, as a recovery does, and
// needs nothing of the worker, whatever the code of the run does with it. A commit of the worker that came before is in the log that the
// client reads then, and one that comes after it writes nothing; so the run ends with what is in its log, once. The worker learns that it has
// lost the run from its next commit, or from its session.
const obedience = time.Second

// terminate puts the request into the inbox of the run before anything else: so whoever has the run, or claims it before
// this client does, ends it, and so does another client if this one dies.
func (c *Client) terminate(ctx context.Context, run RunID, request *event.Event) error {
	item := store.Item{ID: terminateItem, Scope: store.ScopeChain}
	request.By = behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, request); err != nil {
		return err
	}
	how := takeLined
	for delay := time.Millisecond; ; delay = min(2*delay, obedience) {
		if delay == obedience {
			how = takeOwned
		}
		// Again each time: what the run has continued as has the item then, and the request is known.
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

// terminating returns the commit that ends a run as the item in its inbox asks; nil: there is none. All that is needed of the
// log is its length, which the record of the run has. What it says of children and of the parent is used as far as it
// can be read.
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
