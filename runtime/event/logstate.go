package event

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/refs"
)

// LogState is the state of a run, derived from its log. Apply the events in order with
// [LogState.Apply]. The cost per event does not depend on the length of the log. The state uses one
// byte per event, and memory for each open entity.
type LogState struct {
	Seq       uint64
	Run       State
	Spec      *Spec
	CreatedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
	Time      time.Time // time of the last event
	Last      Type      // type of the last event
	Failure   *Failure  // why the run failed or was canceled
	Next      RunID     // the run that continues this run; empty: none
	// CancelRequested reports that the run was asked to cancel; CancelReason and CancelItem belong
	// to the first request.
	CancelRequested bool
	CancelReason    string
	CancelItem      ItemID
	// Limit is the failure with which the run must end because it cannot continue, for example
	// because its log is too long. Limited is the number of the event that recorded it. They are
	// nil and 0 if the run can continue.
	Limit   *Failure
	Limited uint64
	// Uncounted is the number of events that are not part of the log length reported to the code,
	// see RunStarted.
	Uncounted uint64
	// Build is the build of the code that last executed the run. It is empty if unknown.
	Build string
	// Paused reports that the code is suspended until the run is resumed, stepped or canceled.
	Paused bool
	// Delayed is the time at which the code of a delayed rerun continues. It is zero if the run is
	// not delayed. A pause during the delay also suspends the code, and ends independently of the
	// delay.
	Delayed time.Time
	// Unpaused is the number of the cancel request that ended a pause. It is 0 if there is none.
	Unpaused uint64
	// Unsure reports that a step that is not idempotent ended without a result but may have had its
	// effect. The step may be a step of a child.
	Unsure bool
	// Released reports that the run was created held and may begin.
	Released bool

	releasedAt time.Time // zero: the run was not released
	notices    notices

	states   []State
	open     refs.Map[Open]
	failing  map[uint64]*Open // open steps whose last attempt has failed
	steps    int              // number of open steps with a running attempt
	kids     int              // number of open children
	children int              // total number of children
	dues     dueHeap
}

// Open is an entity that has not reached a terminal state. [Lives] also uses it for entities that
// have ended.
type Open struct {
	Ref     uint64
	Entity  Entity
	State   State
	Name    string
	Key     string
	Attempt int       // steps: number of the last attempt started
	Stopped int       // steps: number of attempts that do not count because their worker was shut down
	Waited  int       // steps: number of attempts that do not count because the step chose the time of the next attempt
	Due     time.Time // due time of a wait, of the next attempt of a step, or of the timeout of a pending attempt; zero: none
	Wait    WaitKind
	Since   time.Time // time of its creation
	Changed time.Time // time of the last event of the entity
	Failure *Failure  // steps: failure of the last attempt
	Token   string    // token of a hook, or of the hook that a step's attempt has opened
	Next    RunID     // children: ID of the run
	Close   ParentClose
}

// Apply applies the next event of the log. It fails, and changes nothing, if the event is out of
// order, has an unknown type, or is forbidden by the table of transitions. The state keeps the
// event's Spec and Failure, which must not change afterwards.
func (f *LogState) Apply(e *Event) error {
	if e.Seq != f.Seq+1 {
		return fmt.Errorf("apply event %d (%s): the log ends at %d: %w", e.Seq, e.Type, f.Seq, ErrCorrupt)
	}
	if !e.Type.Known() {
		return fmt.Errorf("apply event %d (%s): no such type: %w", e.Seq, e.Type, ErrCorrupt)
	}
	if f.Run == StateNone && e.Type != RunCreated {
		return fmt.Errorf("apply event %d (%s): a log starts with %s: %w", e.Seq, e.Type, RunCreated, ErrCorrupt)
	}
	if f.Run.Terminal() {
		return &TransitionError{Entity: EntityRun, Seq: e.Seq, From: f.Run, Type: e.Type, To: aim(e.Type)}
	}
	next := StateNone
	var err error
	switch e.Type.Entity() {
	case EntityRun:
		if next, err = Next(f.Run, e.Type); err == nil {
			f.applyRun(e, next)
		}
	case EntityNone:
		f.applyFact(e)
	default:
		next, err = f.applyEntity(e)
	}
	if err != nil {
		if te, ok := errors.AsType[*TransitionError](err); ok {
			te.Seq, te.Ref = e.Seq, e.Ref
		}
		return err
	}
	f.Seq, f.Time, f.Last = e.Seq, e.Time, e.Type
	if e.Build != "" {
		f.Build = e.Build
	}
	if e.Type.Entity() == EntityRun || !e.Type.Creates() {
		next = StateNone
	}
	if f.states == nil {
		f.states = make([]State, 0, usualEvents)
	}
	f.states = append(f.states, next)
	return nil
}

// usualEvents is the initial capacity for the states of a log's events.
const usualEvents = 16

// applyFact applies an event about the run that neither begins nor ends the run.
func (f *LogState) applyFact(e *Event) {
	switch e.Type {
	case CancelRequested:
		switch {
		case e.Failure != nil && f.Limit == nil:
			f.Limit, f.Limited = e.Failure, e.Seq
		case e.Failure == nil && !f.CancelRequested:
			f.CancelRequested, f.CancelReason, f.CancelItem = true, e.Reason, e.Item
		}
		if f.Paused {
			f.Paused, f.Unpaused = false, e.Seq // the code must execute its cleanup
		}
		f.Delayed = time.Time{}
	case RunPaused:
		f.Paused = true
	case RunResumed:
		if !f.Paused {
			f.Delayed = time.Time{}
		}
		f.Paused = false
	case RunStepped:
		f.Paused, f.Delayed = false, time.Time{}
	case RunDelayed:
		f.Paused, f.Delayed = false, e.Due
	case RunReleased:
		f.Released, f.releasedAt = true, e.Time
	case ValueSet:
		f.setValue(e)
	case MessageReceived:
		if e.Name == NoticeTopic {
			f.ask(e)
		}
	}
}

// Ending reports whether the run was asked to cancel, or must end because it cannot continue.
func (f *LogState) Ending() bool { return f.CancelRequested || f.Limit != nil }

// StandsStill reports whether the code is suspended: the run is paused, or is a rerun whose delay
// has not ended.
func (f *LogState) StandsStill() bool { return f.Paused || !f.Delayed.IsZero() }

// Held reports whether the run was created held and has not been released.
func (f *LogState) Held() bool {
	return f.Run == StatePending && !f.Released && f.Spec.Hold > 0
}

func (f *LogState) applyRun(e *Event, next State) {
	f.Run = next
	switch {
	case e.Type == RunCreated:
		f.Spec, f.CreatedAt = e.Spec, e.Time
		if f.Spec == nil {
			f.Spec = &Spec{}
		}
	case e.Type == RunStarted:
		f.StartedAt = e.Time
		if len(e.Payload) > 0 {
			f.Uncounted, _ = strconv.ParseUint(string(e.Payload), 10, 64) // a payload that is not a number counts as 0
			f.Uncounted = min(f.Uncounted, e.Seq)
		}
	case next.Terminal():
		f.EndedAt, f.Failure, f.Next = e.Time, e.Failure, e.Next
	}
}

func (f *LogState) applyEntity(e *Event) (State, error) {
	if e.Type.Creates() {
		next, err := Next(StateNone, e.Type)
		if err != nil {
			return next, err
		}
		o := newOpen(e, next)
		if o.counts() {
			f.kids++
			f.children++
		}
		f.open.Add(e.Seq, o)
		f.schedule(o)
		return next, nil
	}
	from, o := f.StateOf(e.Ref), f.open.Get(e.Ref)
	if o != nil && o.Entity != e.Type.Entity() {
		return from, fmt.Errorf("apply event %d (%s): event %d did not create a %s: %w", e.Seq, e.Type, e.Ref, e.Type.Entity(), ErrCorrupt)
	}
	next, err := Next(from, e.Type)
	if err != nil {
		return from, err
	}
	f.count(o.State, next) // if o is nil, Next has returned an error above
	o.follow(e, next)
	f.schedule(o)
	f.noteFailing(o, e, next)
	f.states[e.Ref-1] = next
	f.Unsure = f.Unsure || e.Outcome == OutcomeUnsure
	if next.Terminal() {
		f.open.Delete(e.Ref)
		if o.counts() {
			f.kids--
		}
	}
	return next, nil
}

// newOpen returns the entity that an event creates.
func newOpen(e *Event, state State) *Open {
	return &Open{
		Ref: e.Seq, Entity: e.Type.Entity(), State: state, Name: e.Name, Key: e.Key,
		Due: e.Due, Wait: e.Wait, Since: e.Time, Changed: e.Time, Token: e.Token, Next: e.Next, Close: e.Close,
	}
}

// follow applies an event that changes the state of the entity to next.
func (o *Open) follow(e *Event, next State) {
	o.State, o.Changed, o.Due = next, e.Time, e.Due
	if o.Entity == EntityStep {
		o.hook(e)
	}
	if e.Attempt > 0 || e.Type == StepRetrying {
		o.Attempt = e.Attempt
	}
	if e.Type == StepRetrying {
		o.giveBack(e)
	}
	if e.Failure != nil {
		o.Failure = e.Failure
	}
}

// noteFailing updates the set of failing steps. A step is not failing if its attempt was stopped
// with the worker, or if it begins anew.
func (f *LogState) noteFailing(o *Open, e *Event, next State) {
	if o.Entity != EntityStep || o.Failure == nil {
		return
	}
	if next.Terminal() || o.Failure.Code == CodeStopped || e.Type == StepRetrying && e.Attempt == 0 {
		delete(f.failing, o.Ref)
		return
	}
	if f.failing == nil {
		f.failing = map[uint64]*Open{}
	}
	f.failing[o.Ref] = o
}

// Failing returns the open step whose last finished attempt has failed, or nil if there is none. If
// there are several, it returns the step that was created first. Another attempt of the step is
// running or will follow.
func (f *LogState) Failing() *Open {
	var first *Open
	for _, o := range f.failing {
		if first == nil || o.Ref < first.Ref {
			first = o
		}
	}
	return first
}

// AllFailing calls yield for each open step whose last finished attempt has failed, in no
// particular order.
func (f *LogState) AllFailing(yield func(*Open) bool) {
	for _, o := range f.failing {
		if !yield(o) {
			return
		}
	}
}

// hook updates the token of the hook that the step's current attempt has opened.
func (o *Open) hook(e *Event) {
	switch e.Type {
	case StepHookCreated:
		o.Token, o.Due = e.Token, time.Time{} // while the code of the attempt runs, the worker applies the timeout
	case StepPending:
	default:
		o.Token = ""
	}
}

// giveBack updates the number of attempts that do not count towards the retry policy.
func (o *Open) giveBack(e *Event) {
	switch {
	case e.Attempt == 0:
		o.Stopped, o.Waited = 0, 0 // the count begins anew
	case e.Failure == nil:
	case e.Failure.Code == CodeStopped:
		o.Stopped++
	case e.Failure.Code == CodeRetryAfter:
		o.Waited++
	}
}

// Counted returns the number of attempts of a step that count towards its retry policy.
func (o *Open) Counted() int { return o.Attempt - o.Stopped - o.Waited }

func (f *LogState) count(from, to State) {
	if from == StateRunning {
		f.steps--
	}
	if to == StateRunning {
		f.steps++
	}
}

// StateOf returns the state of the entity created by event ref, or StateNone if that event created
// none.
func (f *LogState) StateOf(ref uint64) State {
	if ref == 0 || ref > uint64(len(f.states)) {
		return StateNone
	}
	return f.states[ref-1]
}

// Open returns the open entity created by event ref, or nil. The caller must not modify it.
func (f *LogState) Open(ref uint64) *Open { return f.open.Get(ref) }

// Opens calls yield for each open entity, in no particular order.
func (f *LogState) Opens(yield func(*Open) bool) { f.open.All(yield) }

// RunningSteps returns the number of steps with a running attempt.
func (f *LogState) RunningSteps() int { return f.steps }

// counts reports whether the entity counts towards the limit of children.
func (o *Open) counts() bool {
	return o.Entity == EntityChild && !Helper(o.Name)
}

// Children returns the number of open children, and the number of all children that the run has
// created. It does not count runs that execute a step or hold a token for this run.
func (f *LogState) Children() (open, all int) { return f.kids, f.children }
