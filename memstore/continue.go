package memstore

import "github.com/flowgen/flowgen/runtime/event"

// chain records a run that has continued, and the runs that it continued as.
type chain struct {
	later  int  // how many runs but the first one are kept
	latest *run // the last run; nil: it was purged
}

// chained returns what is known of a chain of more than one run.
func (p *partition) chained(first event.RunID) *chain {
	if p.chains[first] == nil {
		p.chains[first] = &chain{}
	}
	return p.chains[first]
}
