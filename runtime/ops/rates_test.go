package ops_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
)

// rates sets the report of a worker and returns the rates of all workers.
func (y *yard) rates(reports map[store.SessionID]string) ops.Rates {
	y.Helper()
	for session, report := range reports {
		y.check(y.st.SetSessionData(y.Context(), 0, session, []byte(report)))
	}
	got, err := ops.New(y.client).Rates(y.Context())
	y.check(err)
	return got
}

// TestOPS4_RatesAreThoseOfLiveWorkers proves that the rates of a killed worker disappear with its
// lease, and that a report that cannot be decoded hides no other report.
func TestOPS4_RatesAreThoseOfLiveWorkers(t *testing.T) {
	y := newYard(t)
	if got := y.rates(nil); got.Workers != 0 || got.Attempts != 0 {
		t.Errorf("rates of an empty store: got %+v", got)
	}
	killed, newer := y.session(0, "killed", "v1", packing), y.session(0, "newer", "v2", packing)
	y.session(0, "older", "v0", packing) // a worker of a release that publishes no rates
	y.clock.Advance(30 * time.Second)
	live := y.session(0, "live", "v1", packing)
	got := y.rates(map[store.SessionID]string{
		killed: `{"ms":10000,"started":100,"ended":50,"steps":[{"step":"pack","h":[20,200]},{"h":[20,10]}]}`,
		live:   `{"ms":20000,"started":20,"ended":20,"steps":[{"step":"pack","h":[60,100]},{"step":"seal","h":[1,2000]}]}`,
		newer:  "\x01 another format",
	})
	if got.Workers != 2 || got.Started != 11 || got.Ended != 6 || got.Attempts != 126 || len(got.Steps) != 3 {
		t.Fatalf("rates: got %+v, want the sums of two workers", got)
	}
	for i, want := range []struct {
		step     string
		attempts float64
	}{{"seal", 100}, {"pack", 25}, {"", 1}} {
		if s := got.Steps[i]; s.Step != want.step || s.Attempts != want.attempts {
			t.Errorf("step %d: got %+v, want %s with %v attempts per second", i, s, want.step, want.attempts)
		}
	}
	if s := got.Steps[1]; s.P50 > 4*time.Millisecond || s.P95 < 2*time.Second {
		t.Errorf("latencies of the fast and the slow worker: got %+v, want p50 of the fast one and p95 of the slow one", s)
	}
	y.clock.Advance(45 * time.Second) // the leases of the workers opened first expire
	if got := y.rates(nil); got.Workers != 1 || got.Started != 1 || len(got.Steps) != 2 {
		t.Errorf("rates after the lease of a worker has expired: got %+v, want those of the live one", got)
	}
}
