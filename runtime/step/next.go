package step

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/machine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Next is the transition that a step of a machine returns: to another step, to a step when a
// message arrives, or to the end of the run with a result of type R. M is the type of the machine.
// The methods that flowgen generates for M return transitions. The zero Next has no target, so a
// step that returns it fails.
//
//	return o.goCharge(order), nil                                          // to step charge
//	return o.goRemind().After(24 * time.Hour), nil                         // a day later
//	return o.awaitVerify(Clicked), nil                                     // to verify, with the message
//	return o.awaitVerify(Clicked).OrAfter(72*time.Hour, o.goGiveUp()), nil // or to giveUp if no message arrives
//	return o.awaitVerify(Clicked).Or(o.awaitCancel(Canceled)), nil         // whichever message arrives first
//	return o.done(Profile{…}), nil
type Next[M, R any] machine.Transition

// After returns a transition to n after d. The due time becomes durable when the step completes.
// Messages do not end the wait.
func (n Next[M, R]) After(d time.Duration) Next[M, R] {
	return Next[M, R](machine.Transition(n).Later(d))
}

// OrAfter limits a wait for messages: if no message arrives within d, the machine takes the
// transition then. A message that has already arrived takes precedence, regardless of d. OrAfter
// may be called once on a transition that waits for messages. Otherwise the step fails.
func (n Next[M, R]) OrAfter(d time.Duration, then Next[M, R]) Next[M, R] {
	return Next[M, R](machine.Transition(n).Join(machine.Transition(then), func(n, then machine.Next) (machine.Next, error) { return n.OrAfter(d, then) }))
}

// Or waits for the messages of both n and other, and takes the transition whose message arrives
// first. If both messages are available, it takes n. Neither n nor other may have a time limit.
// Otherwise the step fails.
func (n Next[M, R]) Or(other Next[M, R]) Next[M, R] {
	return Next[M, R](machine.Transition(n).Join(machine.Transition(other), machine.Next.Or))
}

// Failure describes a machine's step that has failed after its last attempt. The step that catch=
// names receives it. As for a workflow.StepError, errors.Is and errors.As also match the error that
// the failed step returned.
type Failure struct { //nolint:errname // steps of a machine take it as a value that describes the failure
	Step  string         `json:"step"`  // stored name of the failed step
	Code  string         `json:"code"`  // as in workflow.StepError
	Cause *event.Failure `json:"cause"` // stored form of the error that the step returned
}

// Error returns a text that contains the step and its error.
func (f Failure) Error() string {
	if f.Cause == nil {
		return fmt.Sprintf("step %s failed: %s", f.Step, f.Code)
	}
	return fmt.Sprintf("step %s failed: %s", f.Step, f.Cause.Message)
}

// Is reports whether the error of the step matches target.
func (f Failure) Is(target error) bool { return failure.Is(f.Cause, target) }

// As sets target to the error of the step if it has the type of target. It reports whether it did.
func (f Failure) As(target any) bool { return failure.As(f.Cause, target) }

// TransitionsError reports that a machine has begun as many steps as its max= allows and has not
// ended. The run of the machine fails with code "transitions".
type TransitionsError struct {
	Machine string // stored name of the machine
	Max     int
	Next    string // stored name of the step that was not begun
}

// Error returns a text that contains the machine, the maximum and the next step.
func (e *TransitionsError) Error() string {
	return fmt.Sprintf("machine %s has begun %d steps, its maximum, and its next step would be %s: look for steps that lead to each other for ever, "+
		"or raise max= on its //flow:machine", e.Machine, e.Max, e.Next)
}

// storeTransitions returns the stored form of e.
func storeTransitions(e *TransitionsError) *event.Failure {
	data, _ := json.Marshal(*e) //nolint:musttag // logs have it under the names of the fields; strings and numbers always encode
	return &event.Failure{Code: event.CodeTransitions, Type: wireTransitions, Message: e.Error(), Data: data}
}

const wireTransitions = "flowgen.TransitionsError"

func init() {
	failure.RegisterType(reflect.TypeFor[*TransitionsError](), wireTransitions)
	failure.RegisterForm(storeTransitions, nil)
}

// Deferred is an attempt whose outcome another program sends. Create it with [Later].
type Deferred[T any] struct{ token string }

// Later opens a hook through which another program completes this attempt. Pass the token to that
// program, and return the result of [Deferred.Pending]. The holder of the token completes the step
// with [workflow.Hook.Send], or fails the attempt with [workflow.Hook.Fail]:
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
// While the attempt is pending, it uses no resources of the worker: no goroutine, no claim, no
// permit of a limit. The timeout of the step applies to the whole attempt, from its beginning until
// it is completed. An attempt that is not completed in time fails with code "timeout". The retry
// policy applies to it, as to an attempt that the holder of the token has failed. Each attempt has
// its own token, which consists of the ID of the run and 128 random bits. The token of an attempt
// that has ended is refused.
//
// When Later returns, the token is durable and may be used at once. The first outcome counts,
// whether the code returns it or the holder of the token sends it. An outcome that arrives while
// the code runs ends the context of the code. If the worker crashes before the code has returned,
// the attempt is interrupted. The next attempt has another token, unless the first token is used
// before that attempt begins.
//
// If the same attempt calls Later again with the same hook, Later returns the same token.
//
// Errors: an *[workflow.InvalidError] for a second hook, for the option [workflow.Token], for an
// invalid description, and in a step of a machine, because the result of such a step contains the
// next step; or the cause of ctx if the attempt should stop.
func Later[T any](ctx context.Context, h workflow.Hook[T], opts ...workflow.HookOption) (*Deferred[T], error) {
	a := current(ctx, "Later")
	var o flow.HookOptions
	for _, opt := range opts {
		opt(&o)
	}
	hook, err := flow.Hook(h).OfStep(&o)
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

// Token returns the token that completes the attempt. Treat it as a secret, because any holder can
// complete the attempt.
func (d *Deferred[T]) Token() string { return d.token }

// Pending returns the values that the step must return to leave its outcome to the holder of the
// token. The step may wrap the error. A step without a result returns only the error.
func (d *Deferred[T]) Pending() (T, error) {
	var v T
	return v, &attempt.PendingError{Token: d.token}
}
