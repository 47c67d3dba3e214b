// Package localstart passes local starts from a client to a worker of its own process. The worker
// creates the run already claimed by its own session, and with the events that the code of the run
// produces up to its first wait. This saves a claim, a commit and the round trips between them. The
// package also notifies callers that wait for the end of a run on such a worker, without a request
// to the store.
package localstart

import (
	"context"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Host is a worker that accepts local starts from clients of its process.
type Host interface {
	// Take accepts a start, or reports false if the run has to wait for a claim like any other. An
	// accepted start is answered, declined, or left for Withdraw.
	Take(s *Start) bool
	// Follow waits until a run that the worker works on has ended, and returns its end. It reports
	// false if the worker does not have the run, or loses it.
	Follow(ctx context.Context, run event.RunID) (*End, bool)
}

// End is the end of a run.
type End struct {
	Workflow string
	Last     event.Event
}

// Start describes a run to create. Either the client or the worker creates it: the worker once
// Begin has reported true, the client once Withdraw has. Until then both may read it, and neither
// changes it.
type Start struct {
	// Create is the request to the store, without the first frame and the owner.
	Create store.Create
	// Event is the event that creates the run, the first of its log.
	Event event.Event
	// SameInput makes the client reject an active run that was started with another input.
	SameInput bool
	// Answers receives the outcome, at most once.
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
	// Declined reports that nothing was stored, and that the client must create the run.
	Declined bool
	// Err reports that it is unknown what was stored.
	Err error
}

// Begin reports whether the worker may send the request. If so, the worker must answer.
func (s *Start) Begin() bool { return s.state.CompareAndSwap(open, begun) }

// Withdraw reports whether the worker has not sent the request and never will.
func (s *Start) Withdraw() bool { return s.state.CompareAndSwap(open, withdrawn) }

// Decline returns a start that was not begun to the client. It has no effect on a start that was
// begun, which is answered.
func (s *Start) Decline() {
	if s.Withdraw() {
		s.Answers <- Answer{Declined: true}
	}
}

// Again returns a start of another run, with the same input and options, and with the given items
// instead of its own.
func (s *Start) Again(run event.RunID, items []store.Item) *Start {
	again := &Start{Create: s.Create, Event: s.Event, SameInput: s.SameInput, Answers: make(chan Answer, 1)}
	again.Create.Run, again.Create.Items, again.Event.Time = run, items, run.Time()
	return again
}

// Request returns the client's request: its first frame contains only the event that creates the
// run.
func (s *Start) Request() (store.Create, error) {
	c := s.Create
	c.CommitID, c.Seq = event.NewCommitID(), 1
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: s.Event.Time, Events: []event.Event{s.Event}})
	return c, err
}
