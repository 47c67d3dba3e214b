package memstore

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// chain is what a partition knows of a run that has continued, and of the runs
// that it continued as.
type chain struct {
	later int  // how many runs but the first one are kept
	tip   *run // the last run; nil: it was purged
}

// tip returns the last run of a run's chain; if that is gone, the run itself
// answers for the chain.
func (p *partition) tip(r *run) *run {
	if c := p.chains[r.chain]; c != nil && c.tip != nil && !c.tip.hidden {
		return c.tip
	}
	return r
}

// continuable checks that a commit that continues a run says as what, and that
// both will be in one partition.
func (s *Store) continuable(c *store.Commit) error {
	switch {
	case c.Effect != store.EffectContinue:
		return nil
	case c.Continue == nil:
		return fmt.Errorf("continue run %s: there is no new run", c.Run)
	case s.partitionOf(c.Run) != s.partitionOf(c.Continue.Run):
		return fmt.Errorf("continue run %s as run %s: their slots are not of one partition", c.Run, c.Continue.Run)
	case c.WorkflowID != c.Continue.WorkflowID:
		return fmt.Errorf("continue run %s as run %s: workflow id %q becomes %q", c.Run, c.Continue.Run, c.WorkflowID, c.Continue.WorkflowID)
	}
	return nil
}

// refuseContinue is the guards that only a commit has that continues its run.
func (p *partition) refuseContinue(r *run, c *store.Commit) error {
	for i := range r.inbox[max(c.Consume, 0):] {
		if r.inbox[max(c.Consume, 0)+i].Scope == store.ScopeRun {
			return store.ErrMail
		}
	}
	if r.wid != "" && p.name(r.wid).active != r {
		return r.conflict(c, "it is not the active run of its workflow id")
	}
	if p.runs[c.Continue.Run] != nil {
		return r.conflict(c, "the run that it continues as exists")
	}
	return nil
}

// goOn puts a new run into the place of an old one.
func (p *partition) goOn(old *run, c *store.Create) {
	inbox := old.inbox
	chained := p.chains[old.chain]
	if chained == nil {
		chained = &chain{}
		p.chains[old.chain] = chained
	}
	as := *c
	as.Birth = "" // it is no relay that creates it
	r := p.insert(&as)
	r.chain, r.inbox = old.chain, inbox
	chained.later++
	chained.tip = r
	old.linked().next = r.id
	p.retire(old)
	if r.wid != "" {
		p.name(r.wid).active = r
	}
	p.makeReady(r)
}

// forgetChain forgets that a run belonged to a chain, with the first run what the
// chain has accepted. When the first run is purged, it is the last.
func (p *partition) forgetChain(r *run) {
	p.tellStreams(r.chain)
	if r.chain == r.id {
		delete(p.seen, r.id)
		delete(p.kept, r.id)
		delete(p.streams, r.id)
		return
	}
	c := p.chains[r.chain]
	if c.tip == r {
		c.tip = nil
	}
	if c.later--; c.later > 0 {
		return
	}
	delete(p.chains, r.chain)
	p.schedule(p.runs[r.chain])
}
