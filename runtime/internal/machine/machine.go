// Package machine decides the next action of a state machine. It uses no log, no clock and no user
// code. A step returns a [Next], which is stored in the step's result. Package step has a typed
// form of Next for users. Package shim has the loop that calls [Machine.Decide] and carries out the
// action.
package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Next is the transition that a step of a machine returns. It leads to a step (Step), to the end
// (Done), to a step after a message (Waits), or to another Next after a time (Then). Exactly one of
// these fields is set, except that Waits may be combined with Then: After then limits the wait for
// the messages.
type Next struct {
	Step   string          `json:"step,omitempty"` // stored name of the step
	Args   json.RawMessage `json:"args,omitempty"` // arguments of the step, an object
	Done   bool            `json:"done,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // result of the machine
	Waits  []Wait          `json:"waits,omitempty"`
	After  time.Duration   `json:"after,omitempty"` // time until Then, in nanoseconds
	Then   *Next           `json:"then,omitempty"`
}

// Wait is a transition to a step when a message of a topic arrives.
type Wait struct {
	Topic   string          `json:"topic"`
	Step    string          `json:"step"`
	Args    json.RawMessage `json:"args,omitempty"` // arguments of the step, without the message
	Message string          `json:"message"`        // name of the argument that receives the message
}

// with returns the arguments of the step, including the message.
func (w *Wait) with(message json.RawMessage) (json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if len(w.Args) > 0 {
		if err := json.Unmarshal(w.Args, &args); err != nil {
			return nil, err
		}
	}
	if len(message) == 0 {
		message = json.RawMessage("null")
	}
	args[w.Message] = message
	return json.Marshal(args)
}

// Waiting reports whether n waits for messages without a time limit.
func (n *Next) Waiting() bool { return len(n.Waits) > 0 && n.Then == nil }

// These are the errors of invalid transitions.
var (
	ErrNowhere = errors.New("it leads nowhere: return what a go…, await… or done method of the machine returns")
	ErrOrAfter = errors.New("OrAfter limits a wait, and this is none, or one that has a limit: call it once, on what an await… method returns")
	ErrOr      = errors.New("Or joins two waits without a limit: call it on what await… methods return, and OrAfter on the result")
)

// Check returns an error if n is invalid.
func (n *Next) Check() error {
	switch {
	case n.Then != nil:
		return n.Then.Check()
	case n.Step != "" || n.Done || len(n.Waits) > 0:
		return nil
	}
	return ErrNowhere
}

// OrAfter returns n with a time limit. When the limit passes, the machine follows then.
func (n Next) OrAfter(d time.Duration, then Next) (Next, error) {
	if !n.Waiting() {
		return n, ErrOrAfter
	}
	n.After, n.Then = max(d, 0), &then
	return n, nil
}

// Or returns a wait for the messages of both n and other.
func (n Next) Or(other Next) (Next, error) {
	if !n.Waiting() || !other.Waiting() {
		return n, ErrOr
	}
	n.Waits = append(slices.Clip(n.Waits), other.Waits...)
	return n, nil
}

// Later returns a Next that leads to n after the duration d.
func (n Next) Later(d time.Duration) Next { return Next{After: max(d, 0), Then: &n} }

// RemovedError is the error of a run whose log leads to a step that its machine does not have. The
// run is blocked and not failed. It continues on a worker whose code has the step.
type RemovedError struct {
	Run     event.RunID
	Machine string
	From    string // the step whose transition leads to the missing step; empty if the machine begins with it
	Step    string
}

// Error names both steps and how to fix the error.
func (e *RemovedError) Error() string {
	from := "it begins with step"
	if e.From != "" {
		from = "step " + e.From + " has led to step"
	}
	return fmt.Sprintf("run %s does not fit this code: %s %s, which machine %s does not have: it was removed or renamed while this run was under way. "+
		"If it has another name now, keep the stored one: write name=%s on its //flow:step. If it was removed, put it back until no such run is left; "+
		"the run is blocked until a worker with matching code starts, and then continues by itself", e.Run, from, e.Step, e.Machine, e.Step)
}

// Transition is the representation of a step.Next: a Next, or the reason why there is none.
type Transition struct {
	to  Next
	err error
}

// To returns the transition to a Next. If err is not nil, the transition is not valid.
func To(to Next, err error) Transition { return Transition{to, err} }

// Next returns the Next of the transition, or the reason why the transition is not valid.
func (t Transition) Next() (Next, error) {
	if t.err != nil {
		return t.to, t.err
	}
	return t.to, t.to.Check()
}

// Later returns a transition that follows t after d.
func (t Transition) Later(d time.Duration) Transition { return Transition{t.to.Later(d), t.err} }

// Join joins the Next of t with that of another transition.
func (t Transition) Join(with Transition, join func(t, with Next) (Next, error)) Transition {
	if t.err == nil {
		t.err = with.err
	}
	if t.err == nil {
		t.to, t.err = join(t.to, with.to)
	}
	return t
}
