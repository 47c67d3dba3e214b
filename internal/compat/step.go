package compat

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// steps compares the parts of steps that are recorded in logs.
func (c *comparer) steps() {
	for _, name := range slices.Sorted(maps.Keys(c.old.steps)) {
		old, now := c.old.steps[name], c.now.steps[c.name(name)]
		called := c.old.called[name]
		switch {
		case now == nil:
			c.stepGone(name, called)
		case c.name(name) != name:
			c.stepRenamed(name, now, called)
		}
		if now == nil {
			continue
		}
		d := differ{c: c, subject: name, at: now.Position, old: c.old.of[name].Types, now: c.now.of[c.name(name)].Types, uncalled: !called}
		d.params(old.Params, now.Params, arguments)
		d.result(old.Result, now.Result)
		c.stepKey(name, old, now, called)
		c.stepRun(name, old, now)
	}
}

// ifCalled returns the class of a change of a step or child. The class is lower if called is false.
// Then no workflow of these packages calls the step, or some runs do not reach the step in its
// machine or graph.
func ifCalled(class Class, called bool) Class {
	if !called && class == Breaks {
		return Care
	}
	return class
}

func (c *comparer) stepGone(name string, called bool) {
	at := c.now.place
	if called || c.old.perhaps[name] {
		c.reportf(at, ifCalled(Breaks, called), "step.gone", name, "no step has this stored name any more, but workflows called it")
	}
}

func (c *comparer) stepRenamed(name string, now *manifest.Step, called bool) {
	c.reportf(now.Position, ifCalled(Breaks, called), "step.gone", name, "its stored name is %s now", c.name(name))
}

func (c *comparer) stepKey(name string, old, now *manifest.Step, called bool) {
	switch {
	case old.Key == now.Key:
	case old.Key == "" || now.Key == "":
		c.reportf(now.Position, ifCalled(Breaks, called), "key.declared", name, "key=%s is now key=%s", orNone(old.Key), orNone(now.Key))
	default:
		c.reportf(now.Position, Care, "key.text", name, "key=%s is now key=%s, which may be another text", old.Key, now.Key)
	}
}

// stepRun reports a step that executes in its own run in only one of the two states. A queue or a
// limit causes a step to have its own run.
func (c *comparer) stepRun(name string, old, now *manifest.Step) {
	if ownRun(old) == ownRun(now) {
		return
	}
	row := "uses.run"
	if old.Queue != now.Queue {
		row = "queue.run"
	}
	c.reportf(now.Position, Safe, row, name, "%s is now %s: new calls are executed so", runOptions(old), runOptions(now))
}

func ownRun(s *manifest.Step) bool { return s.Queue != "" || len(s.Uses) > 0 }

// runOptions returns the options of a directive that cause a step to have its own run, in source
// form.
func runOptions(s *manifest.Step) string {
	var all []string
	if s.Queue != "" {
		all = append(all, "queue="+s.Queue)
	}
	if len(s.Uses) > 0 {
		all = append(all, "uses="+strings.Join(s.Uses, ","))
	}
	return cmp.Or(strings.Join(all, " "), "no queue= or uses=")
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
