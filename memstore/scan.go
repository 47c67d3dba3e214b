package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// partitionScan implements [store.Scan]: a partition as of one moment. Damage in
// memory is a defect of the program; the same checks and repairs as in the other stores
// find and repair it.
type partitionScan struct {
	s       *Store
	p       *partition
	snap    *store.Snapshot
	defects []store.Defect
}

// ScanPartition returns a copy of everything that a partition holds.
func (s *Store) ScanPartition(ctx context.Context, partition int) (store.Scan, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("examine partition %d: %w", partition, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &partitionScan{s: s, p: p, snap: newSnapshot(s.clock.Now())}
	p.inspectRuns(e.snap)
	p.inspectSeen(e.snap)
	p.inspectStreams(e.snap)
	p.inspectOutbox(e.snap)
	p.inspectNames(e.snap)
	p.inspectWork(e.snap)
	p.inspectSessions(e.snap)
	e.defects = p.defects()
	return e, nil
}

// Snapshot returns the state of the partition.
func (e *partitionScan) Snapshot() *store.Snapshot { return e.snap }

// Partial returns false: everything is read at once.
func (e *partitionScan) Partial() bool { return false }

// Defects returns the wrong counts, which a snapshot does not show.
func (e *partitionScan) Defects() []store.Defect { return e.defects }

const (
	defectOfRoute = "route:"
	defectOfChain = "chain:"
)

// defects compares the stored counts with the contents of the partition.
func (p *partition) defects() []store.Defect {
	var all []store.Defect
	ofRoute, ofChain := p.recount()
	for known, c := range p.routes {
		if c.runs != ofRoute[c] {
			all = append(all, store.Defect{
				Invariant: 16, What: fmt.Sprintf("route %v counts %d runs and has %d", known, c.runs, ofRoute[c]),
				Explain: "it is forgotten too early, or never", Repair: "count them again", Key: defectOfRoute + known.Queue + "\x00" + known.Workflow,
			})
		}
	}
	all = append(all, p.defectsOfChains(ofChain)...)
	purged := map[*run]bool{}
	for _, t := range p.purges {
		purged[t.run] = true
	}
	for _, r := range p.runs {
		if listed := purged[r]; r.place == store.StateEnded && listed == p.needed(r) {
			all = append(all, store.Defect{
				Invariant: 8, Run: r.id, What: fmt.Sprintf("it is to be purged: %t, and something holds it back: %t", listed, p.needed(r)),
				Explain: "it is forgotten too early, or never",
			})
		}
	}
	slices.SortFunc(all, func(a, b store.Defect) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Run, b.Run)) })
	return all
}

// defectsOfChains compares what is known of chains with their runs.
func (p *partition) defectsOfChains(ofChain map[event.RunID]int) []store.Defect {
	var all []store.Defect
	tips := p.tips()
	for id, n := range ofChain {
		c := p.chains[id]
		if c == nil {
			c = &chain{}
		}
		f := store.Defect{Explain: "what it has accepted is forgotten too early, or never", Repair: "look for its runs again", Key: defectOfChain + string(id)}
		switch last := tips[id]; {
		case c.later != n:
			f.Invariant, f.What = 16, fmt.Sprintf("the chain of %s counts %d later runs and has %d", id, c.later, n)
		case c.tip != last:
			f.Invariant, f.What, f.Explain = 11, fmt.Sprintf("the chain of %s does not know its last run", id), "items for the chain go astray"
		default:
			continue
		}
		all = append(all, f)
	}
	return all
}

// recount returns how many runs each route and, but for its first, each chain has.
func (p *partition) recount() (ofRoute map[*route]int, ofChain map[event.RunID]int) {
	ofRoute, ofChain = map[*route]int{}, map[event.RunID]int{}
	for chain := range p.chains {
		ofChain[chain] = 0
	}
	for _, r := range p.runs {
		ofRoute[r.route]++
		if r.chain != r.id {
			ofChain[r.chain]++
		}
	}
	return ofRoute, ofChain
}

// RepairDefect counts again.
func (e *partitionScan) RepairDefect(ctx context.Context, f store.Defect) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("repair %s: %w", f.What, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.defects(), f) {
		return false, nil
	}
	ofRoute, ofChain := p.recount()
	if name, ok := strings.CutPrefix(f.Key, defectOfRoute); ok {
		queue, workflow, _ := strings.Cut(name, "\x00")
		c := p.routes[store.Route{Queue: queue, Workflow: workflow}]
		c.runs = ofRoute[c]
		p.tidy(c)
		return true, nil
	}
	p.regroup(event.RunID(strings.TrimPrefix(f.Key, defectOfChain)), ofChain)
	return true, nil
}

// regroup makes what is known of a chain again.
func (p *partition) regroup(id event.RunID, ofChain map[event.RunID]int) {
	delete(p.chains, id)
	if n := ofChain[id]; n > 0 {
		p.chains[id] = &chain{later: n, tip: p.tips()[id]}
	}
	if head := p.runs[id]; head != nil {
		p.reschedule(head)
	}
}
