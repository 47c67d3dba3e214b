package speed

import (
	"context"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/asleep"
	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/family"
	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/inbox"
	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/marked"
	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/parallel"
	"github.com/flowgen/flowgen/lab/bench/internal/speed/flows/sequence"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// workload is a typical use of the engine that the program measures.
type workload struct {
	name    string
	about   string
	unit    string // name of the unit that counts as a step
	latency string // meaning of p50 and p99
	size    size   // default size
	rounds  int    // maximum number of rounds; 0 for one round per run
	alone   bool   // the workload has no worker
	parked  int    // maximum number of branches that the worker caches; 0 for the default of the worker
	// register registers only the workflows of this workload, because each registered workflow adds
	// to the cost of a claim.
	register func(r workflow.Registrar, s *stage)
	begin    func() course
}

// workloads contains all workloads in the order in which they are measured.
var workloads = []*workload{
	{
		name: "chain", about: "runs of sequential empty steps, 100 bytes in and out", unit: "step",
		latency: "from the start of a run to its end, -inflight runs at once",
		size:    size{20_000, 3}, rounds: 10, register: func(r workflow.Registrar, _ *stage) { sequence.Register(r) },
		begin: func() course { return &chain{} },
	},
	{
		name: "latency", about: "runs of one step, each started after the previous one ends", unit: "step",
		latency: "from the call of Start to the return of Result",
		size:    size{2_000, 1}, rounds: 10, register: func(r workflow.Registrar, _ *stage) { sequence.Register(r) },
		begin: func() course { return &latency{} },
	},
	{
		name: "long", about: "one run of many sequential steps", unit: "step",
		latency: "from one step to the next",
		size:    size{1, 10_000}, register: func(r workflow.Registrar, s *stage) { marked.Register(r, s.probe) },
		begin: func() course { return &long{} },
	},
	{
		name: "fanout", about: "one run of many concurrent steps, repeatedly", unit: "step",
		latency: "of a run",
		size:    size{5, 10_000}, register: func(r workflow.Registrar, _ *stage) { parallel.Register(r) },
		begin: func() course { return &fanout{} },
	},
	{
		name: "sleepers", about: "runs that sleep until the same moment", unit: "run",
		latency: "from that moment to the end of a run",
		size:    size{runs: 100_000}, rounds: 1, register: func(r workflow.Registrar, _ *stage) { asleep.Register(r) },
		begin: func() course { return &sleepers{} },
	},
	{
		name: "children", about: "runs that start child runs concurrently and wait for them", unit: "child",
		latency: "from the start of a run to its end, children included",
		size:    size{500, 10}, rounds: 10, register: func(r workflow.Registrar, _ *stage) { family.Register(r) },
		begin: func() course { return &children{} },
	},
	{
		name: "messages", about: "messages to runs that wait for them, one round for each run", unit: "message",
		latency: "of a call of Send",
		size:    size{1_000, 10}, rounds: 10, register: func(r workflow.Registrar, _ *stage) { inbox.Register(r) },
		begin: func() course { return &messages{} },
	},
	{
		name: "start-only", about: "runs that are started while there is no worker", unit: "start",
		latency: "of a call that starts -batch runs",
		size:    size{runs: 20_000}, rounds: 10, alone: true, begin: func() course { return &starts{} },
	},
	{
		name: "replay", about: "runs with a long log that a message wakes on a worker that has not cached them", unit: "replayed event",
		latency: "from the call of Send to the answer of the commit that takes the message",
		size:    size{10, 3_332}, parked: 1, register: func(r workflow.Registrar, _ *stage) { inbox.Register(r) },
		begin: func() course { return &replay{} },
	},
}

func workloadNamed(name string) *workload {
	for _, w := range workloads {
		if w.name == name {
			return w
		}
	}
	return nil
}

// course is one execution of a workload on a stage.
type course interface {
	// warm performs a warm-up and prepares the first round.
	warm(ctx context.Context, s *stage) error
	// round executes one part of the workload with the given number of runs. The first part has
	// number 0. round returns when the worker is idle.
	round(ctx context.Context, s *stage, number, runs int) (tally, error)
	// verify checks the results and sets the fields of r that only this workload has.
	verify(ctx context.Context, s *stage, r *Result) error
}

// tally contains the results of a round.
type tally struct {
	units     int
	runs      int // number of runs
	appends   int // number of appends to compare with the limit; 0 for the number of commits
	latencies []time.Duration
	elapsed   time.Duration // measured time; 0 for the duration of the whole round
}

// split returns the number of runs of each round.
func (w *workload) split(runs int) []int {
	n := runs
	if w.rounds > 0 {
		n = min(n, w.rounds)
	}
	all := make([]int, n)
	for i := range all {
		all[i] = runs*(i+1)/n - runs*i/n
	}
	return all
}

// payload returns 100 bytes that contain the number n. It allocates only the result, because it is
// called while allocations are counted.
func payload(n int) string {
	var buf [100]byte
	text := append(strconv.AppendInt(append(buf[:0], "payload of run "...), int64(n), 10), ' ')
	for len(text) < len(buf) {
		text = append(text, 'x')
	}
	return string(text)
}
