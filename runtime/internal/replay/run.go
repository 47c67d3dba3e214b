package replay

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Program is the code of a run: it computes an ending from the input. It runs on the main branch,
// under the scope of the run.
type Program func(b *Branch, s *Scope, input []byte) Ending

// Ending describes how a run ends: Type is terminal, the other fields are as in [event.Event].
type Ending struct {
	Type    event.Type
	Payload []byte
	Failure *event.Failure
	Queue   string // queue on which the run continues; empty: its own
}

// Run executes the code of one run. It is not safe for concurrent use: one goroutine at a time
// drives it, and the code runs only while that goroutine is in a method of the Run.
type Run struct {
	id   event.RunID
	name string
	code Program
	pool *Pool
	Meta any // data that the layer above keeps with the run
	// Stray, if not nil, is called for each durable operation that is called on a goroutine that
	// does not belong to the run. It is called on that goroutine and at any time, even after the
	// end of the run. Unless the run has ended, Err then returns the same error.
	Stray func(*StrayError)
	// Unbounded, if not nil, reports whether a limit is known to be unbounded. If it is nil, no
	// limit is.
	Unbounded func(limit string) bool

	state  event.LogState
	feed   []event.Event // recorded events that are not consumed yet
	out    []event.Event // new events that are not taken yet
	latest time.Time     // latest time of all events so far
	now    time.Time     // time that the code sees
	exact  time.Time     // exact time of a new event, because the log keeps whole milliseconds
	input  []byte

	root     Scope
	branches list[Branch] // open branches, oldest first
	queue    list[Branch] // runnable branches
	current  *Branch
	outside  int            // number of blocked branches that wait for something from outside
	deadlock *event.Failure // failure of the recorded deadlock; nil if there was none
	// overlooked reports that the log continues although this code is deadlocked.
	overlooked bool
	ops        map[uint64]*Op
	topics     map[string]*topic
	hooks      hooks
	stepHooks  map[string]uint64 // steps whose attempt has opened a hook, by its token
	asks       asks
	missed     []*event.Event    // received payloads that no branch can take any more
	awaiting   map[string]uint64 // children and sends, by key
	unstarted  list[Op]          // steps that were never started, oldest first
	versions   map[string]int    // versions of the changes that the code has requested
	closed     map[string]bool   // streams that are closed for further writes
	undos      list[Undo]        // registered undos, oldest first
	windup     windingUp
	control    control
	seed       event.RunID // run whose random numbers the code sees; empty if not decided
	cancels    []*Op
	// carried are operations from behind the kept part of an older log that the code has not
	// requested, by key; carriedRefs are all of them by the number of their creating event.
	carried     map[string]*carried
	carriedRefs map[uint64]*carried
	pure        string    // name of the running function that must not wait
	renamed     *Renaming // renaming found by the comparison of a request with the log

	losers   *losers // nil unless losers are recorded
	position string  // position of the call that blocks the branch that was asked

	stray atomic.Pointer[StrayError] // the first stray call

	asking bool // blocked branches are resumed only to report their position
	ended  bool
	dying  bool
	err    error
}

// New returns a Run without events. name is the last element of its keys' scope path. The pool
// belongs to the goroutine that drives the run, and may be nil.
func New(id event.RunID, name string, code Program, pool *Pool) *Run {
	r := &Run{id: id, name: name, code: code, pool: pool, ops: map[uint64]*Op{}}
	r.root.run = r
	return r
}

// SetPool sets the pool of another goroutine that drives the run from now on.
func (r *Run) SetPool(p *Pool) { r.pool = p }

// ID returns the run's id.
func (r *Run) ID() event.RunID { return r.id }

// State returns the state of the log so far. The run owns it.
func (r *Run) State() *event.LogState { return &r.state }

// Ended reports whether the last event ended the run.
func (r *Run) Ended() bool { return r.ended }

// Err returns why the run cannot continue: a [*MismatchError] if the code does not match the log, a
// [*StrayError] if it has used a goroutine of its own.
func (r *Run) Err() error {
	if r.strayed() {
		r.unwind()
	}
	return r.err
}

// Op returns the step or wait that event ref created, or nil if it has ended.
func (r *Run) Op(ref uint64) *Op { return r.ops[ref] }

// Take returns the new events since the last call. They must be committed in this order before any
// of their effects are carried out.
func (r *Run) Take() []event.Event {
	if len(r.out) == 0 {
		return nil
	}
	out := r.out
	r.out = nil
	return out
}

// Reuse gives the run a buffer for its next events: a slice that Take returned and that is no
// longer used. With nil the run gives up its buffer. A large buffer is not kept, because clearing
// it would slow down each later event of a run that once had very many events.
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

// append queues an event after those not taken yet.
func (r *Run) append(e *event.Event) {
	if cap(r.out) == 0 {
		r.out = r.pool.buffer()
	}
	r.out = append(r.out, *e)
}

// usualEvents is the usual number of events that occur together: a step ends, and the next one is
// created and begins.
const usualEvents = 3

// mostReused bounds the buffer that a run keeps.
const mostReused = 64

// Startable returns the oldest step that was created and never started, or nil. Once it is started
// or has ended, Startable returns the next one.
func (r *Run) Startable() *Op {
	if r.unstarted.first == nil {
		return nil
	}
	return r.unstarted.first.item
}

// Cancels returns the steps whose attempts must stop because their scope ended since the last call.
// The driver ends those with a pending attempt.
func (r *Run) Cancels() []*Op {
	c := slices.DeleteFunc(r.cancels, func(op *Op) bool { return op.done })
	r.cancels = nil
	return c
}

// Replay feeds recorded events, in order. The run keeps their payloads, which must not change. It
// may be called several times; all calls precede the first Apply. Unless a page is the last one, it
// must end before an outside event.
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
	err := r.close() // while feed still marks this as a replay
	r.feed = nil
	return err
}

// Apply applies a new event that did not come from the code. It sets Seq and Since, and adjusts
// Time so that times never decrease.
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
		if !r.ended { // the state of an ended run does not change
			r.err = err
			_ = r.close()
		}
		return err
	}
	// The consequences of the event follow it.
	r.append(&e)
	r.react(&e)
	return r.close()
}

// close unwinds the code of a run that has ended or cannot continue, and returns the error in the
// second case.
func (r *Run) close() error {
	if r.ended || r.err != nil {
		r.unwind()
	}
	return r.err
}

// Skip applies recorded events without running any code, for a run that is ended from outside.
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

// Close unwinds the remaining code. Deferred calls run; durable operations in them do not return. A
// Run must be closed, or its coroutines leak.
func (r *Run) Close() {
	r.unwind()
	if len(r.out) == 0 {
		r.pool.keepBuffer(r.out)
		r.out = nil
	}
}

// note applies an event to the state.
func (r *Run) note(e *event.Event) error {
	if err := r.state.Apply(e); err != nil {
		return err
	}
	if e.Time.After(r.latest) { // even if a damaged log goes back in time
		r.latest = e.Time
	}
	return nil
}

// complete sets the fields of a new event that follow from its place in the log.
func (r *Run) complete(e *event.Event) {
	e.Seq = r.state.Seq + 1
	if e.Time.Before(r.latest) {
		e.Time = r.latest
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond) // as it will be read back
	e.Due = event.Instant(e.Due)
	switch {
	case e.Ref != 0:
		if o := r.state.Open(e.Ref); o != nil {
			e.Since = o.Since
			if o.Entity == event.EntityStep && endsAttempt(e.Type) {
				e.Token = o.Token // it closes the hook of the attempt
			}
		}
	case e.Type.Creates() && e.Type != event.RunCreated:
		e.Ref, e.Since = e.Seq, e.Time
	}
}
