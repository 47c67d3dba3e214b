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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Outcome is what came of the run of one execution.
type Outcome struct {
	// Run is the handle of the run.
	Run *workflow.Handle
	// Status is how it ended; if it is none of the final ones, the run is stuck.
	Status workflow.Status
	// Result is what it returned, in its stored form; nil unless it completed.
	Result json.RawMessage
	// Failure is why it did not complete; nil if it did.
	Failure *event.Failure
	// Log is its log, as Env.Log renders it.
	Log []string

	events []event.Event
}

// trial is one execution of a workflow in an Env of its own.
type trial struct {
	Outcome
	state    any
	problems []string // what the Env itself has found wrong
	points   []point
	killed   []int // indices into points
	kills    []string
	blocked  bool // the code did not fit the log
	effects  []effect
	steps    map[string]stepEnd
	// onceSteps are the names of the steps that are not idempotent.
	onceSteps map[string]bool
}

// stepEnd is how a step ended.
type stepEnd struct {
	Step, Args, Result, Code string
}

// workload is a workflow with its input, as explorations execute it.
type workload struct {
	t     testing.TB
	name  string
	opts  []Option
	setup func(*Env)
	start func(ctx context.Context, c *workflow.Client) (*workflow.Handle, func(context.Context) error, error)
	explo exploration
}

func newWorkload[In, Out any](t testing.TB, d workflow.Definition[In, Out], in In, setup func(*Env), opts []Option) *workload {
	return &workload{
		t: t, name: d.Name(), opts: opts, setup: setup, explo: defaults(opts).explore,
		start: func(ctx context.Context, c *workflow.Client) (*workflow.Handle, func(context.Context) error, error) {
			run, err := d.Start(ctx, c, in)
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

// run executes the workflow once. prepare changes the Env before the setup,
// verify looks at it before it is closed; both may be nil.
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
	tr.points, tr.killed, tr.effects, tr.onceSteps = e.crash.reached, e.crash.killed, e.effects, e.onceSteps
	e.mu.Unlock()
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

// calm waits until everything waits.
func (e *Env) calm() error {
	if !e.virtual() {
		return nil
	}
	c := &e.conductor
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.settle(e.ctx)
}

// read reads what came of the run.
func (e *Env) read(tr *trial) {
	loaded, err := e.store.Load(e.ctx, []store.Load{{Run: tr.Run.ID()}})
	if err == nil {
		err = loaded[0].Err
	}
	if err == nil {
		tr.Status = loaded[0].Record.Status
		tr.blocked = loaded[0].Record.Place == store.PlaceBlocked
		tr.events, err = decode(loaded[0].Frames)
	}
	if err != nil {
		e.fail("workflowtest: read the run: " + err.Error())
		return
	}
	tr.Log = textOf(tr.events)
	if last := tr.events[len(tr.events)-1]; last.Type.Terminal() {
		tr.Result, tr.Failure = last.Payload, last.Failure
	}
	tr.steps = stepEnds(tr.events)
}

// stepEnds returns how each step ended, by key.
func stepEnds(events []event.Event) map[string]stepEnd {
	created := map[uint64]*event.Event{}
	ends := map[string]stepEnd{}
	for i := range events {
		ev := &events[i]
		switch ev.Type {
		case event.StepCreated:
			created[ev.Seq] = ev
		case event.StepCompleted, event.StepFailed:
			c := created[ev.Ref]
			end := stepEnd{Step: c.Name, Args: string(c.Payload), Result: string(ev.Payload)}
			if ev.Failure != nil {
				end.Code = ev.Failure.Code
			}
			ends[c.Key] = end
		}
	}
	return ends
}

// unread returns how many messages the run has accepted and never taken.
func (o *Outcome) unread() []string {
	if len(o.events) == 0 {
		return nil
	}
	last := &o.events[len(o.events)-1]
	var lines []string
	for _, id := range last.Unread {
		line := "a message that came when the code had ended"
		for i := range o.events {
			if ev := &o.events[i]; ev.Item == id {
				line = fmt.Sprintf("event %d, a message of topic %s: %s", ev.Seq, ev.Name, ev.Payload)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// recorder is the testing.TB of one execution of an exploration: what fails is
// kept, to be reported with where it was.
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

// guard calls f so that it may end its goroutine, as Fatal does.
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
