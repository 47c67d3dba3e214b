package compat

import (
	"maps"
	"slices"
	"strings"
)

// declarations compares the declared topics, hooks, values, streams and asks of both states.
func (c *comparer) declarations() {
	for _, name := range slices.Sorted(maps.Keys(c.old.declared)) {
		old, now := c.old.declared[name], c.now.declared[c.name(name)]
		switch {
		case now == nil:
			c.reportf(c.now.place, c.ifUsed(name), "declared.renamed", name, "it is no longer declared")
			continue
		case c.name(name) != name:
			c.reportf(now.Position, c.ifUsed(name), "declared.renamed", name, "it is now named %q", c.name(name))
		}
		d := differ{c: c, subject: name, at: now.Position, old: c.old.of[name].Types, now: c.now.of[c.name(name)].Types}
		d.types(old.Schema, now.Schema, "payload", messages, true)
		if len(old.Answer) > 0 && len(now.Answer) > 0 {
			d.types(old.Answer, now.Answer, "answer", messages, true)
		}
	}
}

// ifUsed returns the class of the removal of a declared name. It is Care if no workflow of these
// packages uses the name, because other packages may use it.
func (c *comparer) ifUsed(name string) Class {
	if c.old.used[name] && !strings.HasPrefix(name, "ask ") { // An ask handler records nothing before an ask arrives.
		return Breaks
	}
	return Care
}

// failures compares the errors that callers can match by stored name.
func (c *comparer) failures() {
	for _, name := range slices.Sorted(maps.Keys(c.old.errors)) {
		old := c.old.errors[name]
		now, ok := c.now.errors[name]
		switch {
		case !ok:
			c.reportf(c.now.place, Care, "error", "error "+name, "no error has this stored name any more: recorded errors no longer match it")
		case old != now:
			c.reportf(c.now.place, Care, "error", "error "+name, "its type changed")
		default:
			d := differ{c: c, subject: "error " + name, at: c.now.place, old: c.old.of["error "+name].Types, now: c.now.of["error "+name].Types}
			d.types([]byte(old), []byte(now), "error", messages, true)
		}
	}
}
