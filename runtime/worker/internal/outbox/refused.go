package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// recordOf returns the key of a record in refused.
func recordOf(o *store.Outgoing) string { return string(o.From) + " " + string(o.ID) }

// toTheEnd returns marks that move a record past the phase that recorded its refusal, and remove
// it. A record is normally sent again after a Horizon, because a failover may have lost what the
// receiver accepted. A refused start has nothing to lose. If it were sent again when its workflow
// id is free, a run would exist that the sender believes not to exist.
func toTheEnd(o *store.Outgoing) (marks []store.Mark) {
	for phase := o.Phase + 1; phase <= store.PhaseSettled; phase++ {
		marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: phase})
	}
	return marks
}

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
