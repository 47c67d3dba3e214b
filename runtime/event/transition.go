package event

import "fmt"

// State is a state in the life cycle of an entity.
type State uint8

// The states. The zero State means that the entity does not exist.
const (
	StateNone State = iota
	StatePending
	StateRunning
	StateCompleted
	StateFailed
	StateCanceled
	StateContinued
	StateWaiting
	StateActive
	StateDisposed
	StateConflicted
)

var stateNames = [...]string{
	StateNone: "none", StatePending: "pending", StateRunning: "running",
	StateCompleted: "completed", StateFailed: "failed", StateCanceled: "cancelled", StateContinued: "continued",
	StateWaiting: "waiting", StateActive: "active", StateDisposed: "disposed", StateConflicted: "conflicted",
}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Terminal reports whether the state is final.
func (s State) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateContinued, StateDisposed, StateConflicted:
		return true
	}
	return false
}

type transition struct {
	from State
	by   Type
}

// transitions is the only table of legal transitions. [Next] refuses all others.
var transitions = map[transition]State{
	{StateNone, RunCreated}:      StatePending,
	{StatePending, RunStarted}:   StateRunning,
	{StatePending, RunFailed}:    StateFailed, // the run was poisoned or did not begin in time
	{StatePending, RunCanceled}:  StateCanceled,
	{StateRunning, RunCompleted}: StateCompleted,
	{StateRunning, RunFailed}:    StateFailed,
	{StateRunning, RunCanceled}:  StateCanceled,
	{StateRunning, RunContinued}: StateContinued,

	{StateNone, StepCreated}:      StatePending,
	{StatePending, StepStarted}:   StateRunning,
	{StateRunning, StepStarted}:   StateRunning, // the previous attempt was interrupted
	{StateRunning, StepRetrying}:  StatePending,
	{StateRunning, StepCompleted}: StateCompleted,
	{StateRunning, StepFailed}:    StateFailed,
	{StatePending, StepFailed}:    StateFailed, // the step was canceled before or between attempts

	{StateRunning, StepHookCreated}: StateRunning,
	{StateRunning, StepPending}:     StateWaiting,
	{StateWaiting, StepCompleted}:   StateCompleted,
	{StateWaiting, StepRetrying}:    StatePending,
	{StateWaiting, StepFailed}:      StateFailed,

	{StateNone, WaitCreated}:      StateWaiting,
	{StateWaiting, WaitCompleted}: StateCompleted,

	{StateNone, HookCreated}:    StateActive,
	{StateActive, HookReceived}: StateActive,
	{StateActive, HookDisposed}: StateDisposed,
	{StateActive, HookConflict}: StateConflicted,

	{StateNone, AskReceived}:    StateWaiting,
	{StateNone, AskAccepted}:    StateActive,
	{StateWaiting, AskAnswered}: StateCompleted,
	{StateActive, AskAnswered}:  StateCompleted,
	{StateWaiting, AskRefused}:  StateFailed,

	{StateNone, MessageSent}:      StateWaiting,
	{StateWaiting, SendCompleted}: StateCompleted,
	{StateWaiting, SendFailed}:    StateFailed,

	{StateNone, ChildCreated}:            StateWaiting,
	{StateWaiting, ChildStarted}:         StateActive,
	{StateWaiting, ChildCancelRequested}: StateWaiting,
	{StateActive, ChildCancelRequested}:  StateActive,
	{StateWaiting, ChildCompleted}:       StateCompleted,
	{StateActive, ChildCompleted}:        StateCompleted,
	{StateWaiting, ChildFailed}:          StateFailed,
	{StateActive, ChildFailed}:           StateFailed,
	{StateWaiting, ChildCanceled}:        StateCanceled,
	{StateActive, ChildCanceled}:         StateCanceled,
}

var transitionTable = func() (t [StateConflicted + 1][256]State) {
	for from, to := range transitions {
		t[from.from][from.by] = to
	}
	return t
}()

// Next returns the state that follows from after an event of type t. It fails with a
// [*TransitionError] if the table of transitions does not contain the event for this state. The
// table contains no event for a terminal state.
func Next(from State, t Type) (State, error) {
	if int(from) < len(transitionTable) {
		if to := transitionTable[from][t]; to != StateNone {
			return to, nil
		}
	}
	return from, &TransitionError{Entity: t.Entity(), From: from, Type: t, To: aim(t)}
}

// aim returns the state to which events of type t lead from a state that allows them. Error texts
// contain it.
func aim(t Type) State {
	for from := range transitionTable {
		if to := transitionTable[from][t]; to != StateNone {
			return to
		}
	}
	return StateNone
}

// TransitionError reports that an event is not allowed in the state of its entity. Nothing has been
// written.
type TransitionError struct {
	Entity Entity
	Seq    uint64 // number of the event; 0 if unknown
	Ref    uint64 // number of the event that created the entity; 0 for a run
	From   State
	Type   Type
	To     State // state to which the event leads if it is allowed; StateNone: none
}

// Error returns a text that contains the entity, the event and both states.
func (e *TransitionError) Error() string {
	what := e.Entity.String()
	if e.Ref != 0 {
		what = fmt.Sprintf("%s of event %d", what, e.Ref)
	}
	why := ""
	if e.From.Terminal() {
		why = ", which is final"
	}
	if e.To == StateNone || e.Type.Entity() != e.Entity {
		return fmt.Sprintf("%s is %s%s: %s cannot follow", what, e.From, why, e.Type)
	}
	return fmt.Sprintf("%s is %s%s: %s cannot make it %s", what, e.From, why, e.Type, e.To)
}
