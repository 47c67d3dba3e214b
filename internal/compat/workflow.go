package compat

import (
	"maps"
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/internal/manifest"
)

// workflows compares the workflows of both states.
func (c *comparer) workflows() {
	for _, name := range slices.Sorted(maps.Keys(c.old.workflows)) {
		old, now := c.old.workflows[name], c.now.workflows[c.name(name)]
		if now == nil {
			c.reportf(c.now.place, Breaks, "workflow.gone", name, "no workflow has this stored name any more: its runs are not claimed")
			continue
		}
		if c.name(name) != name {
			c.reportf(now.Position, Breaks, "workflow.gone", name, "its stored name is %s now: its runs are not claimed", c.name(name))
		}
		c.workflowTypes(name, old, now)
		c.options(name, old, now)
		c.uses(name, old, now)
		if old.Code == now.Code && old.Shape == now.Shape {
			continue
		}
		o := orders{c: c, subject: name, at: now.Position, unknown: unknownChanges(old.Ops, now.Ops), latest: latest(old.Ops)}
		o.run(old, now)
	}
}

func (c *comparer) workflowTypes(name string, old, now *manifest.Workflow) {
	d := differ{c: c, subject: name, at: now.Position, old: c.old.of[name].Types, now: c.now.of[c.name(name)].Types}
	d.params(old.Params, now.Params, inputs)
	if c.old.called[name] { // The inputs of a called workflow are also arguments of its caller.
		d.params(old.Params, now.Params, arguments)
	}
	if len(old.Scratchpad) > 0 && len(now.Scratchpad) > 0 {
		d.types(old.Scratchpad, now.Scratchpad, "scratchpad", results, true)
	}
	before := len(c.changes)
	switch {
	case len(old.Result) == 0 && len(now.Result) == 0:
	case len(old.Result) == 0 || len(now.Result) == 0:
		c.reportf(now.Position, Care, "workflow.result", name, "a result was added or removed")
	case c.old.called[name]:
		d.types(old.Result, now.Result, "result", results, true)
	default:
		d.types(old.Result, now.Result, "result", messages, true)
	}
	for i := range c.changes[before:] {
		if c.changes[before+i].Row == "declared.type" {
			c.changes[before+i].Row = "workflow.result"
		}
	}
}

// options compares the options that affect existing runs of a workflow.
func (c *comparer) options(name string, old, now *manifest.Workflow) {
	if was, is := old.Policy["batch"], now.Policy["batch"]; (was == "") != (is == "") {
		c.reportf(now.Position, Breaks, "workflow.batch", name, "its input changed between a single input and a list of the inputs of several starts")
	}
	if was, is := children(old), children(now); is > was {
		c.reportf(now.Position, Care, "workflow.children", name, "children= is %d and was %d: a run that continued after a refused child has no record of it", is, was)
	}
}

// children returns the maximum number of concurrent children of a run.
func children(w *manifest.Workflow) int {
	if n, err := strconv.Atoi(w.Policy["children"]); err == nil {
		return n
	}
	return defaultChildren
}

// defaultChildren equals flow.DefaultChildren of the runtime.
const defaultChildren = 10

// uses compares the versions of modules whose functions influence the order of operations of a
// workflow.
func (c *comparer) uses(name string, old, now *manifest.Workflow) {
	for _, module := range slices.Sorted(maps.Keys(old.Uses)) {
		if v, ok := now.Uses[module]; ok && v != old.Uses[module] {
			c.reportf(now.Position, Care, "arg.other", name, "functions of %s decide about operations, and it has version %s now", module, v)
		}
	}
}

// unknownChanges returns the changes that only the new operations declare by calls of Version.
func unknownChanges(old, now []*manifest.Op) map[string]bool {
	unknown := map[string]bool{}
	manifest.Walk(now, func(o *manifest.Op) {
		if o.Op == "version" || o.Op == "guard" {
			unknown[o.Name] = true
		}
	})
	manifest.Walk(old, func(o *manifest.Op) {
		if o.Op == "version" || o.Op == "guard" {
			delete(unknown, o.Name)
		}
	})
	return unknown
}

// latest returns the highest version of each change that runs of the old code can have.
func latest(ops []*manifest.Op) map[string]int {
	versions := map[string]int{}
	manifest.Walk(ops, func(o *manifest.Op) {
		if o.Op == "version" {
			versions[o.Name] = max(versions[o.Name], o.Latest)
		}
	})
	return versions
}

// asBefore returns ops as runs of the old code execute them. Unknown changes have version 0 in
// these runs.
func asBefore(ops []*manifest.Op, unknown map[string]bool) []*manifest.Op {
	var out []*manifest.Op
	for _, o := range ops {
		switch {
		case o.Op == "version" && unknown[o.Name]:
			continue
		case o.Op == "guard" && unknown[o.Name] && len(o.Ways) > 0:
			way := asBefore(o.Ways[0], unknown)
			out = append(out, way...)
			if n := len(way); n > 0 && (way[n-1].Op == "return" || way[n-1].Op == "leave") {
				return out
			}
			continue
		}
		copied := *o
		copied.Body, copied.Else = asBefore(o.Body, unknown), asBefore(o.Else, unknown)
		copied.Ways = nil
		for _, w := range o.Ways {
			copied.Ways = append(copied.Ways, asBefore(w, unknown))
		}
		out = append(out, &copied)
	}
	return out
}

// sameWay reports whether two branches of a guard contain the same operations.
func sameWay(a, b []*manifest.Op) bool {
	return len(a)+len(b) == 0 || manifest.Fingerprint(a) == manifest.Fingerprint(b)
}
