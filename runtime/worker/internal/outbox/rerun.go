package outbox

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// rerun starts the rerun of a record's sender. Both runs are in one partition. A failover of that
// partition cannot lose the rerun and keep the later mark, or lose the failure and keep either of
// them. So the rerun is created once, and a reason against it is not checked again.
func (r *Relay) rerun(ctx context.Context, o *store.Outgoing) *store.Mark {
	if o.Phase != store.PhaseFresh {
		return mark(o)
	}
	why, err := r.Rerun(ctx, o.From, o.Deadline)
	switch {
	case errors.Is(err, store.ErrLater), errors.Is(err, store.ErrStale):
		return nil
	case errors.Is(err, event.ErrCorrupt), errors.As(err, new(*event.VersionError)):
		// The log is damaged or was written by a newer release, whose workers can read it.
		if r.fail(o, damagedMost) {
			r.Log.Error("run has failed, and is not rerun as its workflow declares: its log cannot be read", "run", o.From, "error", err)
		}
		return nil
	case err != nil:
		r.failed(ctx, o, err)
		return nil
	case why != "":
		r.fail(o, holdMost) // the hold keeps a second delivery of the record from reporting the reason again
		r.Log.Warn("run has failed, and is not rerun as its workflow declares", "run", o.From, "why", why, "fix", "retry it by hand")
	}
	return mark(o)
}
