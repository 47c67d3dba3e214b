package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// rerun starts the rerun of a record's sender. Both runs are in one partition, which loses neither
// the rerun without the mark that follows it nor the failure without both. So it is done once, and
// a reason against it is not rechecked.
func (r *Relay) rerun(ctx context.Context, o *store.Outgoing) *store.Mark {
	if o.Phase != store.PhaseFresh {
		return mark(o)
	}
	why, err := r.Rerun(ctx, o.From, o.Deadline)
	switch {
	case errors.Is(err, store.ErrLater), errors.Is(err, store.ErrStale):
		return nil
	case errors.Is(err, event.ErrCorrupt), errors.As(err, new(*event.VersionError)):
		// The log is damaged, or of a newer release that can read it.
		if r.fail(o, damagedMost) {
			r.Log.Error("run has failed, and is not rerun as its workflow declares: its log cannot be read", "run", o.From, "error", err)
		}
		return nil
	case err != nil:
		r.failed(ctx, o, err)
		return nil
	case why != "":
		r.fail(o, holdMost) // what its writer may pass on once more must not be given up twice
		r.Log.Warn("run has failed, and is not rerun as its workflow declares", "run", o.From, "why", why, "fix", "retry it by hand")
	}
	return mark(o)
}
