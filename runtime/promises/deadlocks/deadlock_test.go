package deadlocks_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var source = sync.OnceValue(func() []string {
	text, err := os.ReadFile("shapes_test.go")
	if err != nil {
		panic(err)
	}
	return strings.Split(string(text), "\n")
})

// place returns the file and line of a comment in shapes_test.go.
func place(t *testing.T, comment string) string {
	t.Helper()
	for i, line := range source() {
		if strings.HasSuffix(line, "// "+comment) {
			return fmt.Sprintf("shapes_test.go:%d", i+1)
		}
	}
	t.Fatalf("no line ends with %q", comment)
	return ""
}

// leak sets foreign to a future of a run that has ended.
func leak(w *flowtest.World) {
	holder := flowtest.Flow[int, string]("deadlocks.holder")
	r := w.Work(worker.Config{}, flowtest.As(holder, func(ctx workflow.Context, _ int) (string, error) {
		foreign = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return "", workflow.Sleep(ctx, time.Hour) })
		return "", nil
	}))
	flowtest.Result(w, flowtest.Start(w, holder, 0))
	r.Stop()
}

// found returns the DeadlockError of a failed run. It fails the test if the run did not fail
// because of a deadlock.
func found(t *testing.T, err *workflow.RunError) *workflow.DeadlockError {
	t.Helper()
	var dead *workflow.DeadlockError
	if err.Code != "deadlock" || err.Status != workflow.StatusFailed || !errors.As(err, &dead) {
		t.Fatalf("the run ended with %q: %v", err.Code, err)
	}
	if err.Reason != dead.Error() {
		t.Errorf("the error says\n%s\nand its fields\n%s", err.Reason, dead.Error())
	}
	for i := range dead.Waits {
		dead.Waits[i].Position = filepath.Base(dead.Waits[i].Position)
	}
	return dead
}

func TestFLOW17_ARunThatCanNeverGoOnFailsAtOnceAndNamesWhoWaitsForWhom(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		leak(w)
		for name, s := range shapes {
			t.Run(name, func(t *testing.T) {
				flow := flowtest.Flow[int, string]("deadlocks." + strings.ReplaceAll(name, " ", "-") + ".ring")
				r := w.Work(worker.Config{}, append(steps(), flowtest.As(flow, s.dead))...)
				run := flowtest.Start(w, flow, 0)
				dead := found(t, flowtest.Failure(w, run))
				r.Stop()
				want := &workflow.DeadlockError{}
				text := "the run can never continue: each of its branches waits for another one"
				for i, wait := range s.waits {
					wait.Position = place(t, wait.Position)
					want.Waits = append(want.Waits, wait)
					text += fmt.Sprintf("%s branch %s waits for %s at %s", ":;"[min(i, 1):][:1], wait.Branch, wait.For, wait.Position)
				}
				if diff := cmp.Diff(want, dead); diff != "" {
					t.Errorf("who waits for whom (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(text, dead.Error()); diff != "" {
					t.Errorf("text (-want +got):\n%s", diff)
				}
				log := w.Log(run)
				if n := len(flowtest.Filter(log, event.CancelRequested)); n != 1 {
					t.Errorf("the log records %d deadlocks", n)
				}
				lines := 0
				for _, line := range w.Lines("run failed") {
					if strings.Contains(line, string(run.ID())) {
						lines++
						if !flowtest.ContainsAll(line, "code=deadlock", "can never continue", s.waits[0].Branch) {
							t.Errorf("the log says %s", line)
						}
					}
				}
				if lines != 1 {
					t.Errorf("%d lines, want one", lines)
				}
			})
		}
	})
}

func TestFLOW17_AProgramThatLooksLikeADeadlockGoesOn(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for name, s := range shapes {
			t.Run(name, func(t *testing.T) {
				flow := flowtest.Flow[int, string]("deadlocks." + strings.ReplaceAll(name, " ", "-") + ".ring")
				r := w.Work(worker.Config{}, append(steps(), flowtest.As(flow, s.alive))...)
				defer r.Stop()
				if got := flowtest.Result(w, flowtest.Start(w, flow, 0)); got != "alive" {
					t.Errorf("got %q", got)
				}
			})
		}
	})
}

// waiting contains programs whose branches can be continued by an event from outside. send sends
// this event.
var waiting = map[string]struct {
	code code
	send func(t *testing.T, w *flowtest.World, run *workflow.Run[string])
}{
	"a message": {
		code: func(ctx workflow.Context, _ int) (string, error) {
			got := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return tell.Receive(ctx) })
			return together(ctx, got)
		},
		send: func(t *testing.T, w *flowtest.World, run *workflow.Run[string]) {
			if err := tell.Send(w.Ctx, run, "alive"); err != nil {
				t.Fatal(err)
			}
		},
	},
	// The answer to the question cancels a context. This ends the wait of a branch that waits for
	// itself.
	"a question": {
		code: func(ctx workflow.Context, _ int) (string, error) {
			limited, cancel := workflow.WithCancel(ctx)
			stop.Handle(ctx, nil, func(_ workflow.Context, q string) (string, error) {
				cancel()
				return q, nil
			})
			var a future
			a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return a.Get(ctx) })
			if _, err := a.Get(limited); !errors.Is(err, workflow.ErrCanceled) {
				return "", err
			}
			return "alive", nil
		},
		send: func(t *testing.T, w *flowtest.World, run *workflow.Run[string]) {
			if _, err := stop.Ask(w.Ctx, run, "now"); err != nil {
				t.Fatal(err)
			}
		},
	},
	// The program waits only for the end of its own context.
	"a cancel that is waited for": {
		code: func(ctx workflow.Context, _ int) (string, error) {
			if _, err := workflow.Select(ctx); !errors.Is(err, workflow.ErrCanceled) {
				return "", err
			}
			return "alive", nil
		},
		send: func(t *testing.T, w *flowtest.World, run *workflow.Run[string]) {
			if err := run.Cancel(w.Ctx, "enough"); err != nil {
				t.Fatal(err)
			}
		},
	},
}

func TestFLOW17_ARunThatSomethingFromOutsideCanWakeWaits(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for name, tt := range waiting {
			t.Run(name, func(t *testing.T) {
				flow := flowtest.Flow[int, string]("deadlocks.waiting-" + strings.ReplaceAll(name, " ", "-"))
				r := w.Work(worker.Config{}, flowtest.As(flow, tt.code))
				run := flowtest.Start(w, flow, 0)
				w.Eventually("the run waits", func() bool { return w.Parked(run) && len(w.Log(run)) > 1 })
				r.Stop() // the next worker has only the log of the run
				r = w.Work(worker.Config{}, flowtest.As(flow, tt.code))
				defer r.Stop()
				tt.send(t, w, run)
				if got := flowtest.Result(w, run); got != "alive" {
					t.Errorf("got %q", got)
				}
			})
		}
	})
}

func TestFLOW17_APausedRunIsLookedAtWhenItIsResumed(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		flow := flowtest.Flow[int, string]("deadlocks.paused")
		w.Work(worker.Config{}, append(steps(), flowtest.As(flow, func(ctx workflow.Context, n int) (string, error) {
			if _, err := tell.Receive(ctx); err != nil {
				return "", err
			}
			return shapes["futures in a ring"].dead(ctx, n)
		}))...)
		run := flowtest.Start(w, flow, 0)
		w.Reach(run, event.WaitCreated, 1)
		if err := run.Pause(w.Ctx); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.RunPaused, 1)
		if err := tell.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.MessageReceived, 1)
		if log := w.Log(run); log[len(log)-1].Type.Terminal() {
			t.Error("the run ended while it was paused")
		}
		if err := run.Resume(w.Ctx); err != nil {
			t.Fatal(err)
		}
		found(t, flowtest.Failure(w, run))
	})
}

// cleans returns the code of a run with three branches. All of them wait for one another. After the
// deadlock, two branches execute a cleanup step each, and the run has two compensations. If again
// is set, the branches wait for one another again after the cleanup.
func cleans(again bool) code {
	return func(ctx workflow.Context, n int) (string, error) {
		for i := range 2 {
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := echo.Call(ctx, fmt.Sprint("undo ", i))
				return err
			})
		}
		var a, b future
		clean := func(ctx workflow.Context, what string, f *future) (string, error) {
			v, err := (*f).Get(ctx)
			if !errors.Is(err, workflow.ErrCanceled) {
				return v, err
			}
			ctx = workflow.Detached(ctx)
			if _, err := echo.Call(ctx, "clean "+what); err != nil {
				return "", err
			}
			if again {
				return (*f).Get(ctx)
			}
			return "", err
		}
		a = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return clean(ctx, "a", &b) })
		b = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return clean(ctx, "b", &a) })
		if _, err := a.Get(ctx); err != nil {
			return "swallowed", nil //nolint:nilerr // the error is ignored on purpose
		}
		return "", nil
	}
}

// asked returns the arguments of the steps in a log, in order.
func asked(log []event.Event) (all []string) {
	for _, e := range flowtest.Filter(log, event.StepCreated) {
		all = append(all, strings.Trim(strings.TrimPrefix(string(e.Payload), `{"in":`), `"}`))
	}
	return all
}

func TestFLOW17_CleanupAndCompensationsRunAndTheRunFailsAllTheSame(t *testing.T) {
	for name, again := range map[string]bool{"once": false, "and waits for itself again": true} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				flow := flowtest.Flow[int, string]("deadlocks.cleans")
				w.Work(worker.Config{}, append(steps(), flowtest.As(flow, cleans(again)))...)
				run := flowtest.Start(w, flow, 0)
				err := flowtest.Failure(w, run)
				found(t, err)
				if diff := cmp.Diff([]string{"clean a", "clean b", "undo 1", "undo 0"}, asked(w.Log(run))); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
				if len(err.Undone) != 2 || len(err.NotUndone) != 0 {
					t.Errorf("undone %q, not undone %q", err.Undone, err.NotUndone)
				}
			})
		})
	}
}

func TestFLOW17_ACompensationThatCanNeverGoOnIsNotUndoneAndTheOthersRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		flow := flowtest.Flow[int, string]("deadlocks.undo")
		w.Work(worker.Config{}, append(steps(), flowtest.As(flow, func(ctx workflow.Context, _ int) (string, error) {
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := echo.Call(ctx, "undo")
				return err
			})
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := shapes["futures in a ring"].dead(ctx, 0)
				return err
			})
			return "", errors.New("no seat")
		}))...)
		run := flowtest.Start(w, flow, 0)
		err := flowtest.Failure(w, run)
		if err.Code != "error" || err.Reason != "no seat" || len(err.Undone) != 1 || len(err.NotUndone) != 1 || !strings.Contains(err.NotUndone[0], "can never continue: ") {
			t.Errorf("got %v (%s), undone %q, not undone %q", err, err.Code, err.Undone, err.NotUndone)
		}
		if diff := cmp.Diff([]string{"undo"}, asked(w.Log(run))); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

func setup(c code) func(e *workflowtest.Env) {
	return func(e *workflowtest.Env) {
		shim.BindWorkflow(e, ring, c)
		for _, bind := range steps() {
			bind(e)
		}
	}
}

func TestFLOW17_ADeadlockIsTheSameAfterACrashAtEachPoint(t *testing.T) {
	leak(flowtest.NewMemory(t))
	on := workflowtest.WithStore(func(testing.TB) store.Store { return memstore.New() })
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			workflowtest.CrashEverywhere(t, ring, 0, setup(func(ctx workflow.Context, n int) (string, error) {
				if _, err := echo.Call(ctx, "first"); err != nil {
					return "", err
				}
				return s.dead(ctx, n)
			}), on, workflowtest.Pairs(10))
		})
	}
	for _, again := range []bool{false, true} {
		r := workflowtest.CrashEverywhere(t, ring, 0, setup(cleans(again)), on, workflowtest.Pairs(20))
		t.Logf("%+v", r)
	}
}

func TestFLOW17_ADeadlockIsTheSameInEachOrderOfArrivals(t *testing.T) {
	leak(flowtest.NewMemory(t))
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			workflowtest.Interleave(t, ring, 0, setup(func(ctx workflow.Context, n int) (string, error) {
				beside := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return echo.Call(ctx, "beside") })
				if _, err := s.dead(ctx, n); err != nil {
					return "", err
				}
				return beside.Get(ctx)
			}), 20, workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, o workflowtest.Outcome) {
				if o.Status == workflow.StatusCompleted {
					t.Errorf("the run ended as %s", o.Status)
				}
			}))
		})
	}
	for _, again := range []bool{false, true} {
		r := workflowtest.Interleave(t, ring, 0, setup(cleans(again)), 40)
		t.Logf("%+v", r)
	}
}

func TestFLOW17_ATestOfARunThatCanNeverGoOnGetsItsErrorAtOnce(t *testing.T) {
	env := workflowtest.New(t)
	setup(shapes["futures in a ring"].dead)(env)
	_, err := ring.Execute(t.Context(), env.Client(), 0)
	var dead *workflow.DeadlockError
	if !errors.As(err, &dead) || len(dead.Waits) != 4 {
		t.Errorf("got %v", err)
	}
	if passed := env.Now().Sub(workflowtest.Epoch); passed != 0 {
		t.Errorf("%v of virtual time have passed", passed)
	}
}

// recorder is a testing.TB that records errors instead of failing.
type recorder struct {
	testing.TB
	mu   sync.Mutex
	said string
}

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said += fmt.Sprint(args...)
}

// TestFLOW17_ARingOverTwoRunsFailsATestThatSaysForWhatEachOfThemWaits proves that workflowtest
// detects a deadlock of two runs. Each of them waits for an event from outside, so neither run can
// detect that this event will never arrive.
func TestFLOW17_ARingOverTwoRunsFailsATestThatSaysForWhatEachOfThemWaits(t *testing.T) {
	above, below := flowtest.Flow[int, string]("deadlocks.above"), flowtest.Flow[workflow.RunID, string]("deadlocks.below")
	note := workflow.NewValue[string]("deadlocks.note")
	for _, early := range []bool{false, true} {
		r := &recorder{TB: t}
		env := workflowtest.New(r)
		shim.BindWorkflow(env, above, func(ctx workflow.Context, _ int) (string, error) {
			child := below.StartChild(ctx, workflow.Info(ctx).ID)
			if early {
				note.Set(ctx, "alive")
			}
			v, err := child.Get(ctx)
			note.Set(ctx, v)
			return v, err
		})
		shim.BindWorkflow(env, below, func(ctx workflow.Context, above workflow.RunID) (string, error) {
			return note.WaitFrom(ctx, workflow.Other(above))
		})
		got, err := above.Execute(t.Context(), env.Client(), 0)
		var stuck *workflowtest.StuckError
		switch {
		case early:
			if err != nil || got != "alive" || r.said != "" {
				t.Errorf("got %q, %v, and the test said %q", got, err, r.said)
			}
		case !errors.As(err, &stuck) || !flowtest.ContainsAll(r.said, "can never come", "branch above waits for child above/test.deadlocks.below#1 at ",
			"branch below waits for value deadlocks.note of run "+string(env.Run().ID())+" at "):
			t.Errorf("got %v, and the test said %s", err, r.said)
		}
	}
}
