package replay

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/refs"
)

// Program is the code of a run. It computes an ending from the input, which belongs to the log and
// must not change. It runs on the main branch,
// under the root scope of the run.
type Program func(b *Branch, s *Scope, input []byte) Ending

// Ending describes the end of a run. Type is terminal, and the other fields are as in
// [event.Event].
type Ending struct {
	Type    event.Type
	Payload []byte
	Failure *event.Failure
	Queue   string // queue in which the run continues as new; empty means its own queue
}

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
	if r.strayed() {
		r.unwind()
	}
	return r.err
}

// Op returns the operation that event ref created. It returns nil if the operation has ended.
func (r *Run) Op(ref uint64) *Op { return r.ops.Get(ref) }

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
// does not use any longer. If b is nil, the run gives up its buffer. A large buffer is not kept,
// because clearing it at each event would make later events expensive in a run that once had very
// many events.
func (r *Run) Reuse(b []event.Event) {
	if len(r.out) > 0 {
		return
	}
	if cap(b) > mostReused {
		b = nil
	}
	clear(b[:cap(b)])
	if b == nil {
		r.pool.keepBuffer(r.out)
	}
	r.out = b[:0]
}

// append appends an event to the events that Take returns next.
func (r *Run) append(e *event.Event) {
	if cap(r.out) == 0 {
		r.out = r.pool.Buffer()
	}
	r.out = append(r.out, *e)
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

// Replay replays recorded events in order. The run keeps their payloads, which must not change.
// Replay may be called several times, but not after Apply. Each page except the last one must end
// before an outside event.
func (r *Run) Replay(events []event.Event) error {
	for i := range events {
		if e := &events[i]; e.Seq != r.state.Seq+1+uint64(i) {
			r.err = fmt.Errorf("replay run %s: event %d (%s) stands at %d: %w", r.id, e.Seq, e.Type, r.state.Seq+1+uint64(i), event.ErrCorrupt)
			return r.close()
		}
	}
	r.feed = events
	for len(r.feed) > 0 && r.err == nil {
		e := &r.feed[0]
		switch {
		case r.ended:
			r.err = fmt.Errorf("replay run %s: event %d (%s, key %q) follows the end of the run: %w", r.id, e.Seq, e.Type, e.Key, event.ErrCorrupt)
		case r.isCommand(e):
			r.err = r.mismatch(e, nil, "")
		default:
			if r.met() {
				r.react(e)
			}
		}
	}
	err := r.close() // before feed is cleared, so that the code is unwound as part of the replay
	r.feed = nil
	return err
}

// Apply applies a new event that did not come from the code. It sets Seq and Since. It adjusts Time
// so that times never decrease.
func (r *Run) Apply(e event.Event) error {
	switch {
	case r.err != nil:
		return r.err
	case r.dying && !r.ended:
		return errors.New("apply event: the run is closed")
	}
	r.exact = e.Time
	r.complete(&e)
	if !r.ended && r.isCommand(&e) {
		r.err = fmt.Errorf("apply event %d (%s) to run %s: it comes from the code, not from outside", e.Seq, e.Type, r.id)
		return r.close()
	}
	if err := r.note(&e); err != nil {
		err = fmt.Errorf("apply to run %s: %w", r.id, err)
		if !r.ended { // an error does not change a run that has ended
			r.err = err
			_ = r.close()
		}
		return err
	}
	// The event precedes its consequences in the log.
	r.append(&e)
	r.react(&e)
	return r.close()
}

// close unwinds the code if the run has ended or cannot continue. It returns the error if the run
// cannot continue.
func (r *Run) close() error {
	if r.ended || r.err != nil {
		r.unwind()
	}
	return r.err
}

// Skip applies recorded events to the state without running code, for a run that is ended without
// its code.
func (r *Run) Skip(events []event.Event) error {
	for i := range events {
		if err := r.note(&events[i]); err != nil {
			r.err = fmt.Errorf("follow the log of run %s: %w", r.id, err)
			return r.err
		}
	}
	r.ended = r.state.Run.Terminal()
	return nil
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

// note applies an event to the state of the log.
func (r *Run) note(e *event.Event) error {
	if err := r.state.Apply(e); err != nil {
		return err
	}
	if e.Time.After(r.latest) { // even if the times in a damaged log decrease
		r.latest = e.Time
	}
	return nil
}

// complete sets the fields of a new event that follow from its position in the log.
func (r *Run) complete(e *event.Event) {
	e.Seq = r.state.Seq + 1
	if e.Time.Before(r.latest) {
		e.Time = r.latest
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond) // the time as it is read back from the log
	e.Due = event.Instant(e.Due)
	switch {
	case e.Ref != 0:
		if o := r.state.Open(e.Ref); o != nil {
			e.Since = o.Since
			if o.Entity == event.EntityStep && endsAttempt(e.Type) {
				e.Token = o.Token // the event closes the hook of the attempt
			}
		}
	case e.Type.Creates() && e.Type != event.RunCreated:
		e.Ref, e.Since = e.Seq, e.Time
	}
}
