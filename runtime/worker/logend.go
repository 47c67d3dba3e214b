package worker

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// logEnd is the end of the durable part of the log, as far as the worker has confirmed it.
type logEnd struct {
	n     uint64 // number of frames
	seq   uint64
	last  event.CommitID
	size  logSize
	bytes int // size of the log at the claim, if the store reports it
}

// logSize is the size of a log in bytes.
type logSize struct {
	bytes   int
	limited int // the size at which the log was found to be too long; 0 if it was not
}

// add counts a frame.
func (s *logSize) add(frame int, events []event.Event) {
	s.bytes += frame
	for i := range events {
		if e := &events[i]; e.Type == event.CancelRequested && e.Failure != nil && s.limited == 0 {
			s.limited = s.bytes
		}
	}
}

// decode decodes the frames of a log and checks that they match the claim.
func (l *logEnd) decode(run event.RunID, frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	var prev event.CommitID
	for i, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", i+1, run, err)
		}
		if f.Prev != prev {
			return nil, fmt.Errorf("frame %d of the log of run %s does not continue the frame before it: %w", i+1, run, event.ErrCorrupt)
		}
		prev = f.CommitID
		events = append(events, f.Events...)
		l.size.add(len(b), f.Events)
	}
	if last := uint64(len(events)); uint64(len(frames)) != l.n || last != l.seq || prev != l.last {
		return nil, fmt.Errorf("log of run %s ends with frame %d (%s) and event %d, its metadata says %d (%s) and %d: %w",
			run, len(frames), prev, last, l.n, l.last, l.seq, event.ErrCorrupt)
	}
	return events, nil
}

// itemsIn returns the items that are in a log. If a worker applied items that one commit could not
// hold, only its last commit consumes them. A worker that continues such a log finds them in the
// inbox as well and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}
