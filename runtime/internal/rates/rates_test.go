package rates

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clock is a clock that a test advances.
type clock struct{ t time.Time }

func newClock() *clock                   { return &clock{time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)} }
func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

// step counts an attempt that takes d.
func (c *clock) step(m *Meter, name string, d time.Duration) { m.Step(name, c.t.Add(-d)) }

// shown returns what a reader shows for the reports of some meters.
func shown(t *testing.T, meters ...*Meter) Sum {
	t.Helper()
	var all []*Report
	for _, m := range meters {
		body := m.Encode(8 << 10)
		if body == nil {
			continue
		}
		r, err := Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return Merge(all)
}

func TestOPS4_QuantilesAreAtMostOneBucketWrong(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not for secrets
	for _, median := range []time.Duration{200 * time.Microsecond, 30 * time.Millisecond, 4 * time.Second, 2 * time.Hour} {
		var h histogram
		exact := make([]time.Duration, 20_000)
		for i := range exact {
			exact[i] = time.Duration(float64(median) * math.Exp(random.NormFloat64()/2))
			h.add(exact[i])
		}
		slices.Sort(exact)
		for _, q := range []float64{0.5, 0.95, 0.99} {
			want := exact[int(math.Ceil(q*float64(len(exact))))-1]
			got := h.quantile(q)
			if ratio := float64(got) / float64(want); (ratio > 1.2 || ratio < 1/1.2) && max(got, want) > firstBound {
				t.Errorf("quantile %v of durations around %v: got %v, want %v with an error of 20 %% at most", q, median, got, want)
			}
		}
	}
}

func TestOPS4_QuantilesOfFewAndOfExtremeDurations(t *testing.T) {
	var h histogram
	if got := h.quantile(0.99); got != 0 {
		t.Errorf("quantile of nothing: got %v, want 0", got)
	}
	h.add(-time.Second) // a clock was set back
	if got := h.quantile(0.5); got < 0 || got > firstBound {
		t.Errorf("quantile of a negative duration: got %v, want at most %v", got, firstBound)
	}
	h = histogram{}
	h.add(1000 * time.Hour)
	if got, want := h.quantile(0.5), bounds[len(bounds)-1]; got != want {
		t.Errorf("quantile of a duration above the scale: got %v, want %v", got, want)
	}
	h = histogram{}
	for range 99 {
		h.add(time.Millisecond)
	}
	h.add(time.Minute)
	if p50, p99, most := h.quantile(0.5), h.quantile(0.99), h.quantile(1); p50 > 2*time.Millisecond || p99 > 2*time.Millisecond || most < 50*time.Second {
		t.Errorf("quantiles of 99 short durations and a long one: got %v, %v and %v", p50, p99, most)
	}
}

func TestOPS4_FiguresAreThoseOfTheLastMinute(t *testing.T) {
	c := newClock()
	m := NewMeter(c.now)
	if body := m.Encode(8 << 10); body != nil {
		t.Errorf("report of a worker that has done nothing: got %s, want none", body)
	}
	for range 600 { // ten minutes with a run of two steps each second
		m.Started()
		c.step(m, "charge", 20*time.Millisecond)
		c.step(m, "ship", 3*time.Second)
		m.Ended()
		c.advance(time.Second)
	}
	got := shown(t, m)
	for what, rate := range map[string]float64{"started": got.Started, "ended": got.Ended, "attempts": got.Steps / 2} {
		if math.Abs(rate-1) > 0.02 {
			t.Errorf("%s: got %v per second, want 1", what, rate)
		}
	}
	if len(got.ByStep) != 2 || got.ByStep[0].Step != "charge" || got.ByStep[1].Step != "ship" {
		t.Fatalf("steps: got %+v, want charge and ship", got.ByStep)
	}
	if p := got.ByStep[1].P99; p < 2500*time.Millisecond || p > 3500*time.Millisecond {
		t.Errorf("p99 of ship: got %v, want about 3s", p)
	}
	c.advance(59 * time.Second)
	if got := shown(t, m); got.Steps == 0 {
		t.Error("steps of 59 s ago: got none")
	}
	c.advance(12 * time.Second)
	if body := m.Encode(8 << 10); body != nil {
		t.Errorf("report after 71 s without work: got %s, want none", body)
	}
	c.step(m, "charge", time.Second)
	if got := shown(t, m); len(got.ByStep) != 1 || got.ByStep[0].P50 < 900*time.Millisecond {
		t.Errorf("steps after the pause: got %+v, want only the slow attempt", got.ByStep)
	}
}

func TestOPS4_AShortWindowHasItsRealRate(t *testing.T) {
	c := newClock()
	m := NewMeter(c.now)
	for range 50 {
		c.step(m, "charge", time.Millisecond)
		c.advance(100 * time.Millisecond)
	}
	if got := shown(t, m).Steps; math.Abs(got-10) > 0.1 {
		t.Errorf("a worker that has run for 5 s: got %v attempts per second, want 10", got)
	}
}

func TestOPS4_RatesOfWorkersAddUp(t *testing.T) {
	c := newClock()
	fast, slow, idle := NewMeter(c.now), NewMeter(c.now), NewMeter(c.now)
	for range 300 {
		c.step(fast, "charge", 10*time.Millisecond)
		c.step(fast, "charge", 10*time.Millisecond)
		c.step(slow, "charge", 4*time.Second)
		c.advance(100 * time.Millisecond)
	}
	got := shown(t, fast, slow, idle)
	if len(got.ByStep) != 1 || math.Abs(got.ByStep[0].PerSecond-30) > 0.2 || math.Abs(got.Steps-30) > 0.2 {
		t.Fatalf("got %+v, want charge with 30 attempts per second", got)
	}
	if s := got.ByStep[0]; s.P50 > 12*time.Millisecond || s.P95 < 3*time.Second {
		t.Errorf("latencies of both workers: got p50 %v and p95 %v, want 10ms and 4s", s.P50, s.P95)
	}
}

// The size of a report is bounded whatever the names, their number and the latencies are. No attempt
// is lost: those of steps without an entry are in the entry without a name.
func TestOPS4_AReportOf1000StepsIsBounded(t *testing.T) {
	const most = 8 << 10
	for _, length := range []int{8, 255} {
		c := newClock()
		m := NewMeter(c.now)
		attempts := 0
		for i := range 1000 {
			name := fmt.Sprintf("%04d%s", i, strings.Repeat("\u2028", length))[:length] + "x" // escaped in JSON
			for k := range 1 + (1000-i)/100 {
				for _, bound := range bounds {
					c.step(m, name, bound+time.Duration(k))
					attempts++
				}
			}
		}
		c.advance(time.Second)
		body := m.Encode(most)
		if len(body) > most {
			t.Errorf("report of 1,000 steps: got %d bytes, want at most %d", len(body), most)
		}
		r, err := Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		got := Merge([]*Report{r})
		if math.Round(got.Steps) != float64(attempts) {
			t.Errorf("attempts: got %v, want %d", got.Steps, attempts)
		}
		if last := got.ByStep[len(got.ByStep)-1]; last.Step != "" || len(got.ByStep) < 2 {
			t.Errorf("entries: got %d with the last one %q, want several and the last one without a name", len(got.ByStep), last.Step)
		}
		t.Logf("1,000 steps with names of %d bytes: %d bytes, %d entries", length, len(body), len(got.ByStep))
	}
}

// A step that is called after many others gets an entry once the others are out of the window.
func TestOPS4_NewStepsReplaceThoseThatAreNotCalled(t *testing.T) {
	c := newClock()
	m := NewMeter(c.now)
	for i := range 1000 {
		c.step(m, fmt.Sprint("old", i), time.Millisecond)
	}
	c.advance(2 * time.Minute)
	c.step(m, "new", time.Millisecond)
	if got := shown(t, m); len(got.ByStep) != 1 || got.ByStep[0].Step != "new" {
		t.Errorf("got %+v, want only the new step", got.ByStep)
	}
	if len(m.steps) > maxNames {
		t.Errorf("the meter keeps %d steps, want at most %d", len(m.steps), maxNames)
	}
}

func TestOPS4_CountingAllocatesNothing(t *testing.T) {
	c := newClock()
	m := NewMeter(c.now)
	name := strings.Clone("orders.charge")
	m.Step(name, c.now())
	if n := testing.AllocsPerRun(1000, func() {
		c.advance(time.Second) // also through all slots
		m.Started()
		m.Step(name, m.Now())
		m.Ended()
	}); n != 0 {
		t.Errorf("a run with a step: got %v allocations, want 0", n)
	}
}

func TestOPS4_ConcurrentCountsAreNotLost(t *testing.T) {
	m := NewMeter(newClock().now)
	const workers, each = 8, 200
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for n := range each {
				m.Started()
				m.Step(fmt.Sprint("step", (i+n)%100), m.Now())
				if n%50 == i {
					m.Encode(8 << 10)
				}
				m.Ended()
			}
		})
	}
	all.Wait()
	got := shown(t, m) // of one second, because the clock stands still
	if got.Started != workers*each || got.Ended != workers*each || got.Steps != workers*each {
		t.Errorf("got %v started, %v ended and %v attempts, want %d of each", got.Started, got.Ended, got.Steps, workers*each)
	}
}

func TestOPS4_DamagedReportsAreRefused(t *testing.T) {
	for _, body := range []string{``, `{}`, `[]`, `{"ms":-1}`, `{"ms":1,"started":-1}`, `{"ms":1,"steps":[{"step":"a","h":[121,1]}]}`, `{"ms":1,"steps":[{"step":"a","h":[-1,1]}]}`, `{"ms":1,"steps":[7]}`} {
		if r, err := Decode([]byte(body)); err == nil {
			t.Errorf("decode %q: got %+v, want an error", body, r)
		}
	}
	// A newer release may add fields, and repeat a bucket.
	r, err := Decode([]byte(`{"ms":2000,"started":4,"newer":[1],"steps":[{"step":"a","h":[1,1,1,1,7],"newer":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := Merge([]*Report{r})
	if want := (Sum{Started: 2, Steps: 1}); !cmp.Equal(Sum{Started: got.Started, Steps: got.Steps}, want) {
		t.Errorf("a report of a newer release: got %+v, want %+v", got, want)
	}
}
