package workflowtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/flowgen/flowgen/sqlitestore"
)

var (
	crashSample = flag.Int("crash.sample", 2, "number of crashes, and of pairs of them, for each operation on SQLite and on Redis")
	crashSeed   = flag.Uint64("crash.seed", 1, "seed of the choice of them")
)

// operation is a workflow that uses one operation of runs, or on whose run one operation is
// performed. Waits are multiples of a unit of time, which is an hour in virtual time and some
// milliseconds in real time.
type operation struct {
	code  func(unit time.Duration) func(ctx workflow.Context, in string) (string, error)
	setup func(e *workflowtest.Env, unit time.Duration)
	opts  func(unit time.Duration) []workflowtest.Option
	want  string // type of an event that the log without a crash must contain
}

// The step lift needs a permit. A separate run executes it when that run holds the permit.
var (
	cranes = limit.New("shop.cranes", limit.Config{AtOnce: 1})
	lift   = newStep("shop.lift", shim.Policy{Uses: shim.Uses(func(stepArgs) []limit.Use { return []limit.Use{cranes.Use(1)} })})
)

// timed returns the code of an order that takes three units of time.
func timed(unit time.Duration) func(ctx workflow.Context, in string) (string, error) {
	return func(ctx workflow.Context, in string) (string, error) {
		paid, err := call(ctx, charge, in)
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, 3*unit); err != nil {
			return "", err
		}
		packed, err := call(ctx, pack, in)
		return paid + packed, err
	}
}

// untimed returns code that does not depend on the unit of time.
func untimed(code func(ctx workflow.Context, in string) (string, error)) func(time.Duration) func(workflow.Context, string) (string, error) {
	return func(time.Duration) func(workflow.Context, string) (string, error) { return code }
}

// commands returns a function that sends commands to the run under test, one after the other, after
// one unit of time.
func commands(all ...func(h *workflow.Handle, ctx context.Context) error) func(*workflowtest.Env, time.Duration) {
	return func(e *workflowtest.Env, unit time.Duration) {
		e.At(unit, func(ctx context.Context) {
			for _, tell := range all {
				if err := tell(e.Run(), ctx); err != nil && !ends(err) && ctx.Err() == nil {
					panic(err)
				}
			}
		})
	}
}

// ends reports whether a command was refused because the run has ended, or because it is ending and
// cannot be paused.
func ends(err error) bool {
	var status *workflow.StatusError
	return errors.Is(err, workflow.ErrRunTerminal) || errors.As(err, &status) && status.Verb == "pause"
}

// says returns a command that sends a note to the run under test.
func says(text string) func(*workflow.Handle, context.Context) error {
	return func(h *workflow.Handle, ctx context.Context) error {
		return note.Send(ctx, h, text, workflow.IdempotencyKey(text))
	}
}

// startsWith returns the option that starts the run under test with opt.
func startsWith(opt func(unit time.Duration) workflow.StartOption) func(time.Duration) []workflowtest.Option {
	return func(unit time.Duration) []workflowtest.Option {
		return []workflowtest.Option{workflowtest.StartWith(opt(unit))}
	}
}

// leaves returns a parent that ends while its child sleeps for the given number of units.
func leaves(p workflow.ParentClose, units int) operation {
	return operation{
		code: untimed(func(ctx workflow.Context, in string) (string, error) {
			child := parcel.StartChild(ctx, in, workflow.WithParentClose(p))
			return in, child.Started(ctx)
		}),
		setup: func(e *workflowtest.Env, unit time.Duration) {
			shim.BindWorkflow(e, parcel, func(ctx workflow.Context, in string) (string, error) {
				if err := workflow.Sleep(ctx, time.Duration(units)*unit); err != nil {
					return "", err
				}
				return call(ctx, pack, in)
			})
		},
		want: "child_created",
	}
}

// bare adapts a command to a function without options.
func bare(f func(*workflow.Handle, context.Context, ...workflow.CommandOption) error) func(*workflow.Handle, context.Context) error {
	return func(h *workflow.Handle, ctx context.Context) error { return f(h, ctx) }
}

var operations = map[string]operation{
	"pause and resume": {code: timed, setup: commands(bare((*workflow.Handle).Pause), bare((*workflow.Handle).Resume)), want: "run_paused"},
	"pause while a step with limits is tried again": {
		code: untimed(func(ctx workflow.Context, in string) (string, error) { return call(ctx, lift, in) }),
		setup: func(e *workflowtest.Env, unit time.Duration) {
			var back atomic.Bool
			lift.Bind(e, func(_ context.Context, arg string) (string, error) {
				if !back.Load() {
					return "", step.RetryAfter(errors.New("the crane is away"), unit)
				}
				return arg, nil
			})
			commands(bare((*workflow.Handle).Pause), func(*workflow.Handle, context.Context) error {
				back.Store(true)
				return nil
			}, bare((*workflow.Handle).Resume))(e, unit)
		}, want: "run_paused",
	},
	"hold and release": {
		code: timed, setup: commands(bare((*workflow.Handle).Release)), want: "run_released",
		opts: startsWith(func(unit time.Duration) workflow.StartOption { return workflow.WithHoldFor(1000 * unit) }),
	},
	"messages of the start": {
		code: untimed(func(ctx workflow.Context, _ string) (string, error) {
			first, ok, err := note.TryReceive(ctx)
			if !ok || err != nil {
				return "", fmt.Errorf("the message of the start is not there: %w", err)
			}
			paid, err := call(ctx, charge, first)
			if err != nil {
				return "", err
			}
			second, err := note.Receive(ctx)
			return paid + second, err
		}), setup: commands(says("one"), says("two")), want: "message_received",
		opts: startsWith(func(time.Duration) workflow.StartOption {
			return workflow.WithMessage(note, "one", workflow.IdempotencyKey("one"))
		}),
	},
	"single steps": {
		code: timed, setup: commands(bare((*workflow.Handle).Step), bare((*workflow.Handle).Step), bare((*workflow.Handle).Resume)), want: "run_stepped",
		opts: startsWith(func(time.Duration) workflow.StartOption { return workflow.WithDebug() }),
	},
	"undo": {code: untimed(undone), want: "run_failed"},
	"version": {code: untimed(func(ctx workflow.Context, in string) (string, error) {
		if workflow.Version(ctx, "pack-first", 1) >= 1 {
			return call(ctx, pack, in)
		}
		return call(ctx, charge, in)
	}), want: "version_recorded"},
	"steps of another queue": {code: untimed(func(ctx workflow.Context, in string) (string, error) {
		rendered, err := call(ctx, render, in)
		if err != nil {
			return "", err
		}
		return call(ctx, pack, rendered)
	}), want: "child_created"},
	"children that end with their parent": leaves(workflow.ParentCloseCancel, 10_000),
	"children that are abandoned":         leaves(workflow.ParentCloseAbandon, 10_000),
	"children that are waited for":        leaves(workflow.ParentCloseWait, 2),
	"messages between runs and continue as new": {
		code: untimed(familyCode),
		setup: func(e *workflowtest.Env, unit time.Duration) {
			bindFamily(e)
			commands(says("one"), says("two"))(e, unit)
		},
		want: "run_continued",
	},
	"restart, fork, retry and resume as new": {
		code:  untimed(func(ctx workflow.Context, _ string) (string, error) { return note.Receive(ctx) }),
		setup: runAgain,
		want:  "message_received",
	},
}

// undone is the code of a workflow that registers compensations of its steps, and fails.
func undone(ctx workflow.Context, in string) (string, error) {
	for _, what := range []string{"one", "two"} {
		if _, err := call(ctx, charge, what); err != nil {
			return "", err
		}
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := call(ctx, pack, "undo "+what)
			return err
		})
	}
	return "", errors.New("changed my mind about " + in)
}

// again is a workflow of which runAgain makes reruns.
var again = flow("shop.again")

// runAgain makes all kinds of reruns, of a failed run and of a canceled run. It sends their
// outcomes to the run under test.
func runAgain(e *workflowtest.Env, unit time.Duration) {
	var open atomic.Bool
	ship := newStep("shop.ship-late", shim.Policy{})
	ship.Bind(e, func(_ context.Context, arg string) (string, error) {
		if !open.Load() {
			return "", step.Fatal(errors.New("closed"))
		}
		return arg, nil
	})
	shim.BindWorkflow(e, again, func(ctx workflow.Context, in string) (string, error) {
		paid, err := call(ctx, charge, in)
		if err != nil {
			return "", err
		}
		return call(ctx, ship, paid)
	})
	shim.BindWorkflow(e, parcel, timed(unit))
	e.At(unit, func(ctx context.Context) {
		told, err := inEveryWay(ctx, e.Client(), &open)
		if err == nil {
			err = note.Send(ctx, e.Run(), told)
		}
		if err != nil && !errors.Is(err, workflow.ErrRunTerminal) && ctx.Err() == nil {
			panic(err)
		}
	})
}

func inEveryWay(ctx context.Context, c *workflow.Client, open *atomic.Bool) (told string, err error) {
	first, err := again.Start(ctx, c, "a")
	if err != nil {
		return "", err
	}
	if got, err := first.Result(ctx); err == nil {
		return "", fmt.Errorf("the run that should fail has completed with %q", got)
	}
	open.Store(true)
	canceled, err := parcel.Start(ctx, c, "c")
	if err != nil {
		return "", err
	}
	if err := canceled.Cancel(ctx, "not now"); err != nil {
		return "", err
	}
	if _, err := canceled.Result(ctx); !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("the run that was cancelled: %w", err)
	}
	for _, do := range []func(context.Context) (*workflow.Run[string], error){
		func(ctx context.Context) (*workflow.Run[string], error) { return first.Retry(ctx) },
		func(ctx context.Context) (*workflow.Run[string], error) { return canceled.RetryCanceled(ctx) },
		func(ctx context.Context) (*workflow.Run[string], error) { return first.Restart(ctx) },
		func(ctx context.Context) (*workflow.Run[string], error) {
			return first.Fork(ctx, "again/shop.ship-late#1")
		},
	} {
		run, err := do(ctx)
		if err != nil {
			return "", err
		}
		got, err := run.Result(ctx)
		if err != nil {
			return "", err
		}
		told += got + " "
	}
	return told, nil
}

// prepare returns a setup that registers the workflow of an operation and everything that it calls.
func (o operation) prepare(unit time.Duration) func(*workflowtest.Env) {
	return func(e *workflowtest.Env) {
		shim.BindWorkflow(e, o.workflow(), o.code(unit))
		if o.want != "run_continued" { // the setup of that operation binds pack
			pack.Bind(e, echo)
		}
		charge.Bind(e, echo)
		render.Bind(e, echo)
		if o.setup != nil {
			o.setup(e, unit)
		}
	}
}

// workflow returns the definition of the workflow. A workflow that continues as new has its own
// name.
func (o operation) workflow() workflow.Definition[string, string] {
	if o.want == "run_continued" {
		return family
	}
	return order
}

// options returns the options for an exploration of the operation.
func (o operation) options(unit time.Duration, more ...workflowtest.Option) []workflowtest.Option {
	if o.opts != nil {
		more = append(more, o.opts(unit)...)
	}
	return more
}

func TestTEST3_EveryOperationOnRunsSurvivesCrashesAndAnyOrder(t *testing.T) {
	t.Parallel()
	for name, o := range operations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := workflowtest.Check(func(t testing.TB, e *workflowtest.Env, run workflowtest.Outcome) {
				if !holds(e, run.Run, o.want) {
					t.Errorf("the log holds no %s", o.want)
				}
			})
			r := workflowtest.CrashEverywhere(t, o.workflow(), "o1", o.prepare(time.Hour), o.options(time.Hour, workflowtest.Pairs(20), used)...)
			if r.Tried != r.Points || r.Points < 8 || r.Failed+r.Interrupted != 0 {
				t.Errorf("got %+v", r)
			}
			workflowtest.Interleave(t, o.workflow(), "o1", o.prepare(time.Hour), 24, o.options(time.Hour, workflowtest.AllowUnread())...)
		})
	}
}

// holds reports whether the log of a run contains an event of the given type.
func holds(e *workflowtest.Env, run *workflow.Handle, typ string) bool {
	for ev, err := range run.Events(e.Context()) {
		if err == nil && ev.Type.String() == typ {
			return true
		}
	}
	return false
}

func TestTEST3_EveryOperationOnRunsSurvivesCrashesOnSQLite(t *testing.T) {
	crashSampled(t, func(t testing.TB) store.Store {
		st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
		if err != nil {
			t.Fatal(err)
		}
		return st
	})
}

func TestTEST3_EveryOperationOnRunsSurvivesCrashesOnRedis(t *testing.T) {
	url := redistest.Start(t).URL()
	var n atomic.Int64
	crashSampled(t, func(t testing.TB) store.Store {
		st, err := redisstore.Open(fmt.Sprintf("%s?prefix=op%d", url, n.Add(1)))
		if err != nil {
			t.Fatal(err)
		}
		return st
	})
}

// crashSampled crashes workers at some points of each operation, on a store whose time is real.
func crashSampled(t *testing.T, open func(t testing.TB) store.Store) {
	const unit = 5 * time.Millisecond
	for name, o := range operations {
		t.Run(name, func(t *testing.T) {
			r := workflowtest.CrashEverywhere(t, o.workflow(), "o1", o.prepare(unit), o.options(unit, workflowtest.WithStore(open),
				workflowtest.Sample(*crashSample), workflowtest.Pairs(*crashSample), workflowtest.Seed(*crashSeed))...)
			if r.Tried == 0 || r.Failed != 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}
