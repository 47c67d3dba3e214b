package worker

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

// host is the worker as clients of its process see it: a [handover.Host].
type host struct{ *Worker }

// Take begins what a client starts, unless the run has to wait: for its time, for a
// run before it, or because others wait for a place. A run that is created with messages
// waits as well: its code must not begin before it has them, and a run that is created
// claimed has none.
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
