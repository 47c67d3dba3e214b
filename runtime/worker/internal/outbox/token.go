package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// released reports whether a token that was refused is about to be free: its hook is
// closed, only the run that held it has not ended yet. Else the answer names the run
// whose hook has the token, and not the one that holds it for that.
func (r *Relay) released(ctx context.Context, c *store.Create, answer *store.Created) bool {
	var active *store.ActiveError
	if c.Route.Workflow != event.HookRun || !errors.As(answer.Err, &active) {
		return false
	}
	st := r.Store
	loaded, err := st.Load(ctx, []store.Load{{Run: active.Run, Limit: -1}})
	if err != nil || loaded[0].Err != nil {
		return true // it is gone, or is asked again
	}
	holder := &loaded[0].Record
	if holder.Route.Workflow != event.HookRun {
		return false // somebody has taken the workflow id for something else
	}
	page, err := st.ReadStream(ctx, store.ReadStream{
		Run: holder.Parent, Stream: effects.HookStream(event.TokenOfRun(c.WorkflowID)), Limit: -1,
	})
	answer.Err = &store.ActiveError{WorkflowID: c.WorkflowID, Run: holder.Parent}
	return err != nil || page.Closed || page.Ended
}
