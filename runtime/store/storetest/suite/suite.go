// Package suite contains the parts that all conformance tests of package storetest share: a harness
// with the store under test, a virtual clock, IDs, logs of runs, and requests that the behaviours
// of several packages make.
package suite

import (
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

// Config configures the suite for the store under test.
type Config struct {
	// Open returns an empty store that reads all times from clock. The suite closes the store. Open
	// is required.
	Open func(t testing.TB, clock store.Clock) store.Store
	// Reopen opens a store with the data of s, which is closed. It is nil if the store keeps no
	// data after Close.
	Reopen func(t testing.TB, s store.Store, clock store.Clock) store.Store
	// Checks is the number of random histories; 0 means 100. The flag -rapid.checks overrides it.
	// The flags -rapid.seed and -rapid.steps have their usual meaning.
	Checks int
}

// Behavior is a rule for stores, named as a sentence, and the test that proves it. H is the harness
// of the package that contains the rule.
type Behavior[H any] struct {
	Name string
	Test func(h *H)
}

// Extended is a harness with additional requests that only one package of behaviours makes.
type Extended interface{ ~struct{ *Harness } }

// Group contains the behaviours of one subject, and the condition under which they apply to a
// store.
type Group struct {
	Behaviors []Behavior[Harness]
	// Needs reports whether the group applies to a store. It is nil if it applies to every store.
	Needs func(store.Store) bool
	// Reopens is set if the group applies only to stores that keep their data after Close.
	Reopens bool
}

// Tests converts behaviours of an extended harness to behaviours of a group.
func Tests[H Extended, B ~struct {
	Name string
	Test func(h *H)
}](lists ...[]B) []Behavior[Harness] {
	var all []Behavior[Harness]
	for _, b := range slices.Concat(lists...) {
		rule := Behavior[H](b)
		all = append(all, Behavior[Harness]{Name: rule.Name, Test: func(h *Harness) {
			extended := H(struct{ *Harness }{h})
			rule.Test(&extended)
		}})
	}
	return all
}

// Applies reports whether the group applies to the store under test. It may open a store to decide
// this.
func (g Group) Applies(t testing.TB, cfg Config) bool {
	t.Helper()
	if g.Reopens && cfg.Reopen == nil {
		return false
	}
	if g.Needs == nil {
		return true
	}
	s := cfg.Open(t, NewClock())
	defer func() { _ = s.Close() }()
	return g.Needs(s)
}

// Has reports whether a store, or a store that it wraps, implements the optional interface T.
func Has[T any](s store.Store) bool {
	_, ok := store.As[T](s)
	return ok
}
