package event_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func TestInstant_RoundsUpAndStaysWithinTheLimits(t *testing.T) {
	for name, tt := range map[string]struct{ in, want time.Time }{
		"zero":     {time.Time{}, time.Time{}},
		"exact":    {time.UnixMilli(5), time.UnixMilli(5).UTC()},
		"fraction": {time.UnixMilli(5).Add(1), time.UnixMilli(6).UTC()},
		"for ever": {time.Unix(1<<62, 0), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)},
		"far past": {time.Unix(-1<<62, 0), time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC)},
	} {
		if got := event.Instant(tt.in); !got.Equal(tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
