package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Purge removes up to limit runs whose retention has expired. Their memory is freed once no reader
// holds it.
func (s *Store) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("purge runs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = max(p.most, len(p.runs))
	purged, err := p.op.Purge(limit, nil)
	p.announce()
	p.shrink()
	return purged, timeOf(p.purges.next()), err
}

// Delete hides an ended run until it is purged.
func (s *Store) Delete(ctx context.Context, run event.RunID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.op.Delete(run)
	p.announce()
	if err != nil {
		return fmt.Errorf("delete run %s: %w", run, err)
	}
	return nil
}

// unpurged is the heap index of an ended run that must not be purged.
const unpurged = -1

// retention returns the time for which a run is retained after its end.
func (r *run) retention() time.Duration {
	if r.extra == nil {
		return store.DefaultRetention
	}
	return cmp.Or(r.extra.retention, store.DefaultRetention)
}

// find returns a run. It returns nil if the run does not exist or was deleted. Code that also
// handles deleted runs reads p.runs directly.
func (p *partition) find(id event.RunID) *run {
	if r := p.runs[id]; r != nil && !r.hidden {
		return r
	}
	return nil
}

// tidy removes a route if it has no runs.
func (p *partition) tidy(c *route) {
	if c.runs == 0 {
		delete(p.routes, c.Route)
	}
}

// shrink frees memory after most of the runs were purged, because maps do not shrink. It copies the
// remaining runs only after three quarters of the runs were purged. So the cost per run is small.
func (p *partition) shrink() {
	if len(p.runs) > p.most/4 || p.most < 1024 {
		return
	}
	p.most = len(p.runs)
	p.runs = copied(p.runs)
	p.names = copied(p.names)
	p.seen = copied(p.seen)
	p.kept = copied(p.kept)
	p.chains = copied(p.chains)
	p.streams = copied(p.streams)
	p.timers = slices.Clone(p.timers)
	p.purges = slices.Clone(p.purges)
	p.ids.chunks = slices.Clone(p.ids.chunks)
}

// copied returns a copy of a map with the minimum capacity.
func copied[K comparable, V any](m map[K]V) map[K]V {
	small := make(map[K]V, len(m))
	maps.Copy(small, m)
	return small
}
