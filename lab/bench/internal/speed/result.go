package speed

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Result contains the figures of one workload on one store. docs/internals/performance.md explains
// the fields. A step is the unit of the workload.
type Result struct {
	Workload string `json:"workload"`
	Store    string `json:"store"`
	Unit     string `json:"unit"`
	Runs     int    `json:"runs"`
	Steps    int    `json:"steps"`
	Count    int    `json:"count"` // number of measurements; the figures are their medians

	Seconds           float64 `json:"seconds"`
	StepsPerSecond    float64 `json:"steps_per_second"`
	RunsPerSecond     float64 `json:"runs_per_second"`
	P50ms             float64 `json:"p50_ms"`
	P99ms             float64 `json:"p99_ms"`
	CommitsPerStep    float64 `json:"commits_per_step"`
	CommandsPerRun    float64 `json:"commands_per_run"`
	CommandsPerStep   float64 `json:"commands_per_step"`
	ServerCallsPerRun float64 `json:"server_calls_per_run"`
	WorkerCPUPerStep  float64 `json:"worker_cpu_us_per_step"`
	ServerCPUPerStep  float64 `json:"server_cpu_us_per_step"`
	AllocsPerStep     float64 `json:"allocs_per_step"`
	AllocBytesPerStep float64 `json:"alloc_bytes_per_step"`
	PeakMemoryMB      float64 `json:"peak_memory_mb"`
	BytesPerRun       float64 `json:"bytes_per_run"`
	CommitsPerBatch   float64 `json:"commits_per_batch"`
	LimitPerSecond    float64 `json:"limit_per_second"`
	RatioToLimit      float64 `json:"ratio_to_limit"`
	StepsToLimit      float64 `json:"steps_ratio_to_limit"`
	EarlyStepUs       float64 `json:"early_step_us,omitempty"`
	LateStepUs        float64 `json:"late_step_us,omitempty"`
	ParkedPerSecond   float64 `json:"parked_per_second,omitempty"`
	ParkedMemoryMB    float64 `json:"parked_memory_mb,omitempty"`
	ParkedBytesPerRun float64 `json:"parked_memory_bytes_per_run,omitempty"`
	EventsPerLog      float64 `json:"events_per_log,omitempty"`
}

// numbers returns pointers to the fields of which a result contains medians.
func (r *Result) numbers() []*float64 {
	return []*float64{
		&r.Seconds, &r.StepsPerSecond, &r.RunsPerSecond, &r.P50ms, &r.P99ms, &r.CommitsPerStep, &r.CommandsPerRun, &r.CommandsPerStep,
		&r.ServerCallsPerRun, &r.WorkerCPUPerStep, &r.ServerCPUPerStep, &r.AllocsPerStep, &r.AllocBytesPerStep, &r.PeakMemoryMB,
		&r.BytesPerRun, &r.CommitsPerBatch, &r.LimitPerSecond, &r.RatioToLimit, &r.StepsToLimit, &r.EarlyStepUs, &r.LateStepUs,
		&r.ParkedPerSecond, &r.ParkedMemoryMB, &r.ParkedBytesPerRun, &r.EventsPerLog,
	}
}

// median returns a result with the median of each number. The other fields are those of the first
// result.
func median(results []*Result) *Result {
	m := *results[0]
	m.Count = len(results)
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

// summarize computes the result from the values of all rounds.
func (m *measurement) summarize(ctx context.Context) error {
	if m.total.units == 0 || m.total.runs == 0 || len(m.latencies) == 0 {
		return fmt.Errorf("nothing was measured: %d %ss of %d runs, %d times", m.total.units, m.w.unit, m.total.runs, len(m.latencies))
	}
	r, steps, runs, seconds := m.r, float64(m.total.units), float64(m.total.runs), m.total.elapsed.Seconds()
	r.Runs, r.Steps, r.Seconds = m.total.runs, m.total.units, seconds
	r.StepsPerSecond, r.RunsPerSecond = steps/seconds, runs/seconds
	r.P50ms, r.P99ms = milliseconds(quantile(m.latencies, 0.50)), milliseconds(quantile(m.latencies, 0.99))
	r.CommitsPerStep = float64(m.commits) / steps
	commands := m.spent.server.commands
	if commands == 0 {
		commands = m.spent.calls // For a store without a server, only calls are counted, so use their number.
	}
	r.CommandsPerRun, r.CommandsPerStep = commands/runs, commands/steps
	r.ServerCallsPerRun = m.spent.server.calls / runs
	r.WorkerCPUPerStep = microseconds(m.spent.cpu) / steps
	r.ServerCPUPerStep = microseconds(m.spent.server.cpu) / steps
	r.AllocsPerStep, r.AllocBytesPerStep = m.spent.allocs/steps, m.spent.bytes/steps
	r.CommitsPerBatch = float64(m.shape.batch)
	after, err := m.bed.bytes(ctx)
	if err != nil {
		return err
	}
	r.BytesPerRun = max(0, float64(after-m.before)/runs)
	if len(m.limits) > 0 {
		sum := 0.0
		for _, l := range m.limits {
			sum += l
		}
		r.LimitPerSecond = sum / float64(len(m.limits))
		appends := m.total.appends
		if appends == 0 {
			appends = m.commits
		}
		r.RatioToLimit = float64(appends) / seconds / r.LimitPerSecond
		r.StepsToLimit = r.StepsPerSecond / r.LimitPerSecond
	}
	return nil
}

// quantile returns the smallest value that is at least as large as the fraction q of all values. It
// sorts all.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	i := int(float64(len(all))*q+0.999999) - 1
	return all[min(max(i, 0), len(all)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
