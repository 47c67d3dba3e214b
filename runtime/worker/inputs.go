package worker

import (
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

type inputKind uint8

const (
	inputClaimed   inputKind = iota // the run was claimed
	inputStart                      // the run must be created
	inputLoaded                     // its log, or only its inbox, was read
	inputUnread                     // its inbox has something new
	inputStep                       // an attempt has ended
	inputHook                       // an attempt opens a hook
	inputCommitted                  // a commit was answered
	inputTick                       // something is due, or a slot for a step may be free
	inputLost                       // the claim is gone
	inputOwned                      // what the store says this session owns
	inputStop                       // the worker stops
	inputEvict                      // the memory is needed
	inputGiveWay                    // it is the turn of a quarantined run; see turns
	inputTurnOver                   // that of the run is over
)

// input is one of them, with what belongs to its kind.
type input struct {
	kind    inputKind
	claimed *claimed
	start   *localStart
	loaded  *load
	attempt *attempt
	opening *opening
	commit  *commit
	owned   *ownedRuns
	turn    int
}

// claimed is a claim of a run, under a session of the worker.
type claimed struct {
	store.ClaimedRun
	partition int
	session   store.SessionID
	seq       uint64 // number of the claim
}

// ownedRuns are the runs that a session owns by the answer of the store, and the last
// claim before the request.
type ownedRuns struct {
	fences   map[event.RunID]store.Fence
	claimSeq uint64
}

// inputs is the side of a run loop that others see: they post what it must handle.
type inputs struct {
	id       event.RunID
	activity *activity.Counter
	ready    scheduler

	// What the run takes of what the worker has of its own; under the lock of runs.
	uses  []store.Use
	queue string

	mu        sync.Mutex
	posted    []input
	scheduled bool
	label     string               // the workflow's name
	followers []chan *handover.End // told of the end; see Follow

	// unbegun is the claim of a run that was only created; nil once it has got further, or
	// its status has: see watchdog.tellBegun.
	unbegun atomic.Pointer[claimed]
}

// scheduler lets an executor handle what was posted.
type scheduler interface{ schedule() }

// post gives the run loop something to do. Whoever posts next finds it in the
// queue: what a worker that stops posts last must not wait for somebody who was
// held up here, and comes when no executor is left.
func (i *inputs) post(in input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.posted = append(i.posted, in)
	if i.scheduled {
		return
	}
	i.scheduled = true
	i.activity.Begin()
	i.ready.schedule()
}

func (i *inputs) committed(c *commit)  { i.post(input{kind: inputCommitted, commit: c}) }
func (i *inputs) loaded(l *load)       { i.post(input{kind: inputLoaded, loaded: l}) }
func (i *inputs) attempted(a *attempt) { i.post(input{kind: inputStep, attempt: a}) }
func (i *inputs) opens(o *opening)     { i.post(input{kind: inputHook, opening: o}) }

// take returns what was posted. When there is nothing the run loop is no
// longer with the executor. What comes next is put where that is which was taken
// before, and is handled; a run loop that is away keeps no buffer for it.
func (i *inputs) take(handled []input, away bool) []input {
	clear(handled)
	i.mu.Lock()
	defer i.mu.Unlock()
	in := i.posted
	i.posted = handled[:0]
	if len(in) == 0 {
		if away {
			i.posted = nil
		}
		i.scheduled = false
		i.activity.End()
	}
	return in
}

// claimedAgain reports whether a claim waits to be handled.
func (i *inputs) claimedAgain() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := range i.posted {
		if i.posted[n].kind == inputClaimed {
			return true
		}
	}
	return false
}

// name returns the workflow's name, for reports from other goroutines.
func (i *inputs) name() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.label
}

func (i *inputs) setName(workflow string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.label = workflow
}

// tellFollowers tells those who wait how the run has ended, or with nil that it is no longer
// here. It was taken from those that are owned before: nobody comes after that.
func (i *inputs) tellFollowers(end *handover.End) {
	i.mu.Lock()
	all := i.followers
	i.followers = nil
	i.mu.Unlock()
	for _, told := range all {
		told <- end
	}
}
