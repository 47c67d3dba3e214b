package deploy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pinned and loose are the workflows of a ramp. The runs of loose are not pinned.
var (
	pinned = shim.NewWorkflow[job, int]("deploy.pinned", "job", shim.WorkflowPolicy{Pin: true})
	loose  = shim.NewWorkflow[job, int]("deploy.loose", "job", shim.WorkflowPolicy{})
)

// RampWorker is the role of the workers of a ramp. The record file of a worker shows which runs its
// build has executed.
var RampWorker = harm.Role{Name: "ramp-worker", Work: func(args *flag.FlagSet) func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
	name := args.String("build", "", "")
	return func(steps *record.Writer) (worker.Config, func(workflow.Registrar)) {
		return worker.Config{
			Build: *name, Concurrency: 400, Runs: 2000, Grace: 500 * time.Millisecond, Heartbeat: time.Second, ClaimExpiry: 5 * time.Second,
		}, func(r workflow.Registrar) { registerRamp(r, *name, steps) }
	}
}}

// registerRamp registers the code of a build. The code of each build executes other steps.
func registerRamp(r workflow.Registrar, build string, records *record.Writer) {
	names := []shim.Step[stepFunc]{reserve, charge, ship}
	if build != oldBuild {
		names[1] = check
	}
	for _, s := range []shim.Step[stepFunc]{reserve, charge, ship, check} {
		s.Bind(r, func(ctx context.Context, j job) (int, error) {
			call, _ := step.Current(ctx)
			err := errors.Join(records.Begin(call), harm.Rest(ctx, j.Step/10), records.End(call, record.Done))
			return 1, err
		})
	}
	code := func(ctx workflow.Context, j job) (sum int, err error) {
		for i, s := range names {
			n, err := shim.Call[int](ctx, s, j)
			if err != nil {
				return sum, err
			}
			if sum += n; i+1 < len(names) {
				if err := workflow.Sleep(ctx, 5*j.Step+time.Duration(j.N%20)*j.Step/10); err != nil {
					return sum, err
				}
			}
		}
		return sum, nil
	}
	shim.BindWorkflow(r, pinned, code)
	shim.BindWorkflow(r, loose, code)
}

const oldBuild, newBuild = "old", "new"

// ramp is a ramp of build new from 0 to 100 percent and back, with three workers of each build.
type ramp struct {
	store string
	pin   bool
	// early retires build new when it is rolled back. Otherwise it is retired when all runs have
	// ended.
	early bool
	runs  int
	step  time.Duration
}

// ramped contains the results of a ramp.
type ramped struct {
	completed, failed, blocked int
	byNew                      int // number of runs whose last step build new has executed
	asked, tooEarly            int // answers about whether build new is drained
	took                       time.Duration
}

// distributions are the percentages of build new.
var distributions = []int{0, 5, 50, 100, 0}

func (p *ramp) play(ctx context.Context, dir string) (got ramped, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return got, err
	}
	c := cell{store: p.store, runs: p.runs, step: p.step, still: time.Minute}
	what := p.store
	if what == "sqlite" {
		what = "sqlite:" + filepath.Join(dir, "runs.db")
	}
	s := &site{Experiment: harm.NewExperiment(0, RampWorker.Name, io.Discard), cell: &c}
	if err := s.Open(ctx, dir, what); err != nil {
		return got, err
	}
	defer s.Close()
	began := time.Now()
	for i := range 6 {
		build := []string{oldBuild, newBuild}[i%2]
		if _, err := s.Hire(fmt.Sprintf("worker-%d-%s", i, build), "-build="+build); err != nil {
			return got, err
		}
	}
	watching, stop := context.WithCancel(ctx)
	var polling sync.WaitGroup
	defer polling.Wait()
	defer stop()
	client := ops.New(s.Client)
	if err := p.distribute(ctx, s, client, func() { polling.Go(func() { p.poll(watching, s, client, &got) }) }); err != nil {
		return got, err
	}
	if _, err := s.await(ctx); err != nil {
		return got, err
	}
	if err := p.drain(ctx, client); err != nil {
		return got, err
	}
	stop()
	polling.Wait()
	got.took = time.Since(began)
	if got.blocked, err = s.logged("run is blocked"); err != nil {
		return got, err
	}
	all, err := s.Client.Count(ctx, workflow.Filter{Internal: true})
	got.completed, got.failed = all.ByStatus()[workflow.StatusCompleted], all.ByStatus()[workflow.StatusFailed]
	for _, by := range executors(s.Dir) {
		if by.build == newBuild {
			got.byNew++
		}
	}
	return got, err
}

// distribute starts the runs in equal parts, one for each distribution, and rolls build new back.
func (p *ramp) distribute(ctx context.Context, s *site, client *ops.Client, live func()) error {
	flow := loose
	if p.pin {
		flow = pinned
	}
	for n, percent := range distributions {
		for { // the builds are known when their workers have registered them
			_, err := client.Ramp(ctx, map[string]int{oldBuild: 100 - percent, newBuild: percent})
			if err == nil {
				break
			}
			if !errors.As(err, new(*ops.UnknownBuildError)) || !harm.Pause(ctx, 100*time.Millisecond) {
				return err
			}
		}
		if n == 0 {
			live()
		}
		harm.Pause(ctx, 5500*time.Millisecond) // the client uses the percentages within five seconds
		var batch []workflow.StartRequest[job]
		for i := range p.runs / len(distributions) {
			batch = append(batch, workflow.StartRequest[job]{Input: job{N: i, Step: p.step}})
		}
		for part := range slices.Chunk(batch, 200) {
			started, err := flow.StartMany(ctx, s.Client, part)
			if err != nil {
				return err
			}
			for _, one := range started {
				if one.Err != nil {
					return one.Err
				}
				s.ids = append(s.ids, one.Run.ID())
			}
		}
	}
	if p.early {
		return client.Retire(ctx, newBuild, "")
	}
	return nil
}

// drain retires build new and waits until it is drained.
func (p *ramp) drain(ctx context.Context, client *ops.Client) error {
	if !p.early {
		if err := client.Retire(ctx, newBuild, ""); err != nil {
			return err
		}
	}
	for {
		d, err := client.Drained(ctx, newBuild)
		if err == nil && d.Answer == ops.DrainedYes {
			return nil
		}
		if !harm.Pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("build %s is not drained: %s: %w", newBuild, d.Reason, errors.Join(err, ctx.Err()))
		}
	}
}

// poll asks whether build new is drained, and compares the answer with the records of the steps.
func (p *ramp) poll(ctx context.Context, s *site, client *ops.Client, got *ramped) {
	for harm.Pause(ctx, time.Second) {
		before := executors(s.Dir)
		d, err := client.Drained(ctx, newBuild)
		if err != nil {
			continue
		}
		if got.asked++; d.Answer != ops.DrainedYes {
			continue
		}
		after := executors(s.Dir)
		for run, by := range before {
			if now := after[run]; by.build == newBuild && !by.last && now.build == newBuild && !now.last {
				got.tooEarly++
			}
		}
	}
}

// executor is the build that has executed a run last. last is set if it has executed the last step.
type executor struct {
	build string
	last  bool
}

// executors returns the executors of the runs from the records of the steps.
func executors(dir string) map[workflow.RunID]executor {
	all, _ := record.Read(dir) // a line that is being written makes the records of a worker incomplete
	at, by := map[workflow.RunID]time.Time{}, map[workflow.RunID]executor{}
	for _, e := range all {
		if e.Began.After(at[e.Run]) {
			at[e.Run] = e.Began
			by[e.Run] = executor{e.Worker[strings.LastIndexByte(e.Worker, '-')+1:], strings.Contains(e.Key, "deploy.ship") && e.Outcome == record.Done}
		}
	}
	return by
}

const rampHead = `| store | pin | retired | completed | by the new build | failed | blocked by a worker | drained: asked | too early | took |
|---|---|---|---|---|---|---|---|---|---|
`

func (p *ramp) name() string { return fmt.Sprintf("%s/pin=%v/early=%v", p.store, p.pin, p.early) }

func (p *ramp) row(got *ramped) string {
	when := map[bool]string{true: "at the rollback", false: "when all had ended"}[p.early]
	return fmt.Sprintf("| %s | %v | %s | %d of %d | %d | %d | %d | %d | %d | %d s |", p.store, p.pin, when, got.completed, p.runs, got.byNew, got.failed, got.blocked, got.asked,
		got.tooEarly, int(got.took/time.Second))
}

// ramps returns the ramps of the table.
func ramps() (all []ramp) {
	for _, store := range []string{"sqlite", "redis"} {
		all = append(all, ramp{store: store, pin: true}, ramp{store: store, pin: true, early: true}, ramp{store: store})
	}
	return all
}
