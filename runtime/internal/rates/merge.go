package rates

import (
	"cmp"
	"slices"
	"time"
)

// Sum contains the figures of several workers for the last minute.
type Sum struct {
	Started, Ended, Steps float64 // per second
	ByStep                []Step  // the step with the most attempts first; an entry without a name is last
}

// Step contains the figures of a step. Step is empty for the steps that the reports do not name.
type Step struct {
	Step          string
	PerSecond     float64
	P50, P95, P99 time.Duration // latencies of attempts
}

// Merge adds the reports of workers.
func Merge(reports []*Report) Sum {
	var sum Sum
	at := map[string]*histogram{}
	perSecond := map[string]float64{}
	for _, r := range reports {
		over := r.Over.Seconds()
		sum.Started, sum.Ended = sum.Started+float64(r.Started)/over, sum.Ended+float64(r.Ended)/over
		for name, h := range r.steps {
			if at[name] == nil {
				at[name] = &histogram{}
			}
			at[name].merge(h)
			n := float64(h.count()) / over
			perSecond[name], sum.Steps = perSecond[name]+n, sum.Steps+n
		}
	}
	for name, h := range at {
		sum.ByStep = append(sum.ByStep, Step{
			Step: name, PerSecond: perSecond[name], P50: h.quantile(0.5), P95: h.quantile(0.95), P99: h.quantile(0.99),
		})
	}
	slices.SortFunc(sum.ByStep, func(a, b Step) int {
		if (a.Step == "") != (b.Step == "") {
			return cmp.Compare(b.Step, a.Step)
		}
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Step, b.Step))
	})
	return sum
}
