package memstore

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// gathers contains the runs that collect starts, and the starts that have joined them.
type gathers struct {
	runs   map[string]*run // by key
	joined map[event.RunID]event.RunID
	order  []joinedStart // the same as they came
}

type joinedStart struct {
	start event.RunID
	at    int64
}

func newGathers() gathers {
	return gathers{runs: map[string]*run{}, joined: map[event.RunID]event.RunID{}}
}

// setGather makes a run collect the starts of a key; an empty key ends that.
func (p *partition) setGather(r *run, key string) {
	e := r.rare()
	if e.gather != "" {
		delete(p.gathers.runs, e.gather)
	}
	if e.gather = key; key != "" {
		p.gathers.runs[key] = r
	}
}

// Gathering returns the run that collects the starts of a key.
func (p *partition) Gathering(key string) (*run, error) { return p.gathers.runs[key], nil }

// Joined returns the run that a start has joined.
func (p *partition) Joined(start event.RunID) (event.RunID, error) {
	return p.gathers.joined[start], nil
}

// Join records it, and forgets two of those that are older than anybody sends again: it
// takes as long to forget as to remember.
func (p *partition) Join(start event.RunID, r *run, at int64) error {
	g := &p.gathers
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

func (p *partition) inspectGathering(snap *store.Snapshot) {
	for key, r := range p.gathers.runs {
		snap.Gathering[key] = r.id
	}
}
