package measure

import (
	"slices"
	"time"
)

// Result contains the figures of a workload with a system. docs/internals/comparison.md explains
// the fields.
type Result struct {
	System   string `json:"system"`
	Version  string `json:"version"`
	Store    string `json:"store"`
	Workload string `json:"workload"`
	Skipped  string `json:"skipped,omitempty"` // why there are no figures
	Count    int    `json:"count"`             // number of measurements; the figures are their medians

	// The sums of all measurements, with the runs before and after the time that is measured.
	Runs       int `json:"runs,omitempty"`
	Steps      int `json:"steps,omitempty"`
	Executions int `json:"executions,omitempty"` // of steps; more than Steps if some were executed again

	StepsPerSecond float64 `json:"steps_per_second,omitempty"`
	P50            float64 `json:"p50_ms,omitempty"`
	P99            float64 `json:"p99_ms,omitempty"`
	ResultP50      float64 `json:"result_p50_ms,omitempty"`
	ResultP99      float64 `json:"result_p99_ms,omitempty"`
	WorkerCPU      float64 `json:"worker_cpu_us_per_step,omitempty"`
	ServerCPU      float64 `json:"server_cpu_us_per_step,omitempty"`
}

// numbers returns pointers to the figures.
func (r *Result) numbers() []*float64 {
	return []*float64{&r.StepsPerSecond, &r.P50, &r.P99, &r.ResultP50, &r.ResultP99, &r.WorkerCPU, &r.ServerCPU}
}

// Median returns the medians of the figures, and the sums of the counts. A skipped result makes all
// skipped.
func Median(results []*Result) *Result {
	m := *results[0]
	m.Count, m.Runs, m.Steps, m.Executions = len(results), 0, 0, 0
	for _, r := range results {
		if r.Skipped != "" {
			return r
		}
		m.Runs, m.Steps, m.Executions = m.Runs+r.Runs, m.Steps+r.Steps, m.Executions+r.Executions
	}
	for i, to := range m.numbers() {
		values := make([]float64, len(results))
		for j, r := range results {
			values[j] = *r.numbers()[i]
		}
		slices.Sort(values)
		half := len(values) / 2
		*to = values[half]
		if len(values)%2 == 0 {
			*to = (values[half-1] + values[half]) / 2
		}
	}
	return &m
}

// enough is the number of steps from which on CPU times, which are counted in hundredths of a
// second, can be divided by it.
const enough = 100

func (m *measurement) summarize(s *span) *Result {
	r := &Result{
		System: m.system.Name, Version: m.system.Version(), Store: string(m.system.Store), Workload: m.w.Name, Count: 1,
		Runs: len(m.ended), Steps: len(m.ended) * m.w.Steps, Executions: m.probe.Executed(),
	}
	if m.w.Throughput {
		r.StepsPerSecond = float64(s.steps) / s.after.at.Sub(s.before.at).Seconds()
	}
	if s.steps >= enough {
		r.WorkerCPU = microseconds(s.after.worker-s.before.worker) / float64(s.steps)
		r.ServerCPU = microseconds(s.after.server-s.before.server) / float64(s.steps)
	}
	var latencies, results []time.Duration
	for _, run := range s.runs {
		if m.w.gaps {
			latencies = append(latencies, run.watch.Gaps()...)
		} else {
			latencies = append(latencies, run.watch.Latency())
		}
		if run.took > 0 {
			results = append(results, run.took)
		}
	}
	r.P50, r.P99 = percentiles(latencies)
	r.ResultP50, r.ResultP99 = percentiles(results)
	return r
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// percentiles returns the 50th and the 99th percentile in milliseconds, or zeros if there are no
// times.
func percentiles(times []time.Duration) (p50, p99 float64) {
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	at := func(q float64) float64 { return microseconds(times[int(q*float64(len(times)-1)+0.5)]) / 1000 }
	return at(0.5), at(0.99)
}
