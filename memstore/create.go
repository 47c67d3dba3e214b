package memstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Create stores new runs. The store keeps the frames, tags and items given.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for i := range runs {
		if err := s.routed(&runs[i]); err != nil {
			return nil, err
		}
	}
	answers := make([]store.Created, len(runs))
	s.byPartition(len(runs), func(i int) event.RunID { return runs[i].Run }, func(p *partition, i int) {
		answers[i], _ = p.op.Create(&runs[i]) // a Tx in memory does not fail
		p.announce()
	})
	return answers, nil
}

// routed checks that the run will be in the partition in which its workflow id
// is decided: two partitions cannot keep one workflow id unique.
func (s *Store) routed(c *store.Create) error {
	n := len(s.parts)
	if c.RerunOf != "" && int(c.Run.Slot())%n != int(c.RerunOf.Slot())%n {
		return fmt.Errorf("create run %s: it is not in the partition of run %s, which it is tried again for", c.Run, c.RerunOf)
	}
	if n == 1 || c.WorkflowID == "" {
		return nil
	}
	if int(c.Run.Slot())%n != int(event.SlotOf(c.WorkflowID))%n {
		return fmt.Errorf("create run %s: its slot is not that of workflow id %q", c.Run, c.WorkflowID)
	}
	return nil
}

// insert stores the log and what is known of the run, in no queue state yet.
func (p *partition) insert(c *store.Create, chain event.RunID, createdBy event.ItemID, created int64) *run {
	r := &run{
		id: c.Run, chain: chain, wid: c.WorkflowID, route: p.route(c.Route), priority: c.Priority,
		frames: [][]byte{c.Frame}, seq: c.Seq, last: c.CommitID,
		status: cmp.Or(c.Status, event.StatusPending), created: created,
	}
	retention := max(c.Retention, 0)
	if retention == store.DefaultRetention {
		retention = 0
	}
	if len(c.Tags) > 0 || c.Parent != "" || c.Root != "" || retention > 0 {
		r.extra = &extra{tags: c.Tags, parent: c.Parent, root: c.Root, retention: retention}
	}
	if createdBy != "" {
		r.links = &links{createdBy: createdBy}
	}
	if len(c.Uses) > 0 || c.Fair != "" {
		r.limited = &limited{uses: c.Uses, whole: c.Whole, fair: c.Fair, share: c.Weight()}
	}
	if chain != c.Run {
		p.chained(chain).later++
	}
	p.add(r)
	return r
}
