// Package handover is how a client gives what it starts to a worker of its own
// process. The worker creates the run already claimed by its own session, and with what
// the code of the run does until it waits for the first time: a claim, a commit and the
// round trips between them are saved. And it tells who waits for the end of a run that
// it works on, without asking the store.
package handover

import (
	"context"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Host is a worker that takes what clients of its process start.
type Host interface {
	// Take takes a start, and reports false if the run has to wait for a worker like
	// any other. What is taken is answered, declined, or left for Withdraw.
	Take(s *Start) bool
	// Follow waits until a run that the worker works on has ended, and returns its
	// end. It reports false if the worker does not know: it does not have the run, or no
	// longer.
	Follow(ctx context.Context, run event.RunID) (*End, bool)
}

// End is how a run has ended.
type End struct {
	Workflow string
	Last     event.Event
}

// Start describes a run to create. Either the client or the worker creates it: the
// worker once Begin has reported true, the client once Withdraw has. Until then both may
// read it, and neither changes it.
type Start struct {
	// Create is the request to the store, without the first frame and the owner.
	Create store.Create
	// Event is the event that creates the run, the first of its log.
	Event event.Event
	// SameInput lets the client refuse an active run that was started with another input.
	SameInput bool
	// Answers receives what came of it, at most once.
	Answers chan Answer

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
	// Declined says that nothing was stored, and that the client has to do it.
	Declined bool
	// Err says that it is not known what was stored.
	Err error
}

// Begin reports whether the worker may send the request. From then on it answers.
func (s *Start) Begin() bool { return s.state.CompareAndSwap(open, begun) }

// Withdraw reports whether the worker has not sent the request and never will.
func (s *Start) Withdraw() bool { return s.state.CompareAndSwap(open, withdrawn) }

// Decline gives back what was not begun; of what was, the answer tells.
func (s *Start) Decline() {
	if s.Withdraw() {
		s.Answers <- Answer{Declined: true}
	}
}

// Again returns a start of another run, with the same input and options, and with these
// items instead of its own.
func (s *Start) Again(run event.RunID, items []store.Item) *Start {
	again := &Start{Create: s.Create, Event: s.Event, SameInput: s.SameInput, Answers: make(chan Answer, 1)}
	again.Create.Run, again.Create.Items, again.Event.Time = run, items, run.Time()
	return again
}

// Request returns what the client stores: the first frame holds the event that creates
// the run, and nothing else.
func (s *Start) Request() (store.Create, error) {
	c := s.Create
	c.CommitID, c.Seq = event.NewCommitID(), 1
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: s.Event.Time, Events: []event.Event{s.Event}})
	return c, err
}
