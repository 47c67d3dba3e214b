package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

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
