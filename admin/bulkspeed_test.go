package admin

import (
	"testing"
	"time"
)

func TestOPS3_TheSpeedOfABulkActionIsWhatItHasDoneInItsTime(t *testing.T) {
	began := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		state bulkState
		after time.Duration
		rate  int
		want  float64
	}{
		"nothing yet":                         {bulkState{}, time.Second, 100, 0},
		"one run in the first moment":         {bulkState{Done: 1}, 30 * time.Millisecond, 1, 1},
		"one run at the first moment":         {bulkState{Failed: 1}, 0, 1, 1},
		"a part that took less than its time": {bulkState{Done: 100}, 20 * time.Millisecond, 100, 100},
		"a store that is slow":                {bulkState{Done: 3, Failed: 1}, 10 * time.Second, 100, 0.4},
		"what was only looked at":             {bulkState{Refused: 1000, Skipped: 500}, 20 * time.Millisecond, 100, 0},
		"a worker that died a while ago":      {bulkState{Done: 100, Refused: 900}, 1000 * time.Second, 100, 0.1},
		"just below its rate":                 {bulkState{Done: 10}, 10300 * time.Millisecond, 1, 1},
	} {
		c.state.Began = began
		if got := c.state.speed(began.Add(c.after), c.rate); got != c.want {
			t.Errorf("%s: %g in a second, want %g", what, got, c.want)
		}
	}
}
