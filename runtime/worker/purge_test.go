package worker

import (
	"testing"
	"time"
)

func TestPurgeDelay_IsAboutAMinuteOrUntilTheNextRunIsDue(t *testing.T) {
	now := time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for name, tt := range map[string]struct {
		next     time.Time
		min, max time.Duration // bounds of the delay over all values of chance
	}{
		"none is due":                {time.Time{}, 48 * time.Second, 72 * time.Second},
		"the next is due much later": {in(time.Hour), 48 * time.Second, 72 * time.Second},
		"the next is due soon":       {in(30 * time.Second), 30 * time.Second, 30 * time.Second},
		"the next is due at once":    {in(time.Second), 10 * time.Second, 10 * time.Second},
		"the next is over":           {in(-time.Hour), 10 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for chance, want := range map[float64]time.Duration{0: tt.min, 1: tt.max, 0.5: (tt.min + tt.max) / 2} {
				if got := purgeDelay(now, tt.next, chance); (got - want).Abs() > time.Millisecond {
					t.Errorf("delay with chance %v: got %v, want %v", chance, got, want)
				}
			}
		})
	}
}
