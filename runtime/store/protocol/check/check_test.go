package check

import (
	"cmp"
	"flag"
	"strings"
	"testing"
)

var full = flag.Bool("full", false, "explore every configuration to its end")

// Bounds of explorations, in states: short ones, those with seeded bugs, and full ones.
const (
	shortStates = 3_000
	seededMost  = 80_000
	fullStates  = 20_000_000
)

func limit(short int) int {
	if *full {
		return fullStates
	}
	return cmp.Or(short, shortStates)
}

func TestCheck_FindsNothingWrongInTheKernel(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) { sound(t, explore(c.model(bug{}), limit(c.short))) })
	}
	for _, c := range trades {
		t.Run(c.name, func(t *testing.T) { sound(t, explore(c.model(bug{}), limit(c.short))) })
	}
	for _, c := range collectConfigs {
		t.Run(c.name, func(t *testing.T) { sound(t, explore(c.model(collectBug{}), limit(0))) })
	}
	for _, c := range homeConfigs {
		t.Run(c.name, func(t *testing.T) { sound(t, explore(c.model(homeBug{}), limit(c.short))) })
	}
}

func sound(t *testing.T, res result) {
	t.Helper()
	t.Log(res)
	if res.wrong != "" {
		t.Errorf("found %s, want nothing wrong", res.wrong)
	}
	if *full && res.truncated {
		t.Errorf("the limit of %d states was reached", fullStates)
	}
}

func TestCheck_FindsEverySeededBug(t *testing.T) {
	for _, b := range seeded {
		t.Run(b.name, func(t *testing.T) { found(t, b.in.name, b.finds, explore(b.in.model(b.bug), seededMost)) })
	}
	for _, b := range collectSeeded {
		in := collectConfigs[b.in]
		t.Run(b.name, func(t *testing.T) { found(t, in.name, b.finds, explore(in.model(b.bug), seededMost)) })
	}
	for _, b := range traded {
		t.Run(b.name, func(t *testing.T) { found(t, b.in.name, b.finds, explore(b.in.model(b.bug), seededMost)) })
	}
}

func found(t *testing.T, in, want string, res result) {
	t.Helper()
	if !strings.HasSuffix(res.wrong, want) || want == "" {
		t.Errorf("in %s: found %q, want %q: %s", in, res.wrong, want, res)
		return
	}
	t.Logf("in %s: %s", in, res)
	if len(res.trace) == 0 {
		t.Errorf("the counterexample has no steps")
	}
}
