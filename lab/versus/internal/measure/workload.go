// Package measure executes workloads with a system and measures them.
package measure

import (
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/peer"
)

// Workload is a kind of runs.
type Workload struct {
	Name  string
	About string
	// Latency describes the times of the percentiles.
	Latency string
	Steps   int
	Jobs    bool // a workload of single steps, which systems for jobs execute
	// Throughput reports whether runs are executed to measure how many there are in a second.
	Throughput bool

	parallel bool // the steps of a run are executed in parallel
	alone    bool // a run starts when the previous one has ended
	gaps     bool // the latency is the time between two steps
	backlog  int  // runs that have started and not ended, in relation to the concurrency; 0 for 1
}

// Workloads contains all workloads in the order in which they are measured.
var Workloads = []*Workload{
	{
		Name: "chain", About: "many runs of three sequential steps", Latency: "from the start of a run to its last step",
		Steps: 3, Throughput: true,
	},
	{
		Name: "latency", About: "runs of one step, one at a time", Latency: "from the start of a run to its step",
		Steps: 1, alone: true,
	},
	{
		Name: "long", About: "runs of 200 sequential steps, one at a time", Latency: "from one step to the next",
		Steps: 200, Throughput: true, alone: true, gaps: true,
	},
	{
		Name: "fanout", About: "runs of 200 parallel steps, one at a time", Latency: "from the start of a run to its last step",
		Steps: 200, Throughput: true, parallel: true, alone: true,
	},
	{
		Name: "jobs", About: "many single jobs, ten times as many in the queue as execute at the same time",
		Latency: "from the start of a job to its execution, with the time in the queue", Steps: 1, Jobs: true, Throughput: true, backlog: 10,
	},
	{
		Name: "job-latency", About: "single jobs, one at a time", Latency: "from the start of a job to its execution",
		Steps: 1, Jobs: true, alone: true,
	},
}

// Fits reports whether a system is measured with the workload.
func (w *Workload) Fits(s *peer.System) bool {
	if w.Jobs {
		return s.Kind != peer.Workflows
	}
	return s.Kind != peer.Jobs
}

// Options are the bounds of a measurement.
type Options struct {
	Concurrency int           `json:"concurrency"` // maximum number of runs, and of steps, at the same time
	Duration    time.Duration `json:"duration"`    // time of a measurement; a run that has begun is measured to its end
}
