package replay

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/refs"
)

// Program is the code of a run. It computes an ending from the input, which belongs to the log and
// must not change. It runs on the
// main branch, under the root scope of the run.
type Program func(b *Branch, s *Scope, input []byte) Ending

// Run executes the code of one run. It is not safe for concurrent use: one goroutine at a time
// drives it. The code runs only while that goroutine is in a method of the Run.
type Run struct {
	id   event.RunID
	name string
	code Program
	pool *Pool
	Meta any // data that the layer above stores with the run
	// Stray is called for each durable operation that is called on a goroutine that does not belong
	// to the run. It is called on that goroutine at any time, even after the end of the run. Unless
	// the run has ended, Err then returns the same error. Stray may be nil.
	Stray func(*StrayError)
	// Unbounded reports whether a limit is certain to be unbounded. If Unbounded is nil, no limit
	// is.
	Unbounded func(limit string) bool
	// Build is the build of the code. It is recorded by runs that this run creates, and by the first
	// event after those that another build has added. Empty: none is recorded.
	Build string
	// Pin returns the build to which a new run is pinned, or "" if it is not pinned, see Branch.Pin.
	// If Pin is nil, no run is pinned.
	Pin func(run event.RunID, spec *event.Spec, inherit, declared bool) string

	state  event.LogState
	feed   []event.Event // recorded events that were not consumed
	out    []event.Event // new events that Take has not returned
	latest time.Time     // latest time of all events
	now    time.Time     // time that the code observes
	exact  time.Time     // exact time of the new event; the log has whole milliseconds
	input  []byte

	root     Scope
	branches list[Branch] // open branches, oldest first
	queue    list[Branch] // runnable branches
	current  *Branch
	outside  int            // number of blocked branches that wait for an event from outside
	deadlock *event.Failure // failure of the recorded deadlock; nil if there was none
	// overlooked is set if the log continues although this code is deadlocked.
	overlooked bool
	ops        refs.Map[Op]
	topics     map[string]*topic
	hooks      hooks
	stepHooks  map[string]uint64 // for each token of a hook, the step whose attempt has opened it
	asks       asks
	missed     []*event.Event    // received payloads and messages that no branch can receive
	awaiting   map[string]uint64 // open children and sends, by the key in their answers
	unstarted  list[Op]          // steps that were never started, oldest first
	versions   map[string]int    // recorded version of each change
	closed     map[string]bool   // closed streams
	undos      list[Undo]        // registered undos, oldest first
	windup     windingUp
	control    control
	seed       event.RunID // run that seeds the random numbers; empty if not determined
	cancels    []*Op
	// carried contains the operations from behind the unchanged part of an older log that the code
	// has not requested, by key. carriedRefs contains all such operations, by the number of the
	// creating event.
	carried     map[string]*carried
	carriedRefs map[uint64]*carried
	pure        string    // name of the running user function that must not wait; empty if none
	renamed     *Renaming // renaming found by comparing a request with the log; nil if none

	losers   *losers // nil unless losers are recorded
	position string  // position reported by the branch that was last resumed with asking set

	stray atomic.Pointer[StrayError] // the first stray call; nil if there was none

	asking bool // whether a blocked branch is being resumed only to report its position
	ended  bool
	dying  bool
	err    error
}

// New returns a Run without events. name is the first element of the paths of its branches. The
// pool belongs to the goroutine that drives the run, and may be nil.
func New(id event.RunID, name string, code Program, pool *Pool) *Run {
	r := &Run{id: id, name: name, code: code, pool: pool}
	r.root.run = r
	return r
}

// SetPool sets the pool when another goroutine begins to drive the run.
func (r *Run) SetPool(p *Pool) { r.pool = p }

// ID returns the run's ID.
func (r *Run) ID() event.RunID { return r.id }

// State returns the state at the end of the log. The run owns the state.
func (r *Run) State() *event.LogState { return &r.state }

// Ended reports whether the run has ended.
func (r *Run) Ended() bool { return r.ended }

// Err returns the reason for which the run cannot continue, or nil if the run can. It is a
// [*MismatchError] if the code does not match the log. It is a [*StrayError] if the code has called
// a durable operation on another goroutine.
func (r *Run) Err() error {
	if r.stray.Load() != nil && r.strayed() {
		r.unwind()
	}
	return r.err
}

// Take returns the new events since the last call. The caller must commit them in this order before
// it carries out any of their effects.
func (r *Run) Take() []event.Event {
	if len(r.out) == 0 {
		return nil
	}
	out := r.out
	r.out = nil
	return out
}

// Reuse gives the run a buffer for its next events: a slice that Take returned and that the caller
// does not use any longer. The run gives up its present buffer, even if b is nil. A large buffer is
// not kept, because a run that once had very many events would hold its memory.
func (r *Run) Reuse(b []event.Event) {
	if len(r.out) > 0 {
		return
	}
	if cap(b) > mostReused {
		b = nil
	}
	clear(b) // nothing is behind its events
	r.pool.keepBuffer(r.out)
	r.out = b[:0]
}

// usualEvents is the usual number of events that are produced together. The first events of a run
// are run_created, run_started, step_created and step_started. Later, a step ends, and the next step
// is created and begins.
const usualEvents = 4

// mostReused bounds the number of events in a buffer that a run keeps.
const mostReused = 64

// Startable returns the oldest step that was created and never started, or nil if there is none.
// Once the step has started or ended, Startable returns the next one.
func (r *Run) Startable() *Op {
	if r.unstarted.first == nil {
		return nil
	}
	return r.unstarted.first.item
}

// Cancels returns the steps whose attempts must stop because their scope ended since the last call.
// The driver ends steps with a pending attempt itself.
func (r *Run) Cancels() []*Op {
	c := slices.DeleteFunc(r.cancels, func(op *Op) bool { return op.done })
	r.cancels = nil
	return c
}

// Close unwinds the code of the run. Deferred calls run, and durable operations in them do not
// return. Without Close the coroutines of a Run leak.
func (r *Run) Close() {
	r.unwind()
	if len(r.out) == 0 {
		r.pool.keepBuffer(r.out)
		r.out = nil
	}
}

// Branches returns the number of open branches.
func (r *Run) Branches() int { return r.branches.n }

// Blocked describes the wait of each open branch with its position, oldest first.
func (r *Run) Blocked() []string {
	var all []string
	for n := r.branches.first; n != nil; n = n.next {
		b := n.item
		what := "nothing: it can continue"
		if b.waitsFor != "" {
			what = b.waitsFor + b.waitsForKey
			if at := r.where(b); at != "" {
				what += " at " + at
			}
		}
		all = append(all, fmt.Sprintf("branch %s waits for %s", b.path, what))
	}
	return all
}

// where returns the position of the call that blocks a branch. It resumes the branch to get the
// position.
func (r *Run) where(b *Branch) string {
	if r.current != nil || r.dying {
		return ""
	}
	r.asking = true
	b.co.resume()
	r.asking = false
	return r.position
}
