package model

import (
	"fmt"
	"go/types"
	"slices"
)

// crosswise reports a possible deadlock of two workflows: the first holds limit A while one of its
// steps waits for limit B, and the second holds B while one of its steps waits for A. Steps do not
// wait for limits that their workflow holds. crosswise examines only steps of this package, and not
// the steps of child workflows.
func (b *builder) crosswise() {
	var g *graph
	at := map[[2]types.Object]*Workflow{} // by pair of limits: the first workflow that holds the first and waits for the second
	for _, w := range b.model.Workflows {
		if len(w.Uses) == 0 {
			continue
		}
		if g == nil {
			g = b.dependencies()
		}
		for _, inner := range b.waitedFor(g, w) {
			for _, outer := range w.Uses {
				if b.placeOf(outer.Limit) == keptByWorker {
					continue // a local limit is not held while the workflow waits
				}
				pair := [2]types.Object{outer.Limit, inner}
				if at[pair] != nil {
					continue
				}
				at[pair] = w
				if other := at[[2]types.Object{inner, outer.Limit}]; other != nil {
					b.report(w.Directive.At("uses"), fmt.Sprintf("%s holds %s while it waits for %s, and %s holds %s while it waits for %s: both may wait for ever",
						w.title(), outer.Limit.Name(), inner.Name(), other.title(), inner.Name(), outer.Limit.Name()),
						fmt.Sprintf("let one of them use both: uses=%s,%s", outer.Limit.Name(), inner.Name()))
				}
			}
		}
	}
}

// waitedFor returns the limits for which workflow w waits in its steps. These are the steps that w
// calls directly or through other functions, or the steps of its graph or machine. waitedFor omits
// the limits that w holds.
func (b *builder) waitedFor(g *graph, w *Workflow) (all []types.Object) {
	note := func(step *Step) {
		for _, u := range step.Uses {
			if !slices.Contains(all, u.Limit) && !slices.ContainsFunc(w.Uses, func(held Use) bool { return held.Limit == u.Limit }) {
				all = append(all, u.Limit)
			}
		}
	}
	if w.Graph != nil {
		for _, n := range w.Graph.steps {
			note(n.Step)
		}
		return all
	}
	if w.Machine != nil {
		for _, s := range w.Machine.Steps {
			note(s)
		}
		return all
	}
	steps := map[types.Object]*Step{}
	for _, s := range b.model.Steps {
		if s.Receiver == nil && s.Machine == nil {
			steps[b.Types.Scope().Lookup(s.GoName)] = s
		}
	}
	seen := map[types.Object]bool{}
	for queue := []types.Object{b.Info.Defs[w.decl.Name]}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g.edges[queue[0]] {
			if _, isFunc := next.(*types.Func); !isFunc || seen[next] {
				continue
			}
			seen[next] = true
			step := steps[next]
			if step == nil {
				queue = append(queue, next)
				continue
			}
			note(step)
		}
	}
	return all
}
