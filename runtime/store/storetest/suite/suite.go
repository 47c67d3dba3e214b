// Package suite contains what all conformance tests of package storetest share: a harness with the
// store under test, its virtual clock, IDs, logs of runs, and the requests that behaviours of
// several packages make.
package suite

import (
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
)

// Config configures the suite for the store under test.
type Config struct {
	// Open returns an empty store that reads all times from clock. The suite closes it. Required.
	Open func(t testing.TB, clock store.Clock) store.Store
	// Reopen opens the data of s, a closed store, again. It is nil if the store keeps no data after
	// Close.
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

// Extended is a harness with the requests that only one package of behaviours needs.
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

// Tests returns behaviours whose tests use an extended harness as behaviours of a group.
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

// Applies reports whether a group applies to the store under test.
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
