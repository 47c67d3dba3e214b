package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// seek returns how many frames of a log come before the first event that a reader wants,
// so that reading begins there and not with the first frame. The event is looked for by
// halves, frame by frame, until what is left fits into one page. What the reader wants
// of the end is turned into a number of an event. A frame that cannot be read ends the
// search: the reader meets it, and says so.
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
		return l.Record.N, nil // it is still to come
	}
	// Frame low begins before or with the event, frame high, if there is one, after it: each frame has an event
	// at least, those before the event as well as those after it.
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
