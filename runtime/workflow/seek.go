package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

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
