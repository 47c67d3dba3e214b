package memstore

import (
	"context"
	"fmt"
	"slices"

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

// routed checks that the run will be in the partition of its workflow ID. A workflow ID can be
// unique only within a partition.
func (s *Store) routed(c *store.Create) error {
	n := len(s.parts)
	if c.RerunOf != "" && int(c.Run.Slot())%n != int(c.RerunOf.Slot())%n {
		return fmt.Errorf("create run %s: it is not in the partition of run %s, which it retries", c.Run, c.RerunOf)
	}
	if n == 1 || c.WorkflowID == "" {
		return nil
	}
	if int(c.Run.Slot())%n != int(event.SlotOf(c.WorkflowID))%n {
		return fmt.Errorf("create run %s: its slot is not that of workflow id %q", c.Run, c.WorkflowID)
	}
	return nil
}

// collectors contains the runs that collect starts, and the starts that have joined runs.
type collectors struct {
	runs   map[string]*run // runs by key
	joined map[event.RunID]event.RunID
	order  []joinedStart // the same starts as in joined, in order of arrival
}

type joinedStart struct {
	start event.RunID
	at    int64
}

func newCollectors() collectors {
	return collectors{runs: map[string]*run{}, joined: map[event.RunID]event.RunID{}}
}

// setCollect makes a run collect the starts of a key. An empty key ends the collection.
func (p *partition) setCollect(r *run, key string) {
	e := r.rare()
	if e.collect != "" {
		delete(p.collectors.runs, e.collect)
	}
	if e.collect = key; key != "" {
		p.collectors.runs[key] = r
	}
}

// Collecting returns the run that collects the starts of a key.
func (p *partition) Collecting(key string) (*run, error) { return p.collectors.runs[key], nil }

// Joined returns the run that a start has joined.
func (p *partition) Joined(start event.RunID) (event.RunID, error) {
	return p.collectors.joined[start], nil
}

// Join records that a start has joined a run. It also removes up to two entries whose starts are
// too old to be repeated. So each call takes a bounded time.
func (p *partition) Join(start event.RunID, r *run, at int64) error {
	g := &p.collectors
	g.joined[start] = r.id
	g.order = append(g.order, joinedStart{start, at})
	for range 2 {
		if g.order[0].at > at-store.Horizon.Milliseconds() {
			break
		}
		delete(g.joined, g.order[0].start)
		g.order = g.order[1:]
	}
	return nil
}

// ReplaceItem replaces the first item of the inbox. It copies the array, because readers may share
// it.
func (p *partition) ReplaceItem(r *run, item store.Item) error {
	r.inbox = slices.Clone(r.inbox)
	r.inbox[0] = item
	return nil
}

func (p *partition) inspectCollecting(snap *store.Snapshot) {
	for key, r := range p.collectors.runs {
		snap.Collecting[key] = r.id
	}
}
