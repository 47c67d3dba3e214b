package step

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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
