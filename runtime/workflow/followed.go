package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/store"
)

// Info reads retries from the log only, and a log may be long. The record shows whether there is
// anything to read: a worker labels a run in the commit in which the first of its steps begins to
// fail, and removes the label in the commit after which none fails. Logs of runs without a label
// are not read; other logs are read once, and then from the position reached.

// isFollowed reports whether the log contains something for Info that is not in the record.
func isFollowed(r *store.Record, spec *event.Spec) bool {
	if r.QueueState == store.StateEnded || r.QueueState == store.StateParked && r.Due.IsZero() {
		return false // no attempt will follow
	}
	if r.Group != "" {
		return true
	}
	pending := r.Status == StatusPending || r.Status == StatusHeld || r.Status == StatusPaused
	return pending && spec != nil && spec.StartWithin > 0
}

// mostFollowed bounds the approximate size in bytes of the cached logs.
const mostFollowed = 4 << 20

// followedLog is the part of a log that was read.
type followedLog struct {
	mu     sync.Mutex // one caller reads, others wait for its result
	read   uint64     // number of frames
	last   event.CommitID
	state  event.LogState
	hooks  map[string]*event.Event // opening events of the open hooks, by token
	broken bool                    // the next frame cannot be read
}

// followed returns the retries of a run from its log, and the time by which the run must have
// begun. If the log cannot be read to its end, the result covers the readable part; such a run is
// blocked and reports the reason.
func (c *Client) followed(ctx context.Context, r *store.Record) ([]StepRetry, time.Time, error) {
	l := c.logs.Get(r.Run, func() *followedLog { return new(followedLog) })
	l.mu.Lock()
	err := l.follow(ctx, c, r)
	retries, by, bytes := retriesIn(&l.state), l.startBy(), l.size()
	l.mu.Unlock()
	c.logs.Measure(r.Run, l, bytes)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("get info of run %s: %w", r.Run, err)
	}
	return retries, by, nil
}

// orders returns the requests to an open run that its log contains. It reads the part of the log that was added since the last read. If the log cannot be read to
// its end, the result covers the readable part.
func (h *Handle) orders(ctx context.Context) (engine.Orders, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return engine.Orders{}, err
	}
	got, err := h.c.load(ctx, store.Load{Run: id, Limit: -1})
	if err != nil {
		return engine.Orders{}, fmt.Errorf("read orders to run %s: %w", id, err)
	}
	l := h.c.logs.Get(id, func() *followedLog { return new(followedLog) })
	l.mu.Lock()
	err = l.follow(ctx, h.c, &got.Record)
	o := engine.Orders{Paused: l.state.Paused, Canceling: l.state.Ending(), CancelReason: l.state.CancelReason}
	bytes := l.size()
	l.mu.Unlock()
	h.c.logs.Measure(id, l, bytes)
	if err != nil {
		return engine.Orders{}, fmt.Errorf("read orders to run %s: %w", id, err)
	}
	return o, nil
}

// follow reads the part of the log that was added since the last call.
func (l *followedLog) follow(ctx context.Context, c *Client, r *store.Record) error {
	same, err := l.isBeginningOf(ctx, c, r)
	if err != nil {
		return err
	}
	if !same {
		l.forget()
	}
	for l.read < r.N {
		got, err := c.load(ctx, store.Load{Run: r.Run, After: l.read, Limit: pageFrames})
		if err != nil {
			return err
		}
		if len(got.Frames) == 0 || !l.take(got.Frames) {
			return nil
		}
	}
	return nil
}

// isBeginningOf reports whether the frames read are a prefix of the current log. A store that has
// lost writes may have another log, and a deleted run may have been created again with its ID.
func (l *followedLog) isBeginningOf(ctx context.Context, c *Client, r *store.Record) (bool, error) {
	switch {
	case l.broken:
		return false, nil
	case l.read == 0:
		return true, nil
	case l.read == r.N:
		return l.last == r.Last, nil
	}
	got, err := c.load(ctx, store.Load{Run: r.Run, After: l.read - 1, Limit: 1}) // the log may have grown since r was read
	if err != nil || len(got.Frames) == 0 {
		return false, err
	}
	f, err := event.DecodeFrame(got.Frames[0])
	return err == nil && f.CommitID == l.last, nil
}

// take applies frames. It reports whether all could be applied.
func (l *followedLog) take(frames [][]byte) bool {
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil || l.read > 0 && f.Prev != l.last || !l.apply(f.Events) {
			l.broken = true
			return false
		}
		l.read, l.last = l.read+1, f.CommitID
	}
	return true
}

func (l *followedLog) forget() {
	l.read, l.last, l.state, l.hooks, l.broken = 0, event.CommitID{}, event.LogState{}, nil, false
}

func (l *followedLog) startBy() time.Time {
	if l.state.Spec == nil { // the log has no readable event
		return time.Time{}
	}
	return l.state.StartBy()
}

// size returns the approximate memory use in bytes.
func (l *followedLog) size() int64 {
	const log, open = 1 << 10, 512
	n := log + int64(l.state.Seq)
	l.state.Opens(func(*event.Open) bool { n += open; return true })
	for token, e := range l.hooks {
		n += open + int64(len(token)+len(e.Meta))
	}
	return n
}

// apply applies events. It reports whether all could be applied.
func (l *followedLog) apply(events []event.Event) bool {
	for i := range events {
		if l.state.Apply(&events[i]) != nil {
			return false
		}
		l.noteHook(&events[i])
	}
	return true
}

func retriesIn(f *event.LogState) []StepRetry {
	open := slices.Collect(f.AllFailing)
	slices.SortFunc(open, func(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) })
	var all []StepRetry
	for _, o := range open {
		r := StepRetry{Step: o.Name, Key: o.Key, Attempt: o.Attempt, Failed: o.Failure.Message, Code: o.Failure.Code}
		if o.State == event.StatePending { // otherwise the attempt is running, here or in an external system
			r.Next = o.Due
		}
		all = append(all, r)
	}
	return all
}
