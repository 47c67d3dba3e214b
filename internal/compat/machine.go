package compat

import "github.com/flowgen/flowgen/internal/manifest"

// byName returns ops indexed by name.
func byName(ops []*manifest.Op) map[string]*manifest.Op {
	all := map[string]*manifest.Op{}
	for _, o := range ops {
		all[o.Name] = o
	}
	return all
}

// machine compares the steps of two versions of a machine. Transitions are recorded, so a run in
// flight continues with the step that the old code chose.
func (o *orders) machine(old, now *manifest.Op) {
	if start := o.c.name(old.Text); start != now.Text {
		o.reportf(now.Position, Breaks, "machine.start", "the machine starts with %s and started with %s", now.Text, start)
	}
	if old.Limit != now.Limit {
		o.reportf(now.Position, Care, "machine.max", "max= is %s and was %s", orNone(now.Limit), orNone(old.Limit))
	}
	states := byName(now.Body)
	for _, was := range old.Body {
		is := states[was.Name]
		if is == nil {
			o.stepMoved(was, was.Name)
			continue
		}
		if caught := o.c.name(was.Text); caught != is.Text {
			o.reportf(is.Position, Care, "machine.catch", "catch= of %s leads to %s and led to %s", is.Name, orNone(is.Text), orNone(caught))
		}
	}
}

// stepMoved reports a step that was removed from a machine or graph although the package contains a
// step with the same stored name. stepGone reports all other removed steps.
func (o *orders) stepMoved(was *manifest.Op, stored string) {
	if o.c.now.steps[stored] != nil {
		o.reportf(o.at, ifCalled(Breaks, was.Always), "step.gone", "%s is no longer a step of the machine", stored)
	}
}
