package workflowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Outcome is the outcome of a run in one execution.
type Outcome struct {
	// Run is the handle of the run.
	Run *workflow.Handle
	// Status is the status at the end of the execution. If it is not terminal, the run is stuck.
	Status workflow.Status
	// Result is the stored form of the run's result. It is nil unless the run completed.
	Result json.RawMessage
	// Failure is the failure of the run. It is nil if the run completed.
	Failure *event.Failure
	// Log is the log of the run, as rendered by Env.Log.
	Log []string

	events []event.Event         // events of the first run of the chain
	last   []event.Event         // events of the last run of the chain
	asides map[event.ItemID]bool // IDs of delivered items that are not messages
}

// trial is one execution of a workflow in its own Env.
type trial struct {
	Outcome
	state    any
	problems []string // faults that the Env has detected
	points   []point
	killed   []int // indices into points
	kills    []string
	blocked  bool // a run was blocked because the code did not match its log
	effects  []effect
	steps    map[string]stepEnd // outcomes of the steps of all runs, by name of the run and key, see kin
	// onceSteps contains the names of the steps that are declared nonidempotent.
	onceSteps map[string]bool
	kin       kin
}

// stepEnd is the outcome of a step.
type stepEnd struct {
	Step, Args, Result, Code string
}

// workload is a workflow with its input, which explorations execute.
type workload struct {
	t     testing.TB
	name  string
	opts  []Option
	setup func(*Env)
	start func(ctx context.Context, c *workflow.Client) (*workflow.Handle, func(context.Context) error, error)
	explo exploration
}

func newWorkload[In, Out any](t testing.TB, d workflow.Definition[In, Out], in In, setup func(*Env), opts []Option) *workload {
	explo := defaults(opts).explore
	return &workload{
		t: t, name: d.Name(), opts: opts, setup: setup, explo: explo,
		start: func(ctx context.Context, c *workflow.Client) (*workflow.Handle, func(context.Context) error, error) {
			with := ctx
			if explo.context != nil {
				with = explo.context(ctx)
			}
			run, err := d.Start(with, c, in, explo.start...)
			if err != nil {
				return nil, nil, err
			}
			return run.Handle, func(ctx context.Context) error {
				_, err := run.Result(ctx)
				return err
			}, nil
		},
	}
}

// run executes the workflow once in a new Env. It calls prepare before the setup of the test, and
// verify before the Env is closed. Both may be nil.
func (w *workload) run(prepare func(*Env), verify func(*Env, *trial)) *trial {
	rec := &recorder{TB: w.t}
	e := newEnv(rec, append(slices.Clone(w.opts), func(o *options) { o.quiet = true }))
	defer e.close()
	if prepare != nil {
		prepare(e)
	}
	tr := &trial{kills: slices.Clone(e.crash.kills)}
	rec.guard(func() { w.setup(e) })
	w.follow(e, tr)
	if tr.Run != nil {
		if w.explo.state != nil {
			rec.guard(func() { tr.state = w.explo.state(e) })
		}
		if w.explo.check != nil && len(rec.errors()) == 0 {
			rec.guard(func() { w.explo.check(rec, e, tr.Outcome) })
		}
		if verify != nil {
			verify(e, tr)
		}
	}
	e.mu.Lock()
	tr.points, tr.killed, tr.effects, tr.onceSteps = e.crash.reached, e.crash.killed, slices.Clone(e.effects), e.onceSteps
	e.mu.Unlock()
	for i := range tr.effects {
		tr.effects[i].Key = tr.kin.name(tr.effects[i].Run) + tr.effects[i].Key
	}
	tr.problems = append(rec.errors(), tr.problems...)
	return tr
}

// follow starts the run and waits for its end.
func (w *workload) follow(e *Env, tr *trial) {
	run, wait, err := w.start(e.ctx, e.client)
	if err != nil {
		e.fail("workflowtest: " + err.Error())
		return
	}
	tr.Run = run
	err = wait(e.ctx)
	var failed *workflow.RunError
	var stuck *StuckError
	if err != nil && !errors.As(err, &failed) && !errors.As(err, &stuck) {
		e.fail("workflowtest: wait for the run: " + err.Error())
	}
	if err := e.calm(); err != nil && !errors.As(err, &stuck) {
		e.fail("workflowtest: " + err.Error())
	}
	e.read(tr)
}

// calm waits until everything waits, or in real time until every run has ended or is idle.
func (e *Env) calm() error {
	if !e.virtual() {
		return e.rest()
	}
	c := &e.scheduler
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.settle(e.ctx)
}

// recorder is the testing.TB of one execution of an exploration. It keeps failures, which the
// exploration reports later with the crash point or the seed.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed []string
}

func (r *recorder) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, text)
}

func (r *recorder) errors() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failed)
}

// guard calls f on a new goroutine, because f may end its goroutine, as Fatal does.
func (r *recorder) guard(f func()) {
	done := make(chan struct{})
	var crash any
	go func() {
		defer close(done)
		defer func() { crash = recover() }()
		f()
	}()
	<-done
	if crash != nil {
		r.add(fmt.Sprintf("panic: %v", crash))
	}
}

func (r *recorder) Helper()                           {}
func (r *recorder) Error(args ...any)                 { r.add(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.add(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.add("the check failed") }
func (r *recorder) Failed() bool                      { return len(r.errors()) > 0 }
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}

func (r *recorder) FailNow() {
	if !r.Failed() {
		r.Fail()
	}
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
