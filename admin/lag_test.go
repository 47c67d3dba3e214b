package admin_test

import (
	"testing"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS3_ALagSaysWhatIsGoneAndWhereItGoesOn(t *testing.T) {
	for want, lag := range map[string]*admin.LagError{
		"stream out of run r does not keep 3 any more: it goes on with 7":              {Run: "r", Stream: "out", Lag: admin.Lag{Wanted: 3, Next: 7}},
		"the log of run r does not keep 3 any more: it goes on with 7":                 {Run: "r", Lag: admin.Lag{Wanted: 3, Next: 7}},
		"the log of run r has no 9, after which it was to go on: it goes on with 4":    {Run: "r", Lag: admin.Lag{Wanted: 10, Next: 4}},
		"stream out of run r has no 9, after which it was to go on: it goes on with 1": {Run: "r", Stream: "out", Lag: admin.Lag{Wanted: 10, Next: 1}},
	} {
		if got := lag.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
