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
