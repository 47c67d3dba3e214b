package worker

import (
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
)

type inputKind uint8

const (
	inputClaimed   inputKind = iota // the run was claimed
	inputStart                      // the run must be created
	inputLoaded                     // the run's log and inbox, or only its inbox, were read
	inputUnread                     // the run's inbox may have new items
	inputStep                       // an attempt has ended
	inputHook                       // an attempt opens a hook
	inputCommitted                  // a commit was answered
	inputTick                       // an operation of the run is due, or a slot for a step may be free
	inputLost                       // the claim was lost
	inputOwned                      // the runs that this session owns, as reported by the store
	inputStop                       // the worker is stopping
	inputEvict                      // the run's memory is needed for other runs
	inputGiveWay                    // a quarantined run must be executed alone; see turns
	inputTurnOver                   // the time of the run's turn has passed; see turns
)

// input is an input of a run loop, with the data of its kind.
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

// claimed is a claim of a run under a session of the worker.
type claimed struct {
	store.ClaimedRun
	partition int
	session   store.SessionID
	seq       uint64 // sequence number of the claim
}

// ownedRuns are the runs that a session owns according to the store. It also contains the sequence
// number of the last claim before the request.
type ownedRuns struct {
	fences   map[event.RunID]store.Fence
	claimSeq uint64
}

// inputs is the part of a run loop that other goroutines use to post inputs.
type inputs struct {
	id       event.RunID
	activity *activity.Counter
	ready    scheduler

	// The worker's own capacity that the run uses. The lock of runs guards both fields.
	uses  []store.Use
	queue string

	mu        sync.Mutex
	posted    []input
	scheduled bool
	label     string                 // name of the workflow
	followers []chan *localstart.End // channels that receive the end of the run; see Follow

	// unbegun is the claim of a run that was created but has not begun. It is nil once the run has
	// progressed or its status has changed; see watchdog.tellBegun.
	unbegun atomic.Pointer[claimed]
}

// scheduler queues a run loop for an executor.
type scheduler interface{ schedule() }

// post queues an input for the run loop. It holds the lock while it schedules the loop. Otherwise
// another poster could find the loop marked as scheduled although this goroutine is suspended
// before scheduling it. The last input of a stopping worker would then be handled only after all
// executors have ended.
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

// take returns the posted inputs. If there are none, the run loop leaves its executor. The buffer
// of the handled inputs is reused for the next inputs. If the run loop is away, it keeps no buffer.
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

// claimedAgain reports whether a claim is among the posted inputs.
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

// name returns the name of the workflow, for reports by other goroutines.
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

// notifyFollowers sends the end of the run to the followers. The end is nil if the run has left the
// worker without ending. The caller has removed the run from the owned runs, so no follower can be
// added afterwards.
func (i *inputs) notifyFollowers(end *localstart.End) {
	i.mu.Lock()
	all := i.followers
	i.followers = nil
	i.mu.Unlock()
	for _, told := range all {
		told <- end
	}
}
