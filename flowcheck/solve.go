package flowcheck

import (
	"cmp"
	"slices"
)

// A graph contains the functions of a package with their direct effects and their calls.
type graph[F comparable] struct {
	name   func(F) string
	direct map[F][]Effect // direct effects, with an empty Path
	calls  map[F][]arc[F]
}

// An arc is a call of a function. Effects of rules for which cut returns true do not propagate from
// the called function to the caller.
type arc[F comparable] struct {
	to  F
	cut func(Rule) bool // nil if all effects propagate
}

// solve returns the direct and inherited effects of each function. For each rule it keeps only the
// effect with the shortest path. If several paths are equally short, it keeps the first one in text
// order.
//
// It relaxes reversed calls from a work list until no path becomes shorter. An effect is derived
// only from a smaller effect in a well-founded order. Therefore solve terminates even for recursive
// functions, and the result does not depend on the order of functions and calls.
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

// caller is a caller of a function, which is the start of an arc.
type caller[F comparable] struct {
	f   F
	cut func(Rule) bool
}
