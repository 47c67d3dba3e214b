package workflow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Hooks returns the open hooks of the run and of its steps, in the order of the operations that
// opened them, for operators. It reads the new part of the run's log and of the logs of the runs
// that execute its steps. Anyone who has a token can send to the run, so the result is a secret. A
// hook with a user-defined [Token] is listed after the store has granted the token. A run that has
// ended has no open hooks.
func (h *Handle) Hooks(ctx context.Context) ([]HookInfo, error) {
	run, err := h.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	all, remote, err := h.c.hooksOf(ctx, run)
	if err != nil {
		return all, fmt.Errorf("list hooks of run %s: %w", run, err)
	}
	for _, other := range remote {
		more, err := h.c.Run(other).Hooks(ctx)
		if err != nil && !errors.Is(err, ErrRunNotFound) { // not created yet, or purged
			return all, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// hooksOf returns the hooks that are open at the end of a run's log, and the runs that execute
// steps for the run.
func (c *Client) hooksOf(ctx context.Context, run RunID) (all []HookInfo, remote []RunID, err error) {
	head, err := c.loadAgain(ctx, store.Load{Run: run, Limit: -1})
	if err != nil || head.Record.QueueState == store.StateEnded {
		return nil, nil, err
	}
	l := c.logs.Get(run, func() *followedLog { return new(followedLog) })
	whole, size, bad := false, int64(0), error(nil)
	err = c.persist(ctx, "list hooks", func() error {
		l.mu.Lock() // unlocked during an outage, so that other callers can detect it
		defer l.mu.Unlock()
		if err := l.follow(ctx, c, &head.Record); err != nil {
			return err
		}
		whole, size = l.read >= head.Record.N, l.size()
		if whole {
			all, remote, bad = l.openHooks(run)
		}
		return nil
	})
	c.logs.Measure(run, l, size)
	if err == nil && !whole {
		return c.hooksAgain(ctx, run)
	}
	return all, remote, errors.Join(err, bad)
}

// hooksAgain reads the whole log of a run after a part of it could not be read, and returns the
// cause.
func (c *Client) hooksAgain(ctx context.Context, run RunID) ([]HookInfo, []RunID, error) {
	l, err := c.loadAgain(ctx, store.Load{Run: run})
	if err == nil {
		_, err = (&logReader{run: run}).all(&l)
	}
	if err != nil {
		return nil, nil, err
	}
	var f followedLog
	if !f.take(l.Frames) {
		return nil, nil, &EventError{Run: run, Frame: f.read + 1, Err: event.ErrCorrupt}
	}
	return f.openHooks(run)
}

// noteHook keeps the event that opens a hook until the hook is closed, without data of its frame
// that is not needed.
func (l *followedLog) noteHook(e *event.Event) {
	switch e.Type {
	case event.HookCreated, event.StepHookCreated:
		kept := *e
		kept.Payload, kept.Meta = nil, bytes.Clone(e.Meta)
		if l.hooks == nil {
			l.hooks = map[string]*event.Event{}
		}
		l.hooks[e.Token] = &kept
	case event.HookDisposed, event.HookConflict, event.StepStarted, event.StepRetrying, event.StepCompleted, event.StepFailed:
		delete(l.hooks, e.Token)
	}
}

// openHooks returns the hooks that are open at the end of the log, and the runs that execute steps
// for the run.
func (l *followedLog) openHooks(run RunID) (all []HookInfo, remote []RunID, err error) {
	if l.state.Run.Terminal() {
		return nil, nil, nil
	}
	asked := map[string]bool{} // keys of the runs that will hold a token once it is granted
	var open []*event.Open
	l.state.Opens(func(o *event.Open) bool {
		if o.Name == event.HookRun && o.State == event.StateWaiting {
			asked[o.Key] = true
		}
		open = append(open, o)
		return true
	})
	slices.SortFunc(open, func(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, o := range open {
		e := l.hooks[o.Token]
		if _, is := event.StepOfRun(o.Name); is && o.Entity == event.EntityChild {
			remote = append(remote, o.Next)
		}
		if e == nil || asked[holdKey(o.Key)] {
			continue
		}
		info := HookInfo{Hook: e.Name, Token: e.Token, Run: run, ID: e.Correlation(run), Key: o.Key, OpenedAt: e.Time, Attempt: e.Attempt, Due: e.Due}
		if err := info.describe(e.Meta); err != nil {
			return all, nil, err
		}
		all = append(all, info)
	}
	return all, remote, nil
}
