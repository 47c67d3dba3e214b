package worker

import (
	"context"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// unbounded knows which of the limits that the code declares nothing bounds: a step that uses no other is executed in place, and takes
// no permits. What is configured at run time holds for the steps that begin after the next heartbeat; those before it are executed as
// they began, so that no attempt waits for a permit in a run that other runs count on.
type unbounded struct {
	*env
	names atomic.Pointer[map[string]bool]
}

// look asks a partition for the limits that the code does not bound, if it keeps them. While it does not answer, what was known holds; at
// the start of a worker that is nothing, and each of these limits counts as bounded.
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

// has reports whether it is known that nothing bounds a limit.
func (u *unbounded) has(limit string) bool {
	names := u.names.Load()
	return names != nil && (*names)[limit]
}
