package ops

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/rates"
	"github.com/flowgen/flowgen/runtime/store"
)

// Rates contains the throughput of the live workers and the latencies of steps in the last minute.
// Internal runs are not counted as runs: see workflow.Filter.Internal. The steps that they execute
// for runs are counted as steps.
type Rates struct {
	Workers int // number of live workers that have published rates
	// Started and Ended are the numbers of runs that workers have begun and ended, per second. A run
	// that continues as a new run ends. A run that a client has ended is not counted.
	Started, Ended float64
	// Attempts is the number of finished attempts of steps per second.
	Attempts float64
	// Steps contains the steps with finished attempts, the most frequent step first.
	Steps []StepRates
}

// StepRates contains the figures of a step. Latencies are those of attempts, including failed ones,
// and are at most 19 % wrong.
type StepRates struct {
	// Step is the name of the step. It is empty for the steps that workers have not distinguished
	// because the size of their reports is bounded. This element is the last one.
	Step          string
	Attempts      float64 // finished attempts per second
	P50, P95, P99 time.Duration
}

// Rates returns the throughput and the latencies of steps. Workers publish them with their
// heartbeats, usually every 5 s, as the data of their sessions. The figures of a dead worker
// disappear with its lease. Rates sends one request, whose cost depends on the number of workers.
// Workers of earlier releases publish no rates. The error matches workflow.ErrNotSupported if the
// store keeps no data of sessions.
func (c *Client) Rates(ctx context.Context) (Rates, error) {
	keeper, err := capability[store.SessionDataStore](c, "read the rates")
	if err != nil {
		return Rates{}, err
	}
	all, err := keeper.SessionData(ctx, rates.Partition)
	if err != nil {
		return Rates{}, err
	}
	now := c.store.Clock().Now()
	var reports []*rates.Report
	for i := range all {
		if !all[i].Live(now) {
			continue
		}
		if r, err := rates.Decode(all[i].Body); err == nil { // a newer release may use another format
			reports = append(reports, r)
		}
	}
	sum := rates.Merge(reports)
	got := Rates{Workers: len(reports), Started: sum.Started, Ended: sum.Ended, Attempts: sum.Steps, Steps: make([]StepRates, len(sum.ByStep))}
	for i, s := range sum.ByStep {
		got.Steps[i] = StepRates{Step: s.Step, Attempts: s.PerSecond, P50: s.P50, P95: s.P95, P99: s.P99}
	}
	return got, nil
}
