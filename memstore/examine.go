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

// examination implements [store.Examination]: a partition as of one moment. Damage in
// memory is a defect of the program; the same checks and repairs as in the other stores
// find and repair it.
type examination struct {
	s     *Store
	p     *partition
	snap  *store.Snapshot
	flaws []store.Flaw
}

// ExaminePartition returns a copy of everything that a partition holds.
func (s *Store) ExaminePartition(ctx context.Context, partition int) (store.Examination, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("examine partition %d: %w", partition, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &examination{s: s, p: p, snap: newSnapshot(s.clock.Now())}
	p.inspectRuns(e.snap)
	p.inspectSeen(e.snap)
	p.inspectStreams(e.snap)
	p.inspectOutbox(e.snap)
	p.inspectNames(e.snap)
	p.inspectWork(e.snap)
	p.inspectSessions(e.snap)
	e.flaws = p.flaws()
	return e, nil
}

// Snapshot returns the state of the partition.
func (e *examination) Snapshot() *store.Snapshot { return e.snap }

// Partial returns false: everything is read at once.
func (e *examination) Partial() bool { return false }

// Flaws returns the wrong counts, which a snapshot does not show.
func (e *examination) Flaws() []store.Flaw { return e.flaws }

const (
	flawClass = "class:"
	flawChain = "chain:"
)

// flaws compares the stored counts with the contents of the partition.
func (p *partition) flaws() []store.Flaw {
	var all []store.Flaw
	ofClass, ofChain := p.recount()
	for known, c := range p.classes {
		if c.runs != ofClass[c] {
			all = append(all, store.Flaw{
				Invariant: 16, What: fmt.Sprintf("class %v counts %d runs and has %d", known, c.runs, ofClass[c]),
				Explain: "it is forgotten too early, or never", Mend: "count them again", Key: flawClass + known.Queue + "\x00" + known.Workflow,
			})
		}
	}
	all = append(all, p.flawsOfChains(ofChain)...)
	purged := map[*run]bool{}
	for _, t := range p.purges {
		purged[t.run] = true
	}
	for _, r := range p.runs {
		if listed := purged[r]; r.place == store.PlaceEnded && listed == p.needed(r) {
			all = append(all, store.Flaw{
				Invariant: 8, Run: r.id, What: fmt.Sprintf("it is to be purged: %t, and something holds it back: %t", listed, p.needed(r)),
				Explain: "it is forgotten too early, or never",
			})
		}
	}
	slices.SortFunc(all, func(a, b store.Flaw) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Run, b.Run)) })
	return all
}

// flawsOfChains compares what is known of chains with their runs.
func (p *partition) flawsOfChains(ofChain map[event.RunID]int) []store.Flaw {
	var all []store.Flaw
	tips := p.tips()
	for id, n := range ofChain {
		c := p.chains[id]
		if c == nil {
			c = &chain{}
		}
		f := store.Flaw{Explain: "what it has accepted is forgotten too early, or never", Mend: "look for its runs again", Key: flawChain + string(id)}
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

// recount returns how many runs each class and, but for its first, each chain has.
func (p *partition) recount() (ofClass map[*class]int, ofChain map[event.RunID]int) {
	ofClass, ofChain = map[*class]int{}, map[event.RunID]int{}
	for chain := range p.chains {
		ofChain[chain] = 0
	}
	for _, r := range p.runs {
		ofClass[r.class]++
		if r.chain != r.id {
			ofChain[r.chain]++
		}
	}
	return ofClass, ofChain
}

// MendFlaw counts again.
func (e *examination) MendFlaw(ctx context.Context, f store.Flaw) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("repair %s: %w", f.What, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.flaws(), f) {
		return false, nil
	}
	ofClass, ofChain := p.recount()
	if name, ok := strings.CutPrefix(f.Key, flawClass); ok {
		queue, workflow, _ := strings.Cut(name, "\x00")
		c := p.classes[store.Class{Queue: queue, Workflow: workflow}]
		c.runs = ofClass[c]
		p.tidy(c)
		return true, nil
	}
	p.regroup(event.RunID(strings.TrimPrefix(f.Key, flawChain)), ofChain)
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
