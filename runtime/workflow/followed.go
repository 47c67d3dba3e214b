package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// What Info says of retries stands in the log only, and a log may be long. The record says whether there is
// anything to be found: a worker labels a run in the commit in which the first of its steps begins to fail, and takes the label away
// in the one in which none does any more. So the logs of runs without a label are not read; those of the others are read
// once, and then from where they were read to.

// isFollowed reports whether the log has something that Info tells and that the record does not.
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

// mostFollowed bounds what is kept of logs, in bytes or so.
const mostFollowed = 4 << 20

// followedLog is a log as far as it was read.
type followedLog struct {
	mu     sync.Mutex // one reads, others wait for what it has read
	read   uint64     // frames
	last   event.CommitID
	state  event.LogState
	hooks  map[string]*event.Event // that opened those which are open, by token
	broken bool                    // the frame after these cannot be read
}

// followed returns what the log of a run tells of its retries, and until when the run must have begun. A log that cannot be
// read to its end tells as much as it does: its run is blocked, and says so.
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

// Orders are what was asked of an open run, as far as its log has it.
type Orders struct {
	Paused       bool   // its code stands still until it is resumed: that of a run in debug mode also does between operations, without this
	Canceling    bool   // it was asked to end, or must, and its code cleans up
	CancelReason string // of the first request
}

// Orders reads what has come into the log of the run since it was read last. What a log that cannot be read to its end has behind that is
// left out.
func (h *Handle) Orders(ctx context.Context) (Orders, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return Orders{}, err
	}
	got, err := h.c.load(ctx, store.Load{Run: id, Limit: -1})
	if err != nil {
		return Orders{}, fmt.Errorf("read orders to run %s: %w", id, err)
	}
	l := h.c.logs.Get(id, func() *followedLog { return new(followedLog) })
	l.mu.Lock()
	err = l.follow(ctx, h.c, &got.Record)
	o := Orders{Paused: l.state.Paused, Canceling: l.state.Ending(), CancelReason: l.state.CancelReason}
	bytes := l.size()
	l.mu.Unlock()
	h.c.logs.Measure(id, l, bytes)
	if err != nil {
		return Orders{}, fmt.Errorf("read orders to run %s: %w", id, err)
	}
	return o, nil
}

// follow reads what has come into the log since.
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

// isBeginningOf reports whether what was read is the beginning of the log as it is now. A store that has lost writes
// may have another log, and a run that was deleted may have been made again under its id.
func (l *followedLog) isBeginningOf(ctx context.Context, c *Client, r *store.Record) (bool, error) {
	switch {
	case l.broken:
		return false, nil
	case l.read == 0:
		return true, nil
	case l.read == r.N:
		return l.last == r.Last, nil
	}
	got, err := c.load(ctx, store.Load{Run: r.Run, After: l.read - 1, Limit: 1}) // it may be longer than when r was read
	if err != nil || len(got.Frames) == 0 {
		return false, err
	}
	f, err := event.DecodeFrame(got.Frames[0])
	return err == nil && f.CommitID == l.last, nil
}

// take follows frames. It reports whether all could be.
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
	if l.state.Spec == nil { // nothing could be read
		return time.Time{}
	}
	return l.state.StartBy()
}

// size returns about how many bytes are kept of the log.
func (l *followedLog) size() int64 {
	const log, open = 1 << 10, 512
	n := log + int64(l.state.Seq)
	l.state.Opens(func(*event.Open) bool { n += open; return true })
	for token, e := range l.hooks {
		n += open + int64(len(token)+len(e.Meta))
	}
	return n
}

// apply follows events. It reports whether all could be.
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
		if o.State == event.StatePending { // else the attempt is under way, here or outside
			r.Next = o.Due
		}
		all = append(all, r)
	}
	return all
}
