package workflow

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

type behalfKey struct{}

// OnBehalfOf returns a context in which a program asks for somebody, such as an operator who has logged in: what it asks of runs with
// that context has the name in their logs, as event.Event.By. That holds for starts and reruns, and for all that is
// put into a run: commands such as [Handle.Cancel] and [Handle.Pause], messages, payloads of hooks, questions, orders to schedules.
// What comes of it, such as a child that is canceled with its parent, is the run's own doing, and has no name.
//
// Nothing checks the name, and no run depends on it. Of a name of more than 1 KiB the beginning is kept, and what is no UTF-8 in it is
// replaced. An empty one is nobody's.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, behalfKey{}, store.KeptText(name, store.MaxName))
}

// behalf returns the name for which a program asks; empty: it asks for itself.
func behalf(ctx context.Context) string {
	name, _ := ctx.Value(behalfKey{}).(string)
	return name
}
