package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/limits/flows"
	"github.com/flowgen/flowgen/runtime/limit"
)

// rates measures steps with each of two rates and, for comparison, steps without a rate.
func rates(ctx context.Context, s *session) ([]Figure, error) {
	var figures []Figure
	for _, r := range []struct {
		kind  flows.Kind
		gate  limit.Limit
		rate  int
		burst int // number of permits per 50 ms
	}{{flows.AtHundred, flows.Hundred, 100, 5}, {flows.AtThousand, flows.Thousand, 1000, 50}} {
		steps := max(int(s.seconds*float64(r.rate)), r.burst+2)
		s.sayf("rates: %d steps at %d/s", steps, r.rate)
		limited, _, err := (&crowd{workers: s.workers, kind: r.kind, steps: steps, gate: r.gate, open: limit.Config{Rate: r.rate}}).execute(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("at %d/s: %w", r.rate, err)
		}
		s.sayf("rates: %d steps without a rate", steps)
		free, _, err := (&crowd{workers: s.workers, kind: flows.Aside, steps: steps}).execute(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("without a rate: %w", err)
		}
		all := limited.all()
		if len(all) != steps {
			return nil, fmt.Errorf("%d attempts of %d steps at %d/s", len(all), steps, r.rate)
		}
		got := perSecond(all[r.burst:])
		beside := []Number{{"from the first step to the last", span(all).Seconds(), "s"}, {"the same steps by runs of their own, without a rate", perSecond(free.all()), "/s"}}
		bound := float64(r.rate + r.burst - 1)
		figures = append(figures,
			Figure{What: fmt.Sprintf("begun of %d/s, by %d workers", r.rate, s.workers), Value: got / float64(r.rate) * 100, Unit: "%",
				budget: budget{"99 to 101 %", 99, 101}, Beside: append([]Number{{"begun", got, "/s"}}, beside...)},
			Figure{What: fmt.Sprintf("most that began in a second, of %d/s", r.rate), Value: float64(most(all, time.Second)), Unit: "steps", budget: atMost(bound, "steps"),
				Beside: []Number{{"without a rate", float64(most(free.all(), time.Second)), "steps"}}})
	}
	return figures, nil
}

// span returns the time between the first and the last beginning.
func span(all []attempt) time.Duration { return all[len(all)-1].begin.Sub(all[0].begin) }

// perSecond returns the average number of attempts that began per second.
func perSecond(all []attempt) float64 {
	return float64(len(all)-1) / max(span(all), time.Microsecond).Seconds()
}

// most returns the maximum number of attempts that began in any interval of length per. The end of
// an interval does not belong to it.
func most(all []attempt, per time.Duration) (n int) {
	from := 0
	for to := range all {
		for all[to].begin.Sub(all[from].begin) >= per {
			from++
		}
		n = max(n, to-from+1)
	}
	return n
}
