package worker

import (
	"context"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// unbounded contains the names of the limits that the code declares without a bound and that have
// no configuration in the store. A step that uses only such limits is executed in its run instead
// of in a run of its own, and takes no permits, so an unbounded limit does not cost one run per
// step. The worker reads the configurations with its heartbeats, so the first configuration of such
// a limit applies to steps that begin after the next heartbeat. A step that began before is
// executed as it began; see [replay.Branch.Apart].
type unbounded struct {
	*env
	names atomic.Pointer[map[string]bool]
}

// look reads the configurations of the limits that the code does not bound, if the partition stores
// them. While it does not answer, the last result holds. At the start of a worker there is none,
// and each of these limits counts as bounded.
func (u *unbounded) look(ctx context.Context, partition int) {
	ids, home := permits.Unconfigured(u.store.Partitions())
	reader, ok := store.As[store.TurnReader](u.store)
	if len(ids) == 0 || home != partition || !ok {
		return
	}
	turns, err := reader.Turns(ctx, partition, ids)
	if err != nil {
		return
	}
	names := make(map[string]bool, len(ids))
	for i, id := range ids {
		names[id.Name] = turns[i].Config == store.LimitConfig{}
	}
	u.names.Store(&names)
}

// has reports whether a limit is known to be unbounded.
func (u *unbounded) has(limit string) bool {
	names := u.names.Load()
	return names != nil && (*names)[limit]
}
