package runloop

import (
	"fmt"
	"maps"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// heldClaim is the claim under which the worker owns the run.
type heldClaim struct {
	claim      *Claim
	route      store.Route
	workflowID string
	fence      store.Fence
	recoveries int
	group      string    // failure group that the store has recorded for the run; empty if there is none
	leftQueue  bool      // whether the run was claimed without permits, only to end it
	attempted  bool      // whether an attempt was begun under this claim
	first      time.Time // when the first attempt was begun under this claim
	waited     time.Time // when the run began to wait for its permits; zero if it did not wait, or if the wait is in the log
	since      time.Time // when the run was claimed
	claimSeq   uint64    // number of the claim, compared when Owned is handled
	isNew      bool      // whether the run does not exist yet, so that its first commit must create it
	releaseDelayed
}

// hold begins the ownership of the run under a claim.
func (s *State) hold(c *Claim) {
	s.heldClaim = heldClaim{
		claim: c, route: c.Route, workflowID: c.WorkflowID, fence: c.Fence, recoveries: c.Recoveries, group: c.Group, leftQueue: c.LeftQueue,
		waited: c.Waited, since: s.moment.Now, claimSeq: c.Number, isNew: c.Create != nil,
	}
}

// logEnd is the end of the durable log, as confirmed to the worker.
type logEnd struct {
	n        uint64 // number of frames
	seq      uint64
	last     event.CommitID
	logBytes int // size of the log in the store
	limited  int // size at which the log reached its bound; 0 if it did not
}

// addFrame adds a frame to the size of the log.
func (s *State) addFrame(bytes int, events []event.Event) {
	s.logBytes += bytes
	for i := range events {
		if e := &events[i]; e.Type == event.CancelRequested && e.Failure != nil && s.limited == 0 {
			s.limited = s.logBytes
		}
	}
}

// portions summarizes the portions of a log that were replayed before the next one is read.
type portions struct {
	n, seq uint64
	last   event.CommitID
	took   time.Duration         // time to execute the code
	items  map[event.ItemID]bool // see itemsIn
	log    []event.Event         // for observers, without payloads
}

// add adds the events of a portion.
func (p *portions) add(events []event.Event, observed bool) {
	if p.items == nil {
		p.items = map[event.ItemID]bool{}
	}
	maps.Copy(p.items, itemsIn(events))
	if observed {
		n := len(p.log)
		p.log = append(p.log, events...)
		for i := range p.log[n:] {
			p.log[n+i].Payload = nil
		}
	}
}

// extend returns the events of all portions, the last of which has the given events.
func (p *portions) extend(events []event.Event) []event.Event {
	if p.log == nil {
		return events
	}
	return append(p.log, events...)
}

// decode decodes the frames of a log, or of the next portion of it. It checks that they end where the
// claim reports, or before the frame that follows.
func (s *State) decode(got *store.Loaded) ([]event.Event, error) {
	var events []event.Event
	prev, before := s.read.last, int(s.read.n)
	for i, b := range got.Frames {
		i += before
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", i+1, s.id, err)
		}
		if f.Prev != prev {
			return nil, fmt.Errorf("frame %d of the log of run %s does not continue the frame before it: %w", i+1, s.id, event.ErrCorrupt)
		}
		for j := range f.Events {
			if err := f.Events[j].CheckOpen(); err != nil {
				return nil, fmt.Errorf("event %d of run %s: %w", f.Events[j].Seq, s.id, err)
			}
		}
		prev = f.CommitID
		events = append(events, f.Events...)
		size := len(b)
		if got.Sizes != nil {
			size = got.Sizes[i-before]
		}
		s.addFrame(size, f.Events)
	}
	s.read.n, s.read.seq, s.read.last = s.read.n+uint64(len(got.Frames)), s.read.seq+uint64(len(events)), prev
	if got.Next != nil {
		f, err := event.DecodeFrame(got.Next)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", s.read.n+1, s.id, err)
		}
		return append(events, f.Events[0]), nil
	}
	if r := &s.read; r.n != s.n || r.seq != s.seq || r.last != s.last {
		return nil, fmt.Errorf("log of run %s ends with frame %d (%s) and event %d, its metadata has %d (%s) and %d: %w",
			s.id, r.n, r.last, r.seq, s.n, s.last, s.seq, event.ErrCorrupt)
	}
	return events, nil
}

// itemsIn returns the IDs of the items that are in a log. If a run has applied more items than one
// commit may consume, only the last of several commits consumes them. A worker that continues such
// a log finds the items in the inbox as well and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}
