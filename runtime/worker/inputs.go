package worker

import (
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// inputs is the part of a run loop that other goroutines use to post inputs.
type inputs struct {
	id       event.RunID
	activity *activity.Counter
	ready    *queue[runnable]
	loop     runnable

	// The worker's own capacity that the run uses. The lock of runs guards both fields.
	uses  []store.Use
	queue string

	mu        sync.Mutex
	posted    []runloop.Input
	first     [2]runloop.Input // first buffer of posted
	scheduled bool
	label     string                 // name of the workflow
	followers []chan *localstart.End // channels that receive the end of the run; see Follow

	// unbegun is the claim of a run that was created but has not begun. It is nil once the run has
	// progressed or its status has changed; see watchdog.tellBegun.
	unbegun atomic.Pointer[runloop.Claim]
}

// post queues an input for the run loop. It holds the lock while it schedules the loop. Otherwise
// another poster could find the loop marked as scheduled although this goroutine is suspended
// before scheduling it. The last input of a stopping worker would then be handled only after all
// executors have ended.
func (i *inputs) post(in runloop.Input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.posted = append(i.posted, in)
	if i.scheduled {
		return
	}
	i.scheduled = true
	i.activity.Begin()
	i.ready.push(i.loop)
}

func (i *inputs) committed(c *runloop.Commit) {
	i.post(runloop.Input{Kind: runloop.Answered, Commit: c})
}
func (i *inputs) loaded(l *load)           { i.post(runloop.Input{Kind: runloop.Loaded, Load: &l.Load}) }
func (i *inputs) opens(o *runloop.Opening) { i.post(runloop.Input{Kind: runloop.Opened, Opening: o}) }

func (i *inputs) attempted(a *attempt) {
	i.post(runloop.Input{Kind: runloop.Ended, Ref: a.info.Ref, Attempt: a.id, Outcome: &a.outcome})
}

// take returns the posted inputs. If there are none, the run loop leaves its executor. The buffer
// of the handled inputs is reused for the next inputs. If the run loop is away, it keeps no buffer.
func (i *inputs) take(handled []runloop.Input, away bool) []runloop.Input {
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
		if i.posted[n].Kind == runloop.Claimed {
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
