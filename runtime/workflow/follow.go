package workflow

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ReadOption changes what an iterator over events or chunks returns.
type ReadOption func(*readOptions)

type readOptions struct {
	from    uint64
	tail    bool // begin fromEnd events before the end of the log
	fromEnd uint64
	types   []event.Type
	to      uint64 // last event to return; following then never waits; 0: no limit
}

// From returns events, or chunks of a stream, from number n on. 0 means from the start.
func From(n uint64) ReadOption { return func(o *readOptions) { o.from = n } }

// FromEnd starts with the last n events or chunks that exist when the loop begins. If n is 0, it
// starts with the next event or chunk.
func FromEnd(n int) ReadOption {
	return func(o *readOptions) { o.tail, o.fromEnd = true, uint64(max(n, 0)) }
}

// Types returns only events of these types. The types of several Types options are combined.
// Streams have no types, so this option is an error for them.
func Types(types ...event.Type) ReadOption {
	return func(o *readOptions) { o.types = append(o.types, types...) }
}

// pageFrames is the number of frames in one read request.
const pageFrames = 100

// Events follows the run. The iterator returns each event of the log once, in order, and waits for
// more events until the run has ended. It ends after the last event. If an error occurs, it is in
// the last pair, with a zero Event. Breaking out of the loop releases all resources. A reader that
// starts late, or resumes with [From], misses no event. During an outage of the store, the iterator
// waits.
func (h *Handle) Events(ctx context.Context, opts ...ReadOption) iter.Seq2[event.Event, error] {
	o := optionsOf(opts)
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

// follow calls yield for each event until the run has ended or yield returns false.
func (h *Handle) follow(ctx context.Context, id RunID, o readOptions, yield func(event.Event, error) bool) error {
	read, err := h.seek(ctx, id, &o)
	if err != nil {
		return err
	}
	for r := (&logReader{run: id, read: read, by: o.from}); ; {
		most := o.frames(r.read)
		l, err := h.c.loadAgain(ctx, store.Load{Run: id, After: r.read, Limit: int(most)})
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
			if err := h.c.Persist(ctx, "follow log", func() error { return h.c.store.Watch(ctx, id, r.read) }); err != nil {
				return err
			}
		}
	}
}

// frames returns the number of frames to read next if the first read frames have been read. Each
// frame has at least one event. Therefore event o.to is at the latest in the frame with number
// o.to.
func (o *readOptions) frames(read uint64) uint64 {
	if o.to > read {
		return min(o.to-read, pageFrames)
	}
	return pageFrames
}

// ReadEvents returns up to limit existing events of the run, beginning with number from. Numbers
// start at 1, and 0 is treated as 1. If limit is less than 1, it returns no events. It reads only
// the necessary part of the log. It does not wait for more events, but it waits during an outage of
// the store.
func (h *Handle) ReadEvents(ctx context.Context, from uint64, limit int) ([]event.Event, error) {
	if limit <= 0 {
		return nil, nil
	}
	from = max(from, 1)
	to := max(from, from+uint64(limit)-1) // to may be greater than the number of the last event
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

// seek returns the number of frames before the first requested event, so that the caller can begin
// reading there. It finds the event by binary search over frames until the remaining frames fit
// into one page. It sets o.from if the position is relative to the end. A frame that cannot be read
// ends the search, and the caller reports the error when it reads that frame.
func (h *Handle) seek(ctx context.Context, id RunID, o *readOptions) (uint64, error) {
	if o.from <= 1 && !o.tail {
		return 0, nil
	}
	l, err := h.c.loadAgain(ctx, store.Load{Run: id, Limit: -1})
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
		return l.Record.N, nil // the event does not exist
	}
	// Frame low begins at or before the event. Frame high, if it exists, begins after the event.
	// Each frame has at least one event, so the number of events before and after the event bounds
	// low and high.
	low, high := uint64(1), min(l.Record.N, o.from)+1
	if after := l.Record.Seq - o.from; after < l.Record.N {
		low = l.Record.N - after
	}
	for high-low > pageFrames {
		middle := low + (high-low)/2
		l, err := h.c.loadAgain(ctx, store.Load{Run: id, After: middle - 1, Limit: 1})
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

// logReader reads the frames of a log in order. It detects missing frames, because a store that has
// lost a part of a log returns the remaining frames.
type logReader struct {
	run  RunID
	read uint64 // number of frames that were read
	last event.CommitID
	// by replaces last for the first frame, if reading does not begin at frame 1. It is the number
	// of an event in or before that frame.
	by uint64
}

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

// complete returns an error if fewer than the given number of frames were read.
func (r *logReader) complete(frames uint64) error {
	if r.read < frames {
		return r.missing()
	}
	return nil
}

func (r *logReader) missing() error {
	return &EventError{Run: r.run, Frame: r.read + 1, Err: fmt.Errorf("it is missing: %w", event.ErrCorrupt)}
}

// all returns all events of a log. It returns an error if a frame is missing.
func (r *logReader) all(l *store.Loaded) ([]event.Event, error) {
	events, err := r.events(l.Frames)
	if err == nil {
		err = r.complete(l.Record.N)
	}
	return events, err
}

// events returns the events of the given frames, which are the next ones of the log.
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

// again handles a missing frame. If the store has lost writes, the run may have continued and have
// another log that is complete. In that case, again returns nil and the reader continues with that
// log. Otherwise it returns hole.
func (r *logReader) again(ctx context.Context, c *client, hole error) error {
	if r.last == (event.CommitID{}) {
		return hole
	}
	l, err := c.loadAgain(ctx, store.Load{Run: r.run, After: r.read - 1, Limit: 2})
	switch {
	case err != nil:
		return err
	case len(l.Frames) < 2:
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
