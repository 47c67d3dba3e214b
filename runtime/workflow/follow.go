package workflow

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ReadOption changes what an iterator delivers.
type ReadOption func(*readOptions)

type readOptions struct {
	from    uint64
	tail    bool // begin fromEnd events before the end
	fromEnd uint64
	types   []event.Type
	to      uint64 // last event to deliver, without waiting; 0: no limit
}

// From delivers events, or chunks of a stream, from number n on. 0 means from the start.
func From(n uint64) ReadOption { return func(o *readOptions) { o.from = n } }

// FromEnd starts with the last n events or chunks that exist when the loop begins. 0 means with the
// next one.
func FromEnd(n int) ReadOption {
	return func(o *readOptions) { o.tail, o.fromEnd = true, uint64(max(n, 0)) }
}

// Types delivers only events of these types. Several Types options add up. Streams have no types,
// so reading a stream with this option is an error.
func Types(types ...event.Type) ReadOption {
	return func(o *readOptions) { o.types = append(o.types, types...) }
}

// pageFrames is the number of frames read at once.
const pageFrames = 100

// Events follows the run: it delivers each event of its log once, in order, and waits for more
// until the run has ended. The iterator ends after the last event; an error is delivered as the
// last pair, with a zero Event. Breaking out of the loop releases all resources. A reader that
// starts late, or resumes with [From], misses no event, and the iterator waits out an outage of the
// store.
func (h *Handle) Events(ctx context.Context, opts ...ReadOption) iter.Seq2[event.Event, error] {
	var o readOptions
	for _, opt := range opts {
		opt(&o)
	}
	return func(yield func(event.Event, error) bool) {
		id, err := h.find(ctx)
		if err == nil {
			err = h.follow(ctx, id, o, yield)
		}
		if err != nil {
			yield(event.Event{}, fmt.Errorf("follow run %s: %w", id, err))
		}
	}
}

// follow delivers events until the run has ended or yield returns false.
func (h *Handle) follow(ctx context.Context, id RunID, o readOptions, yield func(event.Event, error) bool) error {
	read, err := h.seek(ctx, id, &o)
	if err != nil {
		return err
	}
	for r := (&logReader{run: id, read: read, by: o.from}); ; {
		var l store.Loaded
		most := o.frames(r.read)
		err := h.c.persist(ctx, "read log", func() (err error) {
			l, err = h.c.load(ctx, store.Load{Run: id, After: r.read, Limit: int(most)})
			return err
		})
		if err != nil {
			return err
		}
		until := min(l.Record.N, r.read+most)
		for _, b := range l.Frames {
			var f *event.Frame
			if f, err = r.decode(b); err != nil {
				break
			}
			for _, e := range f.Events {
				if e.Seq < o.from || len(o.types) > 0 && !slices.Contains(o.types, e.Type) {
					continue
				}
				if o.to > 0 && e.Seq > o.to || !yield(e, nil) || e.Seq == o.to {
					return nil
				}
			}
		}
		if err == nil {
			err = r.complete(until)
		}
		if err != nil {
			if err := r.again(ctx, h.c, err); err != nil {
				return err
			}
			continue
		}
		switch {
		case r.read < l.Record.N:
		case l.Record.QueueState == store.StateEnded, o.to > 0:
			return nil
		default:
			if err := h.c.persist(ctx, "follow log", func() error { return h.c.store.Watch(ctx, id, r.read) }); err != nil {
				return err
			}
		}
	}
}

// frames returns the number of frames to read next after the first read ones. Each frame has at
// least one event, so the last wanted event is at or before the frame with its number.
func (o *readOptions) frames(read uint64) uint64 {
	if o.to > read {
		return min(o.to-read, pageFrames)
	}
	return pageFrames
}

// ReadEvents returns up to limit existing events of the run, starting with number from. Numbers
// start at 1; 0 is treated as 1. A limit below 1 returns none. It reads only the necessary part of
// the log and does not wait for more events, but it waits out an outage of the store.
func (h *Handle) ReadEvents(ctx context.Context, from uint64, limit int) ([]event.Event, error) {
	if limit <= 0 {
		return nil, nil
	}
	from = max(from, 1)
	to := max(from, from+uint64(limit)-1) // to may exceed the last number
	var all []event.Event
	id, err := h.find(ctx)
	if err == nil {
		err = h.follow(ctx, id, readOptions{from: from, to: to}, func(e event.Event, _ error) bool {
			all = append(all, e)
			return true
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", id, err)
	}
	return all, nil
}

// seek returns the number of frames before the first event that a reader requests, so that reading
// begins there and not at the first frame. It finds the event by binary search over frames until
// the rest fits one page. It converts a position relative to the end to an event number. A frame
// that cannot be read ends the search; the subsequent read reports the error.
func (h *Handle) seek(ctx context.Context, id RunID, o *readOptions) (uint64, error) {
	if o.from <= 1 && !o.tail {
		return 0, nil
	}
	look := func(ask store.Load) (l store.Loaded, err error) {
		ask.Run = id
		err = h.c.persist(ctx, "read log", func() (err error) {
			l, err = h.c.load(ctx, ask)
			return err
		})
		return l, err
	}
	l, err := look(store.Load{Limit: -1})
	if err != nil {
		return 0, err
	}
	if o.tail && l.Record.Seq > o.fromEnd {
		o.from = max(o.from, l.Record.Seq-o.fromEnd+1)
	}
	o.tail = false
	switch {
	case o.from <= 1:
		return 0, nil
	case o.from > l.Record.Seq:
		return l.Record.N, nil // the event does not exist yet
	}
	// Frame low begins at or before the event, and frame high, if it exists, after it. Each frame
	// has at least one event, which bounds low and high by the distances of the event to both ends
	// of the log.
	low, high := uint64(1), min(l.Record.N, o.from)+1
	if after := l.Record.Seq - o.from; after < l.Record.N {
		low = l.Record.N - after
	}
	for high-low > pageFrames {
		middle := low + (high-low)/2
		l, err := look(store.Load{After: middle - 1, Limit: 1})
		if err != nil {
			return 0, err
		}
		if len(l.Frames) == 0 {
			break
		}
		f, err := event.DecodeFrame(l.Frames[0])
		if err != nil || len(f.Events) == 0 {
			break
		}
		if f.Events[0].Seq <= o.from {
			low = middle
		} else {
			high = middle
		}
	}
	return low - 1, nil //nolint:nilerr // the reader that follows reports what cannot be decoded
}

// logReader reads the frames of a log in order, and detects a missing frame: a store that has lost
// a part of a log returns the rest of it.
type logReader struct {
	run  RunID
	read uint64 // number of frames
	last event.CommitID
	// by replaces last for a reader that does not begin at the first frame: it is the number of an
	// event in or before the first frame that is read.
	by uint64
}

// decode decodes the next frame.
func (r *logReader) decode(b []byte) (*event.Frame, error) {
	f, err := event.DecodeFrame(b)
	if err != nil {
		return nil, &EventError{Run: r.run, Frame: r.read + 1, Err: err}
	}
	begins := r.read > 0 && r.last == (event.CommitID{})
	if begins && r.by > 0 && len(f.Events) > 0 && f.Events[0].Seq > r.by || !begins && f.Prev != r.last {
		return nil, r.missing()
	}
	r.read, r.last = r.read+1, f.CommitID
	return f, nil
}

// complete returns an error unless all frames of the log, given by their number, were read.
func (r *logReader) complete(frames uint64) error {
	if r.read < frames {
		return r.missing()
	}
	return nil
}

func (r *logReader) missing() error {
	return &EventError{Run: r.run, Frame: r.read + 1, Err: fmt.Errorf("it is missing: %w", event.ErrCorrupt)}
}

// all returns the events of a whole log.
func (r *logReader) all(l *store.Loaded) ([]event.Event, error) {
	events, err := r.events(l.Frames)
	if err == nil {
		err = r.complete(l.Record.N)
	}
	return events, err
}

// events returns the events of the first frames of a log.
func (r *logReader) events(frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	for _, b := range frames {
		f, err := r.decode(b)
		if err != nil {
			return nil, err
		}
		events = append(events, f.Events...)
	}
	if len(events) == 0 || events[0].Spec == nil {
		return nil, &EventError{Run: r.run, Frame: 1, Err: event.ErrCorrupt}
	}
	return events, nil
}

// again reads once more at the place where a frame was missing. If the store has lost writes and
// the run has continued since, the run has another, complete log; then the reader continues with
// that. Otherwise again returns hole.
func (r *logReader) again(ctx context.Context, c *Client, hole error) error {
	if r.last == (event.CommitID{}) {
		return hole
	}
	var l store.Loaded
	err := c.persist(ctx, "read log", func() (err error) {
		l, err = c.load(ctx, store.Load{Run: r.run, After: r.read - 1, Limit: 2})
		return err
	})
	if err != nil {
		return err
	}
	if len(l.Frames) < 2 {
		return hole
	}
	before, err := event.DecodeFrame(l.Frames[0])
	if err != nil {
		return &EventError{Run: r.run, Frame: r.read, Err: err}
	}
	after, err := event.DecodeFrame(l.Frames[1])
	if err != nil {
		return &EventError{Run: r.run, Frame: r.read + 1, Err: err}
	}
	if after.Prev != before.CommitID || before.CommitID == r.last {
		return hole
	}
	r.last = before.CommitID
	return nil
}
