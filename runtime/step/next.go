package step

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/machine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Next is the transition at the end of a machine's step: to another step, to the end of the run
// with a result of type R, or to a step once a message arrives. M is the type of the machine. The
// methods that flowgen generates for M return it. The zero Next has no target, and the step that
// returns it fails.
//
//	return o.goCharge(order), nil                                          // to step charge
//	return o.goRemind().After(24 * time.Hour), nil                         // a day later
//	return o.awaitVerify(Clicked), nil                                     // to verify, with the message
//	return o.awaitVerify(Clicked).OrAfter(72*time.Hour, o.goGiveUp()), nil // or to giveUp, if none comes
//	return o.awaitVerify(Clicked).Or(o.awaitCancel(Canceled)), nil         // whichever comes first
//	return o.done(Profile{…}), nil
type Next[M, R any] struct {
	to  machine.Next
	err error // why the transition is not valid
}

// After returns a transition to n after d. The due time is stored when the step has completed. No
// message ends this wait.
func (n Next[M, R]) After(d time.Duration) Next[M, R] {
	n.to = n.to.Later(d)
	return n
}

// OrAfter bounds a wait for messages: if none arrives within d, then is taken. A message that has
// already arrived is taken regardless of d. OrAfter may be called once, on a wait; otherwise the
// step fails.
func (n Next[M, R]) OrAfter(d time.Duration, then Next[M, R]) Next[M, R] {
	return n.joined(then, func() (machine.Next, error) { return n.to.OrAfter(d, then.to) })
}

// Or waits for the messages of both n and other, and takes the first to arrive; if both are
// available, n. It combines waits without a time limit; otherwise the step fails.
func (n Next[M, R]) Or(other Next[M, R]) Next[M, R] {
	return n.joined(other, func() (machine.Next, error) { return n.to.Or(other.to) })
}

func (n Next[M, R]) joined(with Next[M, R], join func() (machine.Next, error)) Next[M, R] {
	if n.err == nil {
		n.err = with.err
	}
	if n.err == nil {
		n.to, n.err = join()
	}
	return n
}

func (n Next[M, R]) transition() (machine.Next, error) {
	if n.err != nil {
		return n.to, n.err
	}
	return n.to, n.to.Check()
}

func (n *Next[M, R]) set(to machine.Next, err error) { n.to, n.err = to, err }

// Failure is the failure of a machine's step after its last attempt. It is the parameter of the
// step that catch= names. As for a workflow.StepError, errors.Is and errors.As also match the error
// that the step returned.
type Failure struct { //nolint:errname // steps of a machine take it as a value that describes the failure
	Step  string         `json:"step"`  // stored name of the failed step
	Code  string         `json:"code"`  // as in workflow.StepError
	Cause *event.Failure `json:"cause"` // stored form of the error that the step returned
}

// Error returns a text with the step and its error.
func (f Failure) Error() string {
	if f.Cause == nil {
		return fmt.Sprintf("step %s failed: %s", f.Step, f.Code)
	}
	return fmt.Sprintf("step %s failed: %s", f.Step, f.Cause.Message)
}

// Is reports whether the error of the step matches target.
func (f Failure) Is(target error) bool { return failure.Is(f.Cause, target) }

// As finds the error of the step as the type of target.
func (f Failure) As(target any) bool { return failure.As(f.Cause, target) }

// TransitionsError reports that a machine has begun as many steps as its max= allows without
// reaching its end. Its run fails with code "transitions".
type TransitionsError struct {
	Machine string // stored name
	Max     int
	Next    string // stored name of the step that would have been next
}

// Error returns a text with the machine, the number and the next step.
func (e *TransitionsError) Error() string {
	return fmt.Sprintf("machine %s has begun %d steps, as many as it may, and would go on to step %s: look for steps that lead to each other for ever, "+
		"or raise max= on its //flow:machine", e.Machine, e.Max, e.Next)
}

// MarshalFailure returns the stored form of e.
func (e *TransitionsError) MarshalFailure() *event.Failure {
	data, _ := json.Marshal(*e) //nolint:musttag // logs have it under the names of the fields; strings and numbers always encode
	return &event.Failure{Code: event.CodeTransitions, Type: wireTransitions, Message: e.Error(), Data: data}
}

const wireTransitions = "flowgen.TransitionsError"

func init() {
	failure.RegisterType(reflect.TypeFor[*TransitionsError](), wireTransitions)
	engine.NextOf = func(next any) (machine.Next, error) {
		return next.(interface {
			transition() (machine.Next, error)
		}).transition()
	}
	engine.SetNext = func(next any, to machine.Next, err error) {
		next.(interface {
			set(to machine.Next, err error)
		}).set(to, err)
	}
}

// Deferred is an attempt whose outcome is sent from outside.
type Deferred[T any] struct{ token string }

// Later opens a hook through which another program completes this attempt: pass the token on, and
// return the result of [Deferred.Pending]. A holder of the token completes the step with
// [workflow.Hook.Send], or fails the attempt with [workflow.Hook.Fail]:
//
//	var Charged = workflow.NewHook[Receipt]("charged")
//
//	//flow:step timeout=24h
//	func charge(ctx context.Context, order Order) (Receipt, error) {
//		later, err := step.Later(ctx, Charged)
//		if err != nil {
//			return Receipt{}, err
//		}
//		if err := gateway.Submit(ctx, order, later.Token()); err != nil {
//			return Receipt{}, err
//		}
//		return later.Pending()
//	}
//
// While the attempt is pending, it occupies no resources of the worker: no goroutine, no claim, no
// permit of a limit. The timeout of the step applies to the whole attempt, from its beginning until
// it is completed. An attempt that is not completed in time fails with code "timeout", and is
// retried by the policy like one that was failed from outside. Each attempt has its own token, made
// of the run's ID and 128 random bits. The token of an attempt that is over is refused.
//
// When Later returns, the token is durable and may be used at once. The first outcome counts,
// whether it is returned by the code or sent from outside; an outcome that arrives while the code
// still runs ends the context of the code. If the worker dies before the code has returned, the
// attempt is interrupted like any other: the next attempt has another token, unless the first token
// was used before that attempt begins.
//
// A repeated call by the same attempt with the same hook returns the same token. Errors: an
// *[workflow.InvalidError] for another hook, for the option [workflow.Token], for an invalid
// description, and in a step of a machine, because the outcome of such a step determines the next
// step and cannot come from outside; the cause of ctx if the attempt should stop.
func Later[T any](ctx context.Context, h workflow.Hook[T], opts ...workflow.HookOption) (*Deferred[T], error) {
	a := current(ctx, "Later")
	hook, err := engine.HookOf(h, opts)
	if err != nil {
		return nil, fmt.Errorf("open hook %s: %w", h.Name(), err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("open hook %s: %w", h.Name(), err)
	}
	token, err := a.Hooks.OpenHook(ctx, hook)
	if err != nil {
		return nil, fmt.Errorf("open hook %s: %w", h.Name(), err)
	}
	return &Deferred[T]{token}, nil
}

// Token returns the token that completes the attempt. Anyone who has it can do that, so treat it as
// a secret.
func (d *Deferred[T]) Token() string { return d.token }

// Pending returns the values that the step must return, possibly with the error wrapped, to leave
// its outcome to the holder of the token. A step without a result returns only the error.
func (d *Deferred[T]) Pending() (T, error) {
	var v T
	return v, &attempt.PendingError{Token: d.token}
}
