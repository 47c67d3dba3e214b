// Package localstart passes local starts from a client to a worker of the same process. The worker
// creates the run already claimed by its own session, together with the events that the code of the
// run produces up to its first wait. This saves a claim, a commit and the round trips between them.
// The package also notifies callers that wait for the end of a run on such a worker, without a
// request to the store.
package localstart

import (
	"context"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Host is a worker that accepts local starts from clients of its process.
type Host interface {
	// Take accepts a start. It reports false if the run has to wait for a claim. The worker answers
	// or declines an accepted start, unless the client withdraws it.
	Take(s *Start) bool
	// Follow waits until a run that the worker owns has ended, and returns the end. It reports
	// false if the worker does not own the run or loses it.
	Follow(ctx context.Context, run event.RunID) (*End, bool)
}

// End is the end of a run.
type End struct {
	Workflow string
	Last     event.Event
}

// Start describes a run to create. The worker creates the run if Begin has reported true, and the
// client if Withdraw has reported true. Until then both may read the Start, and neither may change
// it.
type Start struct {
	// Create is the request to the store, without the first frame and the owner.
	Create store.Create
	// Event is the event that creates the run. It is the first event of the log.
	Event event.Event
	// SameInput makes the client reject an active run that has another input.
	SameInput bool
	// Answered is closed when the worker has answered. Outcome is the answer; it is set before.
	Answered chan struct{}
	Outcome  Answer

	state atomic.Uint32
}

const (
	open uint32 = iota
	begun
	withdrawn
)

// Answer is the outcome of a start.
type Answer struct {
	Created store.Created
	// Declined is set if nothing was stored. The client must create the run.
	Declined bool
	// Err is set if it is unknown whether the run was stored.
	Err error
}

// Begin reports whether the worker may create the run. If so, the worker must answer.
func (s *Start) Begin() bool { return s.state.CompareAndSwap(open, begun) }

// Withdraw reports whether the client may create the run. If so, the worker never creates it.
func (s *Start) Withdraw() bool { return s.state.CompareAndSwap(open, withdrawn) }

// Answer sets the outcome of a start. It must be called at most once, by the worker that has begun or
// declined the start.
func (s *Start) Answer(a Answer) {
	s.Outcome = a
	close(s.Answered)
}

// Decline answers a start that was not begun, so that the client creates the run. It has no effect
// on other starts.
func (s *Start) Decline() {
	if s.Withdraw() {
		s.Answer(Answer{Declined: true})
	}
}

// Again returns a start of another run with the same input and options. The items replace those of
// s.
func (s *Start) Again(run event.RunID, items []store.Item) *Start {
	again := &Start{Create: s.Create, Event: s.Event, SameInput: s.SameInput, Answered: make(chan struct{})}
	again.Create.Run, again.Create.Items, again.Event.Time = run, items, run.Time()
	return again
}

// Request returns the store request with which the client creates the run. Its first frame contains
// only the event that creates the run.
func (s *Start) Request() (store.Create, error) {
	c := s.Create
	c.CommitID, c.Seq = event.NewCommitID(), 1
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: s.Event.Time, Events: []event.Event{s.Event}})
	return c, err
}
