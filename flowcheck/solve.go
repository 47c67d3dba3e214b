package flowcheck

import (
	"cmp"
	"slices"
)

// A graph has the functions of a package, with their own effects and calls.
type graph[F comparable] struct {
	name   func(F) string
	direct map[F][]Effect // with an empty Path
	calls  map[F][]arc[F]
}

// An arc is a call. Effects of rules for which cut is true do not pass it.
type arc[F comparable] struct {
	to  F
	cut func(Rule) bool // nil: all pass
}

// solve returns the effects of each function that it or what it calls has: for each rule
// the shortest way, ties by text.
//
// It relaxes reversed calls from a work list until nothing gets shorter. Since an effect
// comes only from a smaller one, by an order that is well founded, this ends, in cycles of
// calls too, and the order of functions and calls does not matter.
func (g graph[F]) solve(imported func(F) []Effect) map[F][]Effect {
	type item struct {
		f    F
		rule Rule
	}
	best := make(map[item]Effect)
	var work []item
	relax := func(at item, e Effect) {
		if old, ok := best[at]; !ok || e.less(old) {
			best[at] = e
			work = append(work, at)
		}
	}
	callers := make(map[F][]caller[F])
	for f, edges := range g.calls {
		for _, e := range edges {
			callers[e.to] = append(callers[e.to], caller[F]{f, e.cut})
		}
	}
	for f, effects := range g.direct {
		for _, e := range effects {
			relax(item{f, e.Rule}, e.via(g.name(f)))
		}
	}
	for f := range callers {
		for _, e := range imported(f) {
			relax(item{f, e.Rule}, e)
		}
	}
	for i := 0; i < len(work); i++ { //nolint:intrange // it grows: first in, first out, so that ways grow about evenly
		at := work[i]
		for _, c := range callers[at.f] {
			if c.cut == nil || !c.cut(at.rule) {
				relax(item{c.f, at.rule}, best[at].via(g.name(c.f)))
			}
		}
	}
	effects := make(map[F][]Effect)
	for at, e := range best {
		effects[at.f] = append(effects[at.f], e)
	}
	for f := range effects {
		slices.SortFunc(effects[f], func(a, b Effect) int { return cmp.Compare(a.Rule, b.Rule) })
	}
	return effects
}

// caller is the reverse of an arc.
type caller[F comparable] struct {
	f   F
	cut func(Rule) bool
}
