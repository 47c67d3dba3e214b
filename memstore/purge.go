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

// Purge removes up to limit runs whose retention is over. Their memory is free
// when nobody reads them any more.
func (s *Store) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("purge runs: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = max(p.most, len(p.runs))
	purged := 0
	for now := p.now(); purged < limit && len(p.purges) > 0 && p.purges.next() <= now; purged++ {
		p.purge(p.purges.first())
	}
	p.shrink()
	return purged, timeOf(p.purges.next()), nil
}

// purge forgets everything about a run.
func (p *partition) purge(r *run) {
	p.purges.remove(r)
	p.ids.remove(r)
	delete(p.runs, r.id)
	p.forgetName(r)
	p.forgetChain(r)
	r.class.runs--
	p.tidy(r.class)
	p.publish(r)
}

// Delete hides a run that has ended until it is purged.
func (s *Store) Delete(ctx context.Context, run event.RunID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.hide(run); err != nil {
		return fmt.Errorf("delete run %s: %w", run, err)
	}
	return nil
}

func (p *partition) hide(run event.RunID) error {
	r := p.runs[run]
	switch {
	case r == nil:
		return store.ErrRunNotFound
	case r.place != store.PlaceEnded:
		return &store.NotEndedError{Run: run, Status: r.status}
	case r.hidden:
		return nil
	}
	r.hidden = true
	p.schedule(r)
	p.forgetName(r)
	p.publish(r)
	p.tellStreams(r.chain)
	return nil
}

// unpurged is the index of a run that has ended and may not be purged.
const unpurged = -1

// schedule notes when a run may be purged. It is called for a run that has ended
// when that may have changed, and does nothing for others.
func (p *partition) schedule(r *run) {
	if r.place != store.PlaceEnded {
		return
	}
	if r.timer != unpurged {
		p.purges.remove(r)
		r.timer = unpurged
	}
	if !p.needed(r) {
		p.purges.add(r, r.purgeTime())
	}
}

// needed reports whether somebody may still send again what a run that has ended
// knows, or whether its chain is known by it.
func (p *partition) needed(r *run) bool {
	return r.links != nil && (r.links.birth != "" || r.links.records > 0) || p.chains[r.id] != nil
}

// purgeTime returns when a run that has ended may be purged.
func (r *run) purgeTime() int64 {
	keep := r.retention()
	if r.hidden {
		keep = 0
	}
	return millis(store.PurgeTime(timeOf(r.created), timeOf(r.ended), keep))
}

// retention returns how long a run is kept after its end.
func (r *run) retention() time.Duration {
	if r.extra == nil {
		return store.DefaultRetention
	}
	return cmp.Or(r.extra.retention, store.DefaultRetention)
}

// find returns a run, nil if there is none or it was deleted. Only what must
// know of deleted runs asks p.runs itself.
func (p *partition) find(id event.RunID) *run {
	if r := p.runs[id]; r != nil && !r.hidden {
		return r
	}
	return nil
}

// forgetName makes the workflow id of an ended run forget that it was the last.
func (p *partition) forgetName(r *run) {
	n := p.names[r.wid]
	if r.wid == "" || n == nil || n.last != r {
		return
	}
	n.last = nil
	if n.active == nil { // then nobody waits in line
		delete(p.names, r.wid)
	}
}

// tidy forgets a class that has no runs and that nobody waits for.
func (p *partition) tidy(c *class) {
	if c.runs == 0 && len(c.idle) == 0 {
		delete(p.classes, c.Class)
	}
}

// shrink gives memory back once most of the runs that there were are gone: maps
// do not do so by themselves. Since three quarters of the runs were purged before
// the rest is copied, it costs next to nothing per run.
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
	p.watches = copied(p.watches)
	p.timers = slices.Clone(p.timers)
	p.purges = slices.Clone(p.purges)
	p.ids.chunks = slices.Clone(p.ids.chunks)
}

// copied returns a map that is as large as it must be.
func copied[K comparable, V any](m map[K]V) map[K]V {
	small := make(map[K]V, len(m))
	maps.Copy(small, m)
	return small
}
