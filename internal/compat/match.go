package compat

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// renamed returns the old operations with the current names of renamed items. Another function
// reports the renaming.
func (o *orders) renamed(ops []*manifest.Op) []*manifest.Op {
	if len(o.c.renamed) == 0 {
		return ops
	}
	var pairs []string
	for _, old := range slices.Sorted(maps.Keys(o.c.renamed)) {
		pairs = append(pairs, old+"#", o.c.renamed[old]+"#")
		if strings.Contains(old, " ") { // The names of topics and other declarations also occur without their kind.
			pairs = append(pairs, old, o.c.renamed[old])
		}
	}
	r := strings.NewReplacer(pairs...)
	var by func(ops []*manifest.Op) []*manifest.Op
	by = func(ops []*manifest.Op) []*manifest.Op {
		out := make([]*manifest.Op, len(ops))
		for i, op := range ops {
			c := *op
			c.Name, c.Text, c.Limit = r.Replace(o.c.name(op.Name)), r.Replace(op.Text), r.Replace(op.Limit)
			c.Args = slices.Clone(op.Args)
			for j := range c.Args {
				c.Args[j] = r.Replace(c.Args[j])
			}
			c.Body, c.Else, c.Ways = by(op.Body), by(op.Else), nil
			for _, w := range op.Ways {
				c.Ways = append(c.Ways, by(w))
			}
			out[i] = &c
		}
		return out
	}
	return by(ops)
}

// renamedHelpers returns the old operations with the current names of renamed helpers. It considers
// a helper renamed if a new helper has the same code.
func renamedHelpers(old, now *manifest.Workflow) []*manifest.Op {
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(old.Decides)) {
		if now.Decides[name] != "" {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(now.Decides)) {
			if old.Decides[other] == "" && old.Decides[name] == now.Decides[other] {
				names[name] = other
			}
		}
	}
	if len(names) == 0 {
		return old.Ops
	}
	var alternatives []string
	for name := range names {
		alternatives = append(alternatives, regexp.QuoteMeta(name))
	}
	pattern := regexp.MustCompile(`\b(?:` + strings.Join(alternatives, "|") + `)\b`)
	return rewritten(old.Ops, func(s string) string {
		return pattern.ReplaceAllStringFunc(s, func(name string) string { return names[name] })
	})
}

// rewritten returns a copy of ops in which all expressions were replaced by means of by.
func rewritten(ops []*manifest.Op, by func(string) string) []*manifest.Op {
	out := make([]*manifest.Op, len(ops))
	for i, op := range ops {
		c := *op
		c.Key, c.Queue, c.Text, c.Limit, c.Least = by(op.Key), by(op.Queue), by(op.Text), by(op.Limit), by(op.Least)
		c.Args = slices.Clone(op.Args)
		for j := range c.Args {
			c.Args[j] = by(c.Args[j])
		}
		c.Body, c.Else, c.Ways = rewritten(op.Body, by), rewritten(op.Else, by), nil
		for _, w := range op.Ways {
			c.Ways = append(c.Ways, rewritten(w, by))
		}
		out[i] = &c
	}
	return out
}

// deciding lists the kinds of ops that are not operations themselves but determine which operations
// are executed.
var deciding = map[string]bool{"if": true, "loop": true, "switch": true, "case": true, "let": true, "do": true, "return": true, "leave": true, "defer": true}

// alike reports whether b can be the new version of a. Arguments and conditions may differ.
func alike(a, b *manifest.Op) bool {
	if a.Op != b.Op {
		return false
	}
	if !deciding[a.Op] {
		return a.Name == b.Name || a.Op == "map" || a.Op == "draw"
	}
	if a.Text == b.Text && a.Name == b.Name && a.Op != "defer" {
		return true
	}
	names := namesIn(a)
	return len(names) > 0 && slices.Equal(names, namesIn(b))
}

// namesIn returns the sorted names of the operations within o.
func namesIn(o *manifest.Op) []string {
	var names []string
	for _, b := range o.Blocks() {
		manifest.Walk(b, func(inner *manifest.Op) {
			if !deciding[inner.Op] {
				names = append(names, inner.Op+" "+inner.Name)
			}
		})
	}
	slices.Sort(names)
	return names
}

// matched returns for each element of a the index of its partner in b, or -1. The partners form a
// longest common subsequence.
func matched(a, b []*manifest.Op) []int {
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	weight := func(i, j int) int {
		switch {
		case !alike(a[i], b[j]):
			return 0
		case deciding[a[i].Op]:
			return 1
		}
		return 4 // Matching operations has priority over matching control flow.
	}
	for i := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			if w := weight(i, j); w > 0 {
				lengths[i][j] = max(lengths[i][j], lengths[i+1][j+1]+w)
			}
		}
	}
	partners := make([]int, len(a))
	j := 0
	for i := range a {
		partners[i] = -1
		for k := j; k < len(b); k++ {
			if lengths[i][j] != lengths[i][k] {
				break
			}
			if w := weight(i, k); w > 0 && lengths[i][k] == lengths[i+1][k+1]+w {
				partners[i] = k
				j = k + 1
				break
			}
		}
	}
	return partners
}
