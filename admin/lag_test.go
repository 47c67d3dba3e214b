package admin_test

import (
	"testing"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS3_ALagSaysWhatIsGoneAndWhereItGoesOn(t *testing.T) {
	for want, lag := range map[string]*admin.LagError{
		"stream out of run r no longer stores 3: it continues with 7":                       {Run: "r", Stream: "out", Lag: admin.Lag{Wanted: 3, Next: 7}},
		"the log of run r no longer stores 3: it continues with 7":                          {Run: "r", Lag: admin.Lag{Wanted: 3, Next: 7}},
		"the log of run r has no 9, after which it was to continue: it continues with 4":    {Run: "r", Lag: admin.Lag{Wanted: 10, Next: 4}},
		"stream out of run r has no 9, after which it was to continue: it continues with 1": {Run: "r", Stream: "out", Lag: admin.Lag{Wanted: 10, Next: 1}},
	} {
		if got := lag.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
