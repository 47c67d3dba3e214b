package workflow_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestSTEP4_DelaysGrowAsThePolicySays(t *testing.T) {
	const ms, s, m, h = time.Millisecond, time.Second, time.Minute, time.Hour
	for name, tt := range map[string]struct {
		policy workflow.RetryPolicy
		want   []time.Duration
	}{
		"zero":                        {workflow.RetryPolicy{}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, m, m}},
		"constant":                    {workflow.RetryPolicy{Initial: 3 * s, Factor: 1}, []time.Duration{3 * s, 3 * s, 3 * s}},
		"linear":                      {workflow.RetryPolicy{Initial: s, Increment: 2 * s}, []time.Duration{s, 3 * s, 5 * s, 7 * s}},
		"linear with a cap":           {workflow.RetryPolicy{Initial: s, Increment: 2 * s, Max: 4 * s}, []time.Duration{s, 3 * s, 4 * s, 4 * s}},
		"factor below one":            {workflow.RetryPolicy{Initial: 8 * s, Factor: 0.5}, []time.Duration{8 * s, 4 * s, 2 * s}},
		"first above the default cap": {workflow.RetryPolicy{Initial: h}, []time.Duration{h, h}},
		"first above its cap":         {workflow.RetryPolicy{Initial: h, Max: m}, []time.Duration{m, m}},
		"milliseconds":                {workflow.RetryPolicy{Initial: 100 * ms, Factor: 3}, []time.Duration{100 * ms, 300 * ms, 900 * ms}},
	} {
		var got []time.Duration
		for n := range tt.want {
			got = append(got, tt.policy.Delay(n+1, 0.7))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSTEP4_DelaysStayFiniteHoweverManyAttempts(t *testing.T) {
	p := workflow.RetryPolicy{Initial: time.Second, Factor: 10, Max: 24 * time.Hour}
	for _, n := range []int{10, 100, 1_000_000} {
		if got := p.Delay(n, 0); got != 24*time.Hour {
			t.Errorf("attempt %d: got %v", n, got)
		}
	}
}

func TestSTEP4_DelaysAreNeverNegativeWhateverThePolicySays(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for name, p := range map[string]workflow.RetryPolicy{
		"largest Max":           {Initial: most, Max: most},
		"largest Initial":       {Initial: most},
		"largest Increment":     {Initial: most, Increment: most, Max: most},
		"infinite Factor":       {Factor: math.Inf(1), Max: most},
		"Factor is no number":   {Factor: math.NaN(), Max: most},
		"Jitter is no number":   {Initial: most, Max: most, Jitter: math.NaN()},
		"Jitter of all":         {Initial: most, Max: most, Jitter: 1},
		"negative Increment":    {Initial: time.Second, Increment: -time.Hour, Factor: 1},
		"everything negative":   {Initial: -most, Increment: -most, Max: -most, Factor: -1, Jitter: -1, Total: -most, Attempts: math.MinInt},
		"everything very large": {Initial: most, Increment: most, Max: most, Factor: math.MaxFloat64, Jitter: math.MaxFloat64, Attempts: math.MaxInt},
	} {
		for _, n := range []int{1, 2, 100, math.MaxInt} {
			for _, random := range []float64{0, 0.5} {
				if got := p.Delay(n, random); got < 0 {
					t.Errorf("%s: delay after attempt %d: got %v", name, n, got)
				}
			}
		}
	}
	huge := workflow.RetryPolicy{Initial: most, Max: most}
	if got := huge.Delay(2, 0); got < most-time.Second {
		t.Errorf("the largest delay: got %v, want %v or nearly that", got, most)
	}
}

func TestSTEP4_JitterTakesAwayItsPartAtMost(t *testing.T) {
	for _, tt := range []struct{ jitter, random, want float64 }{
		{0, 0.9, 10}, {0.2, 0, 10}, {0.2, 0.5, 9}, {1, 0.5, 5}, {7, 0.5, 5}, {-1, 0.5, 10},
	} {
		p := workflow.RetryPolicy{Initial: 10 * time.Second, Jitter: tt.jitter}
		if got := p.Delay(1, tt.random).Round(time.Millisecond).Seconds(); got != tt.want {
			t.Errorf("jitter %v, random %v: got %v s, want %v s", tt.jitter, tt.random, got, tt.want)
		}
	}
}

func TestSTEP4_MaxAttemptsDefaultsToFour(t *testing.T) {
	got := fmt.Sprint(workflow.RetryPolicy{}.MaxAttempts(), workflow.RetryPolicy{Attempts: 1}.MaxAttempts(), workflow.RetryPolicy{Attempts: 9}.MaxAttempts())
	if got != "4 1 9" {
		t.Errorf("got %s, want 4 1 9", got)
	}
}
