// Package machine decides what a state machine does next. It is pure: no log, no clock, no
// code of users. What a step returns is a [Next], which is stored in its result; package step has
// the form of it that people type, and package shim the loop that asks [Machine.Decide] and
// does what it says.
package machine

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Next is where a step of a machine leads. One of Step, Done, Waits and Then is set: to a step,
// to the end, to a step once a message comes, or, after a time, to another Next. Waits and Then
// go together: the message has so much time.
type Next struct {
	Step   string          `json:"step,omitempty"` // stored name
	Args   json.RawMessage `json:"args,omitempty"` // of the step, an object
	Done   bool            `json:"done,omitempty"`
	Result json.RawMessage `json:"result,omitempty"` // of the machine
	Waits  []Wait          `json:"waits,omitempty"`
	After  time.Duration   `json:"after,omitempty"` // until Then, in nanoseconds
	Then   *Next           `json:"then,omitempty"`
}

// Wait leads to a step once a message of a topic comes.
type Wait struct {
	Topic   string          `json:"topic"`
	Step    string          `json:"step"`
	Args    json.RawMessage `json:"args,omitempty"` // of the step, but for the message
	Message string          `json:"message"`        // the argument that the message is
}

// with returns the arguments of the step with the message among them.
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

// Waiting reports whether n waits for messages, and no longer than for ever.
func (n *Next) Waiting() bool { return len(n.Waits) > 0 && n.Then == nil }

// The errors of transitions that nobody can take.
var (
	ErrNowhere = errors.New("it leads nowhere: return what a go…, await… or done method of the machine returns")
	ErrOrAfter = errors.New("OrAfter limits a wait, and this is none, or one that has a limit: call it once, on what an await… method returns")
	ErrOr      = errors.New("Or joins two waits without a limit: call it on what await… methods return, and OrAfter on the result")
)

// Check returns why n leads nowhere, nil if it leads somewhere.
func (n *Next) Check() error {
	switch {
	case n.Then != nil:
		return n.Then.Check()
	case n.Step != "" || n.Done || len(n.Waits) > 0:
		return nil
	}
	return ErrNowhere
}

// OrAfter returns n with a limit, after which then is taken.
func (n Next) OrAfter(d time.Duration, then Next) (Next, error) {
	if !n.Waiting() {
		return n, ErrOrAfter
	}
	n.After, n.Then = max(d, 0), &then
	return n, nil
}

// Or returns a wait for what either of two wait for.
func (n Next) Or(other Next) (Next, error) {
	if !n.Waiting() || !other.Waiting() {
		return n, ErrOr
	}
	n.Waits = append(slices.Clip(n.Waits), other.Waits...)
	return n, nil
}

// Later returns what leads to n after a time.
func (n Next) Later(d time.Duration) Next { return Next{After: max(d, 0), Then: &n} }
