package worker

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// logEnd is the log's end as far as it is known to be durable.
type logEnd struct {
	n     uint64 // frames
	seq   uint64
	last  event.CommitID
	size  logSize
	bytes int // of the log when it was claimed, if the store knows
}

// logSize is the size of a log in bytes.
type logSize struct {
	bytes   int
	limited int // when it was found to be too long; 0: it was not
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

// decode reads the frames of a log and checks that they are those of the claim.
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

// itemsIn returns the items that are in a log. Of what one worker took over at once and could
// not write with one commit, only the last commit consumes the items: who goes on with such
// a log finds them in the inbox, too, and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}
