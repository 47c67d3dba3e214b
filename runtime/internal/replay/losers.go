package replay

import "slices"

// losers lists the messages that were taken by branches that had lost a race. Code that calls First
// in a loop and opens a new receive each time loses messages this way, and observes only an endless
// wait.
type losers struct{ all []loser }

type loser struct {
	makes *Promise
	text  string
}

// WatchLosers makes the run record what losers of races take. It reads the stack each time, so it
// is for tests.
func (r *Run) WatchLosers() {
	if r.losers == nil {
		r.losers = &losers{}
	}
}

// Losers describes what was taken by branches that had lost a race and whose results were not
// awaited since. It contains each text once.
func (r *Run) Losers() []string {
	if r.losers == nil {
		return nil
	}
	var all []string
	for _, l := range r.losers.all {
		if l.makes.lost && !slices.Contains(all, l.text) {
			all = append(all, l.text)
		}
	}
	return all
}

// Makes records that the branch resolves a promise.
func (b *Branch) Makes(p *Promise) { b.makes, p.maker = p, b }

// takes records that the branch has taken something.
func (b *Branch) takes(what, name string) {
	if l := b.run.losers; l != nil && b.makes != nil && b.makes.lost {
		l.all = append(l.all, loser{b.makes, what + name + " at " + here()})
	}
}
