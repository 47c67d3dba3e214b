package invoke

import (
	"fmt"
	"testing"
	"time"
)

// TestSeen_RefusesEachRequestThatItHasForgotten repeats requests that were forgotten because of their
// age or of the number of later requests. The time of a repetition may be earlier than that of the
// request which has displaced the first one, because the body of a request arrives after its check.
func TestSeen_RefusesEachRequestThatItHasForgotten(t *testing.T) {
	now := time.Now()
	t.Run("age", func(t *testing.T) {
		s := newSeen(4)
		for i, c := range []struct {
			nonce   string
			at, now time.Time
			want    bool
		}{
			{"a", now, now, true},
			{"a", now, now, false},
			{"b", now.Add(time.Second), now.Add(window), true},
			{"c", now.Add(window), now.Add(window + 500*time.Millisecond), true}, // forgets a
			{"a", now, now.Add(window - time.Second), false},
			{"b", now.Add(time.Second), now.Add(window), false},
			{"d", now.Add(2 * time.Second), now.Add(window), true},
		} {
			if got := s.add(c.nonce, c.at, c.now); got != c.want {
				t.Errorf("request %d (%s): accepted %t, want %t", i, c.nonce, got, c.want)
			}
		}
	})
	t.Run("number", func(t *testing.T) {
		s := newSeen(4)
		for i := range 10 {
			if !s.add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second), now) {
				t.Errorf("request %d was refused", i)
			}
		}
		for i := range 10 {
			if s.add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second), now) {
				t.Errorf("request %d was accepted twice", i)
			}
		}
		if len(s.nonces) != 4 || len(s.order) != 4 {
			t.Errorf("%d nonces and %d times are remembered, want 4", len(s.nonces), len(s.order))
		}
	})
}
