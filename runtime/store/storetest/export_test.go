package storetest

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// SetPatience sets how long the suite waits for the result of a call that blocks.
func SetPatience(d time.Duration) { suite.Patience = d }

// RunOnly runs the behaviours with these names.
func RunOnly(t *testing.T, cfg Config, names ...string) {
	t.Helper()
	all := map[string]suite.Behavior[suite.Harness]{}
	for _, g := range groups() {
		for _, b := range g.Behaviors {
			all[b.Name] = b
		}
	}
	for _, name := range names {
		b, ok := all[name]
		if !ok {
			t.Errorf("there is no behaviour %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) { b.Test(suite.NewHarness(t, t, cfg)) })
	}
}
