package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

type behalfKey struct{}

// OnBehalfOf returns a context that carries the name of the person or system for which a program
// acts, for example an operator who has logged in. The logs of runs record the name as
// event.Event.By for all requests made with this context: starts, reruns, and everything that is
// sent to a run, namely commands such as [Handle.Cancel] and [Handle.Pause], messages, payloads of
// hooks, questions and orders to schedules. Consequences of such a request, for example the
// cancellation of a child with its parent, carry no name.
//
// The name is not verified, and no run depends on it. A name longer than 1 KiB is truncated, and
// invalid UTF-8 in it is replaced. An empty name records none.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, behalfKey{}, store.KeptText(name, store.MaxName))
}

// behalf returns the name set by OnBehalfOf, or "" if there is none.
func behalf(ctx context.Context) string {
	name, _ := ctx.Value(behalfKey{}).(string)
	return name
}
