package workflow

import (
	"context"
	"errors"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// lookBack searches the logs of the chain for an answer that is not published any more. A question
// that was delivered and left no trace was refused.
func (a *asking) lookBack(ctx context.Context, refusable bool) error {
	known := false
	run, err := a.first(ctx)
	var chain event.Loop
	for err == nil && run != "" && a.found == nil {
		if chain.Closed(run) {
			return goesRound(run)
		}
		var here bool
		run, here, err = a.search(ctx, run)
		known = known || here
	}
	if err != nil || a.found != nil || known || !refusable {
		return err
	}
	if err := a.read(ctx); err != nil || a.found != nil {
		return err // it was refused during the search
	}
	a.found = &effects.Answer{ID: a.id, Refused: true, Failure: &event.Failure{
		Code: event.CodeRefused, Message: "the validation did, and why is not kept any more",
	}}
	return nil
}

// first returns the oldest existing run of the chain.
func (a *asking) first(ctx context.Context) (RunID, error) {
	var chain event.Loop
	for run := a.run; ; {
		if chain.Closed(run) {
			return "", goesRound(run)
		}
		l, err := a.c.loadAgain(ctx, store.Load{Run: run, Limit: 1})
		if err != nil {
			return "", a.wrap(ctx, err)
		}
		events, err := (&logReader{run: run}).events(l.Frames)
		if err != nil {
			return "", err
		}
		before := events[0].Spec.ContinuedOf
		if before == "" {
			return run, nil
		}
		if _, err := a.c.loadAgain(ctx, store.Load{Run: before, Limit: -1}); errors.Is(err, ErrRunNotFound) {
			return run, nil
		}
		run = before
	}
}

// search looks for the answer in the log of a run. known reports that the question is in the log or
// inbox; next is the run as which the run has continued.
func (a *asking) search(ctx context.Context, run RunID) (next RunID, known bool, err error) {
	l, err := a.c.loadAgain(ctx, store.Load{Run: run, Inbox: true})
	if err != nil {
		return "", false, a.wrap(ctx, err)
	}
	events, err := (&logReader{run: run}).all(&l)
	if err != nil {
		return "", false, err
	}
	for i := range events {
		e := &events[i]
		known = known || e.Item == a.id || slices.Contains(e.Unread, a.id)
		switch {
		case e.Type == event.RunContinued:
			next = e.Next
		case (e.Type == event.AskAnswered || e.Type == event.AskRefused || e.Type == event.HookAnswered) && e.Key == string(a.id):
			a.found = &effects.Answer{ID: a.id, Payload: e.Payload, Failure: e.Failure, Refused: e.Type == event.AskRefused}
		}
	}
	return next, known || slices.ContainsFunc(l.Inbox, func(i store.Item) bool { return i.ID == a.id }), nil
}
