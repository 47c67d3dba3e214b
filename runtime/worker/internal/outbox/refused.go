package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// toTheEnd returns marks that move a record past the phase in which its refusal was recorded, and
// remove it. An accepted record is sent again after a Horizon, because a failover may have lost its
// effect. A refused start has no effect that could be lost. If it were sent again after its
// workflow ID became free, a run would exist that the sender considers refused.
func toTheEnd(o *store.Outgoing) (marks []store.Mark) {
	for phase := o.Phase + 1; phase <= store.PhaseSettled; phase++ {
		marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: phase})
	}
	return marks
}

// released reports whether the token that caused a refusal will soon be free: its hook is closed,
// but the run that held it has not ended. The record is then delivered again. Otherwise the answer
// names the run that opened the hook instead of the run that holds the token for the hook.
func (r *Relay) released(ctx context.Context, c *store.Create, answer *store.Created) bool {
	var active *store.ActiveError
	if c.Route.Workflow != event.HookRun || !errors.As(answer.Err, &active) {
		return false
	}
	st := r.Store
	loaded, err := st.Load(ctx, []store.Load{{Run: active.Run, Limit: -1}})
	if err != nil || loaded[0].Err != nil {
		return true // The run is deleted or cannot be loaded at present, so the record is delivered again.
	}
	holder := &loaded[0].Record
	if holder.Route.Workflow != event.HookRun {
		return false // the workflow ID belongs to a run of another kind
	}
	page, err := st.ReadStream(ctx, store.ReadStream{
		Run: holder.Parent, Stream: effects.HookStream(event.TokenOfRun(c.WorkflowID)), Limit: -1,
	})
	answer.Err = &store.ActiveError{WorkflowID: c.WorkflowID, Run: holder.Parent}
	return err != nil || page.Closed || page.Ended
}
