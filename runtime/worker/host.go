package worker

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

// host implements [handover.Host], the interface of the worker for clients of its process.
type host struct{ *Worker }

// Take begins the run that a client starts. It declines a run that has to wait: for its start time,
// for an earlier run, or for a slot that other runs wait for. It also declines a run that is
// created with messages, because the code must not begin before it has them, and a run that is
// created claimed has none.
func (h host) Take(s *handover.Start) bool {
	w, c := h.Worker, &s.Create
	if len(c.Items) > 0 || c.Delay > 0 || !c.At.IsZero() || c.Active.Lines() || !w.serves[c.Route] || store.LocalOf(c.Uses) != nil {
		return false
	}
	p := w.partitionOf(c.Run)
	session := w.leases[p].Current()
	if !w.leases[p].Alive(session) || w.claimer.silent(p) {
		return false
	}
	start := &localStart{Start: s, partition: p, session: session}
	return w.runs.admit(start, func() *inputs { return w.newLoop(c.Run) })
}

// Follow waits for the end of a run that this worker works on.
func (h host) Follow(ctx context.Context, run event.RunID) (*handover.End, bool) {
	return h.runs.follow(ctx, run)
}
