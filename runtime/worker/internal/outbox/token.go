package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// released reports whether a refused token is about to become free: its hook is closed, but the run
// that held it has not ended yet. Otherwise the answer names the run whose hook has the token, not
// the run that holds it on behalf of the hook.
func (r *Relay) released(ctx context.Context, c *store.Create, answer *store.Created) bool {
	var active *store.ActiveError
	if c.Route.Workflow != event.HookRun || !errors.As(answer.Err, &active) {
		return false
	}
	st := r.Store
	loaded, err := st.Load(ctx, []store.Load{{Run: active.Run, Limit: -1}})
	if err != nil || loaded[0].Err != nil {
		return true // the run is gone, or cannot be loaded now: the record is delivered again
	}
	holder := &loaded[0].Record
	if holder.Route.Workflow != event.HookRun {
		return false // the workflow id belongs to another kind of run
	}
	page, err := st.ReadStream(ctx, store.ReadStream{
		Run: holder.Parent, Stream: effects.HookStream(event.TokenOfRun(c.WorkflowID)), Limit: -1,
	})
	answer.Err = &store.ActiveError{WorkflowID: c.WorkflowID, Run: holder.Parent}
	return err != nil || page.Closed || page.Ended
}
