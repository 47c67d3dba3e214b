// Package endure is the part of the benchmark program that runs a fleet for hours under all typical
// disturbances of deployments at the same time. It deploys builds, kills and restarts the server,
// deletes keys, and repairs the damage with the command for upkeep. It reports lost runs, the
// longest time in which an unaffected run made no progress, and the amount of log output.
//
// Read the files in this order: options.go, endure.go (the faults, as data), drive.go (starts and
// their outcomes), report.go. Package flows contains the workload.
package endure

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/lab/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Command is the configuration of the command line program.
var Command = harm.Command{Name: "endure", Usage: usage, Help: help, Parse: func(args []string, stderr io.Writer) (harm.Program, *harm.Options, error) {
	o, err := parse(args)
	return newExperiment(o, stderr), &o.Options, err
}}

// Worker is the role of the worker processes.
var Worker = harm.Role{Name: "endure-worker", Work: func(args *flag.FlagSet) func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
	args.IntVar(&flows.Build, "build", 1, "")
	return func(*record.Writer) (worker.Config, func(workflow.Registrar)) { return worker.Config{}, register }
}}

// register registers the code of a build. The same program simulates all builds, which differ only
// in the registered code.
func register(r workflow.Registrar) {
	flows.Register(r)
	mark := shim.NewWorkflow[workflow.None, workflow.None](fmt.Sprintf("endure.build-%d", flows.Build), "", shim.WorkflowPolicy{})
	shim.BindWorkflow(r, mark, func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
}

// experiment is one execution of the command.
type experiment struct {
	*harm.Experiment
	*options
	server *redis.Client

	mu       sync.Mutex
	journeys map[event.RunID]*journey
	started  int
	excused  map[event.RunID]string // deleted key by the root run of the affected runs
	damaged  []string               // deleted keys
	shared   int                    // number of deleted keys that belong to no single run
	fixes    int
	seen     map[string]bool // keys that deleteKeys has already considered
}

func newExperiment(o *options, stderr io.Writer) *experiment {
	return &experiment{
		Experiment: harm.NewExperiment(o.Seed, Worker.Name, stderr), options: o,
		journeys: map[event.RunID]*journey{}, excused: map[event.RunID]string{}, seen: map[string]bool{},
	}
}

// lookEvery is the interval between searches for new keys.
const lookEvery = 5 * time.Second

// schedule returns the faults of the experiment.
func (e *experiment) schedule() *harm.Schedule {
	s := &harm.Schedule{For: e.duration, Forgiving: true, Fleet: harm.Fleet{
		Workers: e.Workers, Stagger: e.deploy, After: e.deploy * time.Duration(e.Workers), Kill: 1, Stop: 2, Down: 100 * time.Millisecond,
		Args: func(build int) []string { return []string{"-build", fmt.Sprint(build)} },
	}}
	if e.bounce > 0 {
		s.Faults = append(s.Faults, e.RestartServer(e.bounce, 0, 2*time.Second))
	}
	if e.damage > 0 {
		s.Faults = append(s.Faults, harm.Fault{Name: "damage", After: lookEvery, Do: e.deleteKeys})
	}
	if e.upkeep > 0 {
		s.Faults = append(s.Faults, harm.Fault{Name: "upkeep", After: e.upkeep, Always: true, Do: e.repair})
	}
	return s
}

// Run executes the experiment with its files in dir.
func (e *experiment) Run(ctx context.Context, dir string) error {
	if err := e.Open(ctx, dir, "redis", harm.Settings("always")...); err != nil {
		return err
	}
	defer e.Close()
	e.server = redis.NewClient(&redis.Options{Addr: e.Servers[0].Addr})
	defer func() { _ = e.server.Close() }()
	return e.Play(ctx, e.schedule(), e.drive)
}

// Progress returns a description of the state of the experiment.
func (e *experiment) Progress() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := 0
	for _, j := range e.journeys {
		if j.done {
			ended++
		}
	}
	return fmt.Sprintf("%4.0fs  %d of %d runs have ended; %d deploys (%d by SIGKILL), %d bounces, %d keys deleted (%d of the store itself), %d repairs",
		e.Seconds(), ended, e.started, e.deploys(), e.Count(harm.Kills), e.Count(harm.Restarts), len(e.damaged), e.shared, e.fixes)
}

// deploys returns the number of workers that were replaced.
func (e *experiment) deploys() int { return e.Count(harm.Kills) + e.Count(harm.Stops) }

// deleteKeys considers each key once, soon after its creation, and deletes it with a certain
// probability.
func (e *experiment) deleteKeys(_, harmed context.Context, r *rand.Rand) error {
	keys, err := everyKey(harmed, e.server)
	if err != nil {
		return nil // The server is down.
	}
	for _, key := range keys {
		if !e.drawn(key) && r.IntN(e.damage) == 0 {
			e.deleteKey(harmed, e.server, key)
		}
	}
	return nil
}

func everyKey(ctx context.Context, server *redis.Client) ([]string, error) {
	var all []string
	scan := server.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		all = append(all, scan.Val())
	}
	return all, scan.Err()
}

// drawn reports whether a key has been considered before, and marks it as considered.
func (e *experiment) drawn(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.seen[key]
	e.seen[key] = true
	return before
}

// deleteKey deletes a key and excuses the affected runs. It excuses them before the deletion,
// because it cannot find them afterwards.
func (e *experiment) deleteKey(ctx context.Context, server *redis.Client, key string) {
	run := runOf(key)
	root := run
	if run != "" {
		loaded, err := e.Store.Load(ctx, []store.Load{{Run: run, Limit: -1}})
		if err == nil && loaded[0].Err == nil && loaded[0].Record.Root != "" {
			root = loaded[0].Record.Root
		}
	}
	n, err := server.Del(ctx, key).Result()
	if err == nil && n == 0 {
		return // The key does not exist.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.damaged = append(e.damaged, key)
	if root == "" {
		e.shared++
		return
	}
	e.excused[root], e.excused[run] = key, key
}

// runOf returns the run to which a key belongs, or "".
func runOf(key string) event.RunID {
	_, name, _ := strings.Cut(key, "}")
	name = strings.TrimLeft(name, "0123456789") // Remove the version of the format.
	letter, rest, ok := strings.Cut(name, ":")
	if !ok || len(letter) != 1 || !strings.ContainsAny(letter, "mlingxjOBsSCW") {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return event.RunID(event.PrefixRun + "_" + id)
}

// repair runs a repair of the store.
func (e *experiment) repair(ctx, _ context.Context, _ *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	report, err := fsck.Repair(ctx, e.Store, fsck.Options{By: "upkeep"})
	if err != nil {
		return nil // The server is down.
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range report.Fixes {
		if f.Outcome == fsck.OutcomeRepaired {
			e.fixes++
		}
	}
	return nil
}
