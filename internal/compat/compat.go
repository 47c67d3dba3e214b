// Package compat compares two manifests and finds the changes that can block runs in flight.
//
// Begin with rows.go, which lists every kind of change with its class. The files step.go, order.go,
// declared.go and workflow.go find the changes. schema.go compares types.
package compat

import (
	"cmp"
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// Class is the effect of a change on runs in flight.
type Class int

// The classes of changes, from harmless to blocking.
const (
	Safe   Class = iota // The change blocks no run.
	Care                // The effect depends on data or on the progress of runs.
	Breaks              // Every run that reaches this point is blocked, is not claimed, or reads empty data.
)

func (c Class) String() string { return [...]string{"safe", "care", "breaks"}[c] }

// MarshalText returns the name of the class.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Change is a difference between the old and the new state.
type Change struct {
	Position token.Position `json:"-"`
	Class    Class          `json:"class"`
	Row      string         `json:"row"`     // ID of a row in Rows
	Subject  string         `json:"subject"` // the stored name of the changed item
	What     string         `json:"what"`
	WayOut   string         `json:"wayOut,omitempty"`
	From     string         `json:"from"` // fingerprints of the subject before and after the change
	To       string         `json:"to"`
}

// Set contains the manifests of several packages by import path.
type Set map[string]*manifest.Manifest

// Compare returns the unsafe changes between two states of the same packages. Changes of one
// subject are ordered from the worst class.
func Compare(old, now Set) []Change {
	c := &comparer{old: indexed(old), now: indexed(now), seen: map[string]bool{}, renamed: map[string]string{}}
	c.findRenamed()
	c.steps()
	c.declarations()
	c.failures()
	c.workflows()
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Class, a.Class))
	})
	return c.changes
}

// Worst returns the worst class in changes.
func Worst(changes []Change) Class {
	worst := Safe
	for _, c := range changes {
		worst = max(worst, c.Class)
	}
	return worst
}

// index contains the items of a set by stored name.
type index struct {
	steps     map[string]*manifest.Step
	workflows map[string]*manifest.Workflow
	declared  map[string]*manifest.Declaration
	errors    map[string]string
	of        map[string]*manifest.Manifest // the manifest that contains the item of a name
	called    map[string]bool               // steps and workflows that other workflows call
	perhaps   map[string]bool               // steps of machines and graphs that some runs do not reach
	used      map[string]bool               // declared names that workflows use
	place     token.Position                // a position in the first package, for changes without a position
}

func indexed(s Set) *index {
	x := &index{
		map[string]*manifest.Step{}, map[string]*manifest.Workflow{}, map[string]*manifest.Declaration{}, map[string]string{},
		map[string]*manifest.Manifest{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, token.Position{},
	}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		m := s[path]
		if x.place.Filename == "" {
			x.place = m.Position
		}
		maps.Copy(x.steps, m.Steps)
		maps.Copy(x.workflows, m.Workflows)
		maps.Copy(x.declared, m.Declared)
		maps.Copy(x.errors, m.Errors)
		for name := range m.Steps {
			x.of[name] = m
		}
		for name := range m.Declared {
			x.of[name] = m
		}
		for name := range m.Errors {
			x.of["error "+name] = m
		}
		for name, w := range m.Workflows {
			x.of[name] = m
			manifest.Walk(w.Ops, func(o *manifest.Op) {
				switch o.Op {
				case "step", "child", "continue":
					x.called[o.Name] = true
				case "state", "node":
					x.perhaps[o.Body[0].Name] = !o.Always
				}
				for _, s := range append([]string{o.Name, o.Text}, o.Args...) {
					x.used[s] = true
				}
			})
		}
	}
	maps.DeleteFunc(x.called, func(name string, _ bool) bool { return x.perhaps[name] })
	return x
}

type comparer struct {
	old, now *index
	renamed  map[string]string // new stored names by old ones, for items with the same Go name
	changes  []Change
	seen     map[string]bool
}

// reportf records a change unless its class is Safe. It records the same text about a subject only
// once.
func (c *comparer) reportf(at token.Position, class Class, row, subject, format string, args ...any) {
	change := Change{Position: at, Class: class, Row: row, Subject: subject, What: fmt.Sprintf(format, args...), WayOut: wayOut(row, class)}
	if change.Position.Filename == "" {
		change.Position = c.now.place
	}
	key := subject + "\n" + row + "\n" + change.What
	if class == Safe || c.seen[key] {
		return
	}
	c.seen[key] = true
	change.From, change.To = c.old.fingerprint(subject), c.now.fingerprint(c.name(subject))
	if old, now := c.old.workflows[subject], c.now.workflows[c.name(subject)]; old != nil && now != nil && old.Shape == now.Shape && old.Code != now.Code {
		change.From, change.To = old.Code, now.Code
	}
	c.changes = append(c.changes, change)
}

// name returns the current stored name of the item with the old stored name.
func (c *comparer) name(old string) string { return cmp.Or(c.renamed[old], old) }

// fingerprint returns a hash of the state of a subject, or "none" if the index does not contain it.
func (x *index) fingerprint(subject string) string {
	m := x.of[subject]
	switch {
	case m == nil:
		return "none"
	case x.workflows[subject] != nil:
		return x.workflows[subject].Shape
	case x.steps[subject] != nil:
		return manifest.Fingerprint([]any{x.steps[subject].Params, x.steps[subject].Result, x.steps[subject].Key, x.steps[subject].Queue, x.steps[subject].Uses, m.Types})
	case x.declared[subject] != nil:
		return manifest.Fingerprint([]any{x.declared[subject].Schema, x.declared[subject].Answer, m.Types})
	}
	return manifest.Fingerprint([]any{subject, x.errors[strings.TrimPrefix(subject, "error ")], m.Types})
}

// findRenamed finds items that have the same Go name but different stored names.
func (c *comparer) findRenamed() {
	goNames := func(x *index) map[string]string {
		all := map[string]string{}
		for name, s := range x.steps {
			all["step "+x.of[name].Package+"."+s.Go] = name
		}
		for name, w := range x.workflows {
			all["workflow "+x.of[name].Package+"."+w.Go] = name
		}
		for name, d := range x.declared {
			kind, _, _ := strings.Cut(name, " ")
			all[kind+" "+x.of[name].Package+"."+d.Go] = name
		}
		return all
	}
	now := goNames(c.now)
	for key, old := range goNames(c.old) {
		if name, ok := now[key]; ok && name != old && c.now.of[old] == nil && c.old.of[name] == nil {
			c.renamed[old] = name
		}
	}
}
