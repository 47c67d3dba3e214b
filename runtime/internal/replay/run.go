package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Program is the code of a run: it turns the input into an ending. It runs on
// the main branch, under the scope of the run.
type Program func(b *Branch, s *Scope, input []byte) Ending

// Ending says how a run ends: Type is terminal, the rest as in [event.Event].
type Ending struct {
	Type    event.Type
	Payload []byte
	Failure *event.Failure
	Next    event.RunID
}

// Run executes the code of one run. It is not safe for concurrent use: one
// goroutine at a time drives it, and the code runs only while that goroutine is
// in a method of the Run.
type Run struct {
	id   event.RunID
	name string
	code Program
	pool *Pool

	fold  event.Fold
	feed  []event.Event // recorded, not met yet
	out   []event.Event // new, not taken yet
	now   time.Time
	input []byte

	root      *Scope
	branches  []*Branch // open, oldest first
	queue     []*Branch // runnable
	current   *Branch
	ops       map[uint64]*Op
	topics    map[string]*topic
	startable []*Op
	cancels   []*Op
	pure      string // key of the Record whose function is running

	ended bool
	dying bool
	err   error
}

// New returns a Run that has not seen any event. name is the last element of
// its keys' scope path. The pool belongs to the goroutine that drives the run,
// and may be nil.
func New(id event.RunID, name string, code Program, pool *Pool) *Run {
	r := &Run{id: id, name: name, code: code, pool: pool, ops: map[uint64]*Op{}}
	r.root = &Scope{run: r}
	return r
}

// SetPool says that another goroutine drives the run from now on.
func (r *Run) SetPool(p *Pool) { r.pool = p }

// ID returns the run's id.
func (r *Run) ID() event.RunID { return r.id }

// Fold returns the state of the log so far. It belongs to the run.
func (r *Run) Fold() *event.Fold { return &r.fold }

// Ended reports whether the last event ended the run.
func (r *Run) Ended() bool { return r.ended }

// Err returns why the run cannot go on: a [*MismatchError] if the code does not
// fit the log.
func (r *Run) Err() error { return r.err }

// Op returns the step or wait that event ref created, or nil if it has ended.
func (r *Run) Op(ref uint64) *Op { return r.ops[ref] }

// Take returns the new events since the last call. They must be committed in
// this order, before anything is done that they explain.
func (r *Run) Take() []event.Event {
	out := r.out
	r.out = nil
	return out
}

// Startable returns the oldest step that was created and never started, or nil.
// Starting it, or its end, makes room for the next one.
func (r *Run) Startable() *Op {
	for len(r.startable) > 0 {
		op := r.startable[0]
		if !op.done && r.fold.StateOf(op.Ref) == event.StatePending && r.fold.Open(op.Ref).Attempt == 0 {
			return op
		}
		r.startable[0] = nil
		r.startable = r.startable[1:]
	}
	r.startable = nil
	return nil
}

// Cancels returns the steps whose attempts should stop, because their scope
// ended since the last call.
func (r *Run) Cancels() []*Op {
	c := r.cancels
	r.cancels = nil
	return c
}

// Replay feeds recorded events, in order. It may be called several times; all
// calls come before the first Apply. Only a page that ends where the log ends
// may end in front of anything but an outside event.
func (r *Run) Replay(events []event.Event) error {
	r.feed = append(r.feed, events...)
	for len(r.feed) > 0 && r.err == nil {
		e := &r.feed[0]
		switch {
		case r.ended:
			r.err = fmt.Errorf("replay run %s: event %d (%s, key %q) follows the end of the run: %w", r.id, e.Seq, e.Type, e.Key, event.ErrCorrupt)
		case r.isCommand(e):
			r.err = r.mismatch(e, nil, "")
		default:
			r.feed = r.feed[1:]
			r.apply(e)
		}
	}
	if len(r.feed) == 0 {
		r.feed = nil
	}
	return r.err
}

// Apply takes a new event that did not come from the code. It sets Seq, Since
// and, so that times never fall, Time.
func (r *Run) Apply(e event.Event) error {
	if r.err != nil {
		return r.err
	}
	if len(r.feed) > 0 {
		return errors.New("apply event: the log has not been replayed")
	}
	r.complete(&e)
	// What the code does in consequence comes behind the event.
	r.out = append(r.out, e)
	r.apply(&e)
	return r.err
}

// Skip folds recorded events without running any code: for a run that is to be
// ended from outside.
func (r *Run) Skip(events []event.Event) error {
	for i := range events {
		if err := r.fold.Apply(&events[i]); err != nil {
			r.err = fmt.Errorf("fold run %s: %w", r.id, err)
			return r.err
		}
	}
	r.ended = r.fold.Run.Terminal()
	return nil
}

// complete fills in what a new event gets from its place in the log.
func (r *Run) complete(e *event.Event) {
	e.Seq = r.fold.Seq + 1
	if e.Time.Before(r.fold.Time) {
		e.Time = r.fold.Time
	}
	e.Time = e.Time.Truncate(time.Millisecond)
	e.Due = event.Instant(e.Due)
	switch {
	case e.Ref != 0:
		if o := r.fold.Open(e.Ref); o != nil {
			e.Since = o.Since
		}
	case e.Type.Creates() && e.Type != event.RunCreated:
		e.Ref, e.Since = e.Seq, e.Time
	}
}

// apply is the one way by which an event that is no command comes into effect,
// recorded or new.
func (r *Run) apply(e *event.Event) {
	if err := r.fold.Apply(e); err != nil {
		r.err = fmt.Errorf("replay run %s: %w", r.id, err)
		return
	}
	r.dispatch(e)
	r.drain()
}

func (r *Run) dispatch(e *event.Event) {
	switch e.Type {
	case event.RunCreated:
		r.now, r.input = e.Time, e.Payload
	case event.RunStarted:
		r.now = e.Time
		r.start()
	case event.StepStarted, event.StepRetrying:
		// bookkeeping
	case event.StepCompleted, event.StepFailed:
		r.now = e.Time
		if op := r.ops[e.Ref]; op != nil {
			op.Payload, op.Failure, op.Attempt = e.Payload, e.Failure, e.Attempt
			if e.Failure != nil && e.Failure.Code == event.CodeCanceled {
				op.Canceled = op.scope.err
			}
			op.settle()
		}
	case event.WaitCompleted:
		r.now = e.Time
		if op := r.ops[e.Ref]; op != nil {
			op.Outcome = e.Outcome
			op.settle()
			if op.onDue != nil {
				op.onDue()
			}
		}
	case event.MessageReceived:
		r.now = e.Time
		kept := *e
		r.topic(e.Name).push(&kept)
	case event.CancelRequested:
		r.now = e.Time
		r.requestCancel(e)
	case event.RunFailed, event.RunCanceled:
		r.finish()
	default:
		r.err = fmt.Errorf("replay run %s: event %d (%s, key %q) is consumed by nothing in this release", r.id, e.Seq, e.Type, e.Key)
	}
}

func (r *Run) requestCancel(e *event.Event) {
	if r.fold.Run == event.StatePending {
		r.end(Ending{Type: event.RunCanceled, Failure: &event.Failure{Code: event.CodeCanceled, Message: cancelText(e.Reason)}})
		return
	}
	r.root.cancel(ErrCanceled)
}

func cancelText(reason string) string {
	if reason == "" {
		return "canceled before it started"
	}
	return "canceled before it started: " + reason
}

// start opens the main branch.
func (r *Run) start() {
	r.open(r.name, func(b *Branch) {
		if t := r.fold.Spec.Timeout; t > 0 {
			r.root.deadline = b.newWait(r.root, event.WaitDeadline, b.Key("timeout"), "", r.fold.CreatedAt.Add(t))
			r.root.deadline.onDue = func() { r.root.cancel(ErrTimeout) }
		}
		// Each replay sees the original input, whatever the code does with it.
		ending := r.code(b, r.root, append([]byte(nil), r.input...))
		b.enter()
		r.end(ending)
	})
}

func (r *Run) open(path string, f func(*Branch)) *Branch {
	b := &Branch{run: r, path: path, co: r.pool.get()}
	b.co.job = func() { f(b) }
	r.branches = append(r.branches, b)
	r.wake(b)
	return b
}

func (r *Run) wake(b *Branch) {
	if !b.queued && !b.finished {
		b.queued = true
		r.queue = append(r.queue, b)
	}
}

// drain resumes runnable branches until all are blocked or the run has ended.
func (r *Run) drain() {
	for len(r.queue) > 0 && r.err == nil && !r.ended {
		b := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		b.queued = false
		r.resume(b)
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
	if r.ended || r.err != nil {
		r.unwind()
	}
}

func (r *Run) resume(b *Branch) {
	r.current = b
	ended := b.co.resume()
	r.current = nil
	if !ended {
		return
	}
	co := b.co
	b.finished, b.co = true, nil
	r.forget(b)
	switch {
	case co.panicked != nil && !r.dying && r.err == nil && !r.ended:
		r.end(panicEnding(&Panic{Branch: b.path, Opened: b.opened, Value: co.panicked, Stack: co.stack}))
	case co.exited && !co.dying && !r.dying && r.err == nil && !r.ended:
		r.end(panicEnding(&Panic{Branch: b.path, Value: "runtime.Goexit was called"}))
	}
	r.pool.put(co)
}

func panicEnding(p *Panic) Ending {
	return Ending{Type: event.RunFailed, Failure: &event.Failure{
		Code:    event.CodePanic,
		Message: fmt.Sprintf("panic in branch %s: %v", p.Branch, p.Value),
		Stack:   string(p.Stack),
	}}
}

// forget removes a branch that has ended. Most that end are young.
func (r *Run) forget(b *Branch) {
	for i := len(r.branches) - 1; i >= 0; i-- {
		if r.branches[i] == b {
			copy(r.branches[i:], r.branches[i+1:])
			r.branches[len(r.branches)-1] = nil
			r.branches = r.branches[:len(r.branches)-1]
			return
		}
	}
}

// end puts the last event into the log.
func (r *Run) end(how Ending) {
	e := event.Event{Type: how.Type, Payload: how.Payload, Failure: how.Failure, Next: how.Next}
	r.command(e, func(rec *event.Event) string { return sameJSON(rec.Payload, how.Payload) })
	if r.err == nil {
		r.finish()
	}
}

func (r *Run) finish() { r.ended = true }

// Close unwinds what is left of the code. Deferred calls run; durable operations
// in them do not return. A Run must be closed, or its coroutines stay for ever.
func (r *Run) Close() {
	r.feed = nil
	r.unwind()
}

// unwind ends all branches, newest first.
func (r *Run) unwind() {
	r.dying = true
	r.queue = nil
	for len(r.branches) > 0 {
		b := r.branches[len(r.branches)-1]
		if !b.co.begun {
			b.co.job = nil
			b.finished = true
			r.forget(b)
			r.pool.put(b.co)
			continue
		}
		r.resume(b)
	}
}

// Branches returns the number of branches that are open.
func (r *Run) Branches() int { return len(r.branches) }

// Blocked returns what each open branch waits for, oldest first.
func (r *Run) Blocked() []string {
	var all []string
	for _, b := range r.branches {
		what := b.blocked
		if what == "" {
			what = "nothing: it is running"
		}
		all = append(all, fmt.Sprintf("branch %s waits for %s", b.path, what))
	}
	return all
}
