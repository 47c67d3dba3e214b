// Package chaos is the part of the benchmark program that disturbs a fleet. It executes many
// workflows on worker processes, which it kills, suspends and restarts at random. At the end it
// checks that every promise was kept.
//
// Package flows contains the workload, and package check contains the final check. Read the files
// in this order: options.go, plan.go (the requested runs), experiment.go (the faults, as data),
// drive.go (starts, messages, cancellations), limits.go (changes and pauses of limits), watch.go,
// report.go.
package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Command is the configuration of the command line program.
var Command = harm.Command{Name: "chaos", Usage: usage, Help: help, Parse: func(args []string, stderr io.Writer) (harm.Program, *harm.Options, error) {
	o, err := parse(args)
	return newExperiment(o, stderr), &o.Options, err
}}

// Worker is the role of the worker processes.
var Worker = harm.Role{Name: "chaos-worker", Work: func(args *flag.FlagSet) func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
	lease, heartbeat := args.Duration("lease", 0, ""), args.Duration("heartbeat", 0, "")
	return func(steps *record.Writer) (worker.Config, func(workflow.Registrar)) {
		return worker.Config{
			Heartbeat: *heartbeat, ClaimExpiry: *lease,
			Grace:       *lease / 2, // shorter than the longest steps
			Concurrency: 64,
			Parked:      200,     // low, so that there are many replays
			Recoveries:  1 << 20, // practically unlimited, because runs do not cause the ends of workers in this experiment
		}, func(r workflow.Registrar) { flows.Register(r, &flows.Hands{Record: steps}) }
	}
}}

// experiment is one execution of the command.
type experiment struct {
	*harm.Experiment
	*options
	orders []*order

	mu      sync.Mutex
	started map[event.RunID]bool // runs whose end has not been observed
	ended   map[event.RunID]time.Time
	answers map[event.RunID]flows.Result
	changes []check.Change

	capacities *capacities
	verdict    *check.Verdict
	evidence   *check.Evidence
	recoveries int // number of observed recoveries
	// recovered is the number of recoveries of each run since its last progress, at the last poll.
	recovered map[event.RunID]int
}

func newExperiment(o *options, stderr io.Writer) *experiment {
	return &experiment{
		Experiment: harm.NewExperiment(o.Seed, Worker.Name, stderr), options: o,
		started: map[event.RunID]bool{}, ended: map[event.RunID]time.Time{},
		answers: map[event.RunID]flows.Result{}, recovered: map[event.RunID]int{}, capacities: newCapacities(),
	}
}

// The names of the faults of this experiment.
const (
	failovers = "failovers"
	changes   = "changes" // changes of capacities
	pauses    = "pauses"  // pauses of limits, of keys of limits, and of runs
)

// schedule returns the faults of the experiment.
func (x *experiment) schedule() *harm.Schedule {
	each := x.every * time.Duration(x.Workers) // interval between two faults of the same worker
	s := &harm.Schedule{
		For: x.duration(), Within: x.duration() + x.Wait, Forgiving: x.restartServer || x.options.failovers > 0,
		Fleet: harm.Fleet{
			Workers: x.Workers, After: each / 2, Spread: each, Kill: 50, Stop: 15, Stall: 35,
			StallFor: x.lease, StallSpread: 3 * x.lease / 2, Down: x.lease,
			Args: func(int) []string { return []string{"-lease", x.lease.String(), "-heartbeat", x.heartbeat.String()} },
		},
	}
	if x.restartServer {
		s.Faults = append(s.Faults, x.RestartServer(2*x.lease, 5*x.lease, x.lease))
	}
	if n := x.options.failovers; n > 0 {
		s.Faults = append(s.Faults, harm.Fault{Name: failovers, After: x.duration() / time.Duration(n+1), Times: n,
			Do: func(ctx, _ context.Context, _ *rand.Rand) error { return x.failOver(ctx) }})
	}
	if x.limits {
		s.Faults = append(s.Faults,
			harm.Fault{Name: changes, After: x.every / 4, Spread: x.every / 2, Do: x.changeCapacity, Undo: x.restoreCapacities},
			harm.Fault{Name: pauses, After: x.every / 2, Spread: x.every, Do: x.pauseSome})
	}
	return s
}

// Run executes the experiment with its files in dir.
func (x *experiment) Run(ctx context.Context, dir string) error {
	var settings []string
	if x.restartServer {
		settings = harm.Settings(x.appendfsync)
	}
	if err := x.Open(ctx, dir, x.store, settings...); err != nil {
		return err
	}
	defer x.Close()
	x.orders = plan(x.options)
	err := x.Play(ctx, x.schedule(), func(ctx, _ context.Context) {
		driven := make(chan struct{})
		go func() {
			defer close(driven)
			x.drive(ctx)
		}()
		x.watch(ctx, driven)
		<-driven
	})
	if err != nil {
		return err
	}
	return x.judge(ctx)
}

// judge collects the evidence and stores the verdict.
func (x *experiment) judge(ctx context.Context) error {
	snapshot, err := inspect(ctx, x.Patient())
	if err != nil {
		return fmt.Errorf("read what the store holds: %w", err)
	}
	x.evidence = &check.Evidence{Snapshot: snapshot, Ended: x.ended, Answers: x.answers, Stalls: x.Stalls, Procs: runtime.GOMAXPROCS(0), Deaths: x.Deaths, Changes: x.changes}
	for _, o := range x.orders {
		x.evidence.Jobs = append(x.evidence.Jobs, o.Job)
	}
	if x.evidence.Executions, err = record.Read(x.Dir); err != nil {
		return err
	}
	if x.evidence.Codec, err = harm.Codec(); err != nil {
		return err
	}
	x.verdict = check.Check(*x.evidence)
	x.verdict.Violations = append(x.verdict.Violations, x.Violations...)
	return nil
}

// inspect reads the whole contents of a store.
func inspect(ctx context.Context, url string) (*store.Snapshot, error) {
	st, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }() // The store is only read, so an error of Close is irrelevant.
	inspector, ok := store.As[store.Inspector](st)
	if !ok {
		return nil, errors.New("the store does not show it")
	}
	return inspector.Inspect(ctx)
}
