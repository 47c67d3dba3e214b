package storetest

import (
	"testing"
	"time"
)

// SetPatience sets how long the suite waits for the result of a blocked call.
func SetPatience(d time.Duration) { Patience = d }

// RunOnly runs the behaviours with these names.
func RunOnly(t *testing.T, cfg Config, names ...string) {
	t.Helper()
	all := map[string]behavior{}
	for _, g := range groups(cfg) {
		for _, b := range g.behaviors {
			all[b.name] = b
		}
	}
	for _, name := range names {
		b, ok := all[name]
		if !ok {
			t.Errorf("there is no behaviour %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) { b.test(NewHarness(t, t, cfg)) })
	}
}
