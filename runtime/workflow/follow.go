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
	tail    bool // begin fromEnd before the end
	fromEnd uint64
	types   []event.Type
}

// From delivers the event, or chunk of a stream, number n and later ones; 0 means
// from the start.
func From(n uint64) ReadOption { return func(o *readOptions) { o.from = n } }

// FromEnd starts with the last n events, or chunks, that are there when the loop
// begins; 0: with the next one.
func FromEnd(n int) ReadOption {
	return func(o *readOptions) { o.tail, o.fromEnd = true, uint64(max(n, 0)) }
}

// Types delivers only events of these types; given twice, of all that were named.
// Streams have no types: reading one with this option is an error.
func Types(types ...event.Type) ReadOption {
	return func(o *readOptions) { o.types = append(o.types, types...) }
}

// pageFrames is how many frames are read at once.
const pageFrames = 100

// Events follows the run live: it delivers each event of its log once, in order,
// and waits for more until the run has ended. The iterator ends silently after
// the last event; an error is the last pair, with a zero Event. Breaking out of
// the loop releases everything. A reader that comes late, or again with [From],
// misses nothing, and an outage of the store is waited for.
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

// follow delivers events until the run has ended or the reader has had enough.
func (h *Handle) follow(ctx context.Context, id RunID, o readOptions, yield func(event.Event, error) bool) error {
	read, err := h.seek(ctx, id, &o)
	if err != nil {
		return err
	}
	for r := (&logReader{run: id, read: read, by: o.from}); ; {
		var l store.Loaded
		err := h.c.persist(ctx, "read log", func() (err error) {
			l, err = h.c.load(ctx, store.Load{Run: id, After: r.read, Limit: pageFrames})
			return err
		})
		if err != nil {
			return err
		}
		until := min(l.Record.N, r.read+pageFrames)
		for _, b := range l.Frames {
			var f *event.Frame
			if f, err = r.decode(b); err != nil {
				break
			}
			for _, e := range f.Events {
				if e.Seq < o.from || len(o.types) > 0 && !slices.Contains(o.types, e.Type) {
					continue
				}
				if !yield(e, nil) {
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
		case l.Record.QueueState == store.StateEnded:
			return nil
		default:
			if err := h.c.persist(ctx, "follow log", func() error { return h.c.store.Watch(ctx, id, r.read) }); err != nil {
				return err
			}
		}
	}
}
