package admin

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Rates is the throughput of the live workers in the last minute, and the latencies of their steps.
// Internal runs are not counted, except in the steps that they execute. See [ops.Client.Rates].
type Rates struct {
	Workers          int        `json:"workers"`          // number of live workers that have published their rates
	StartedPerSecond float64    `json:"startedPerSecond"` // number of runs that workers have begun
	EndedPerSecond   float64    `json:"endedPerSecond"`   // number of runs that workers have ended
	StepsPerSecond   float64    `json:"stepsPerSecond"`   // number of finished attempts of steps
	Steps            []StepRate `json:"steps"`            // the step with the most attempts first
}

// StepRate contains the figures of a step in the last minute. Latencies are those of attempts and
// are at most 19 % wrong.
type StepRate struct {
	// Step is the name of the step. It is empty in the last element, if that combines the steps that
	// workers have not distinguished.
	Step      string  `json:"step,omitempty"`
	PerSecond float64 `json:"perSecond"` // number of finished attempts
	P50Ms     float64 `json:"p50Ms"`     // half of the attempts took at most this time
	P95Ms     float64 `json:"p95Ms"`
	P99Ms     float64 `json:"p99Ms"`
}

// Rates returns the throughput and the latencies of steps, from the records of the store. It needs no
// metrics server.
func (s *Service) Rates(ctx context.Context) (Rates, error) {
	if err := s.all(RoleViewer, "see rates", "list or count runs"); err != nil {
		return Rates{}, err
	}
	found, err := s.ops.Rates(ctx)
	if err != nil {
		return Rates{}, err
	}
	got := Rates{
		Workers: found.Workers, StartedPerSecond: rounded(found.Started), EndedPerSecond: rounded(found.Ended), StepsPerSecond: rounded(found.Attempts),
		Steps: make([]StepRate, len(found.Steps)),
	}
	for i, step := range found.Steps {
		got.Steps[i] = StepRate{
			Step: step.Step, PerSecond: rounded(step.Attempts), P50Ms: rounded(step.P50.Seconds() * 1000), P95Ms: rounded(step.P95.Seconds() * 1000),
			P99Ms: rounded(step.P99.Seconds() * 1000),
		}
	}
	return got, nil
}

// rounded rounds a number to three decimals.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// PerSecond formats a number per second.
func PerSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// latency formats a number of milliseconds.
func latency(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (r *StepRate) name() string {
	if r.Step == "" {
		return "(other steps)"
	}
	return r.Step
}
