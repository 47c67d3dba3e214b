package step

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Deferred is the outcome of an attempt that somebody else decides.
type Deferred[T any] struct{ token string }

// Later opens a hook by which this attempt is finished from outside: hand its token out, and return
// what [Deferred.Pending] returns. Whoever has the token completes the step with
// [workflow.Hook.Send], or lets the attempt fail with [workflow.Hook.Fail]:
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
// While it is left to others nothing of the worker is held: no goroutine, no claim, no permit
// of a limit. The timeout of the step holds for the whole attempt, from its beginning until
// it is finished; what was not finished in time has failed with code "timeout", and is tried again by
// the policy, as it is when it is failed from outside. Each attempt has a token of its own, of the run's id and 128 random bits. That of an
// attempt which is over is refused.
//
// When it returns, the token is durable, and may be used at once: the first outcome counts, that
// of the code or that from outside, and what comes from outside while the code still runs ends its
// context. If the worker dies before the code has returned, the attempt was interrupted, as any
// other: the next one has another token, unless the first was used before that begins.
//
// Called again by the same attempt with the same hook it returns the same token. Errors: an
// *[workflow.InvalidError] for another hook, a [workflow.Token] of one's own, or a description
// that cannot be kept, and in a step of a machine, whose outcome says where that leads and can be
// nobody else's; the cause of ctx if the attempt should stop.
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

// Token returns the token that finishes the attempt. Anyone who has it can do that: treat it as a
// secret.
func (d *Deferred[T]) Token() string { return d.token }

// Pending returns what the step must return, perhaps wrapped, to leave its outcome to whoever has the
// token. A step without a result returns only the error.
func (d *Deferred[T]) Pending() (T, error) {
	var v T
	return v, &attempt.PendingError{Token: d.token}
}
