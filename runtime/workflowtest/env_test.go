package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// start starts a run of the code in a new Env.
func start(t testing.TB, c code, prepare func(*workflowtest.Env), opts ...workflowtest.Option) (*workflowtest.Env, *workflow.Run[string]) {
	t.Helper()
	env := workflowtest.New(t, opts...)
	d := flow("tests.flow")
	shim.BindWorkflow(env, d, c)
	prepare(env)
	run, err := d.Start(t.Context(), env.Client(), "in")
	if err != nil {
		t.Fatal(err)
	}
	return env, run
}

func bindWork(e *workflowtest.Env) { work.Bind(e, echo) }

func TestTEST1_AMonthWithFiftyWaitsTakesMilliseconds(t *testing.T) {
	const days, waits = 30 * 24 * time.Hour, 50
	fastest := time.Hour
	for range 5 { // use the fastest of five executions, because other processes slow some of them down
		began := time.Now()
		env, run := start(t, func(ctx workflow.Context, in string) (string, error) {
			for range waits {
				if err := workflow.Sleep(ctx, days/waits); err != nil {
					return "", err
				}
			}
			return in, nil
		}, func(*workflowtest.Env) {})
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(began))
		if got := env.Now().Sub(workflowtest.Epoch); got != days {
			t.Fatalf("virtual time: got %v, want %v", got, days)
		}
	}
	t.Logf("30 days with %d waits took %v", waits, fastest)
	if fastest > month {
		t.Errorf("30 days took %v of real time, want less than %v", fastest, month)
	}
}

func TestTEST1_TheSameTestGivesTheSameLog(t *testing.T) {
	var first []string
	for n := range 20 {
		env, run := start(t, orderCode, func(e *workflowtest.Env) {
			for _, s := range []shim.Step[stepFunc]{charge, ship, pack} {
				s.Bind(e, echo)
			}
			e.At(48*time.Hour, func(ctx context.Context) {
				if err := approval.Send(ctx, e.Run(), "ann"); err != nil {
					t.Error(err)
				}
			})
		})
		if _, err := run.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		log := append(env.Log(run.Handle), string(run.ID()))
		if n == 0 {
			first = log
		} else if d := cmp.Diff(first, log); d != "" {
			t.Fatalf("execution %d differs from the first one (-first +this):\n%s", n+1, d)
		}
	}
}

func TestTEST1_EnvsOfParallelTestsAreApart(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			env, run := start(t, func(ctx workflow.Context, in string) (string, error) {
				return in, workflow.Sleep(ctx, time.Duration(n)*time.Hour)
			}, func(*workflowtest.Env) {})
			if _, err := run.Result(t.Context()); err != nil {
				t.Error(err)
			}
			if got := env.Now().Sub(workflowtest.Epoch); got != time.Duration(n)*time.Hour {
				t.Errorf("virtual time: got %v, want %dh", got, n)
			}
		})
	}
}

func TestTEST1_TimeStandsStillWhileAStepWorks(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	env, run := start(t, func(ctx workflow.Context, in string) (string, error) {
		timer := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return "timer", workflow.Sleep(ctx, time.Second) })
		stepped := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, in) })
		return workflow.First(ctx, timer, stepped)
	}, func(e *workflowtest.Env) {
		work.Bind(e, func(_ context.Context, arg string) (string, error) {
			close(entered)
			<-release
			return arg, nil
		})
	})
	go func() {
		<-entered
		close(release)
	}()
	if got, err := run.Result(t.Context()); got != "in" || err != nil {
		t.Errorf("got %q, %v: the timer has fired although a step was working", got, err)
	}
	if now := env.Now(); now != workflowtest.Epoch {
		t.Errorf("virtual time is %v, want %v", now, workflowtest.Epoch)
	}
}

func TestTEST1_TimePassesWhileAStepWaitsForTheEndOfItsContext(t *testing.T) {
	env, run := start(t, func(ctx workflow.Context, in string) (string, error) {
		limited, cancel := workflow.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := call(limited, work, in)
		if !errors.Is(err, workflow.ErrTimeout) {
			return "", fmt.Errorf("got %w, want a timeout", err)
		}
		return "late", nil
	}, func(e *workflowtest.Env) {
		work.Bind(e, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	})
	if got, err := run.Result(t.Context()); got != "late" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got := env.Now().Sub(workflowtest.Epoch); got != time.Minute {
		t.Errorf("virtual time: got %v, want a minute", got)
	}
}

func TestTEST1_StepsSleepInVirtualTime(t *testing.T) {
	env, run := start(t, func(ctx workflow.Context, _ string) (string, error) {
		return workflow.First(ctx,
			workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "3h") }),
			workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "2h") }))
	}, func(e *workflowtest.Env) {
		work.Bind(e, func(ctx context.Context, arg string) (string, error) {
			d, err := time.ParseDuration(arg)
			if err != nil {
				return "", err
			}
			return arg, workflowtest.Sleep(ctx, d)
		})
	})
	// Each attempt has a timeout of 10 minutes by default, so the step is retried and finally
	// fails.
	if got, err := run.Result(t.Context()); err == nil {
		t.Errorf("got %q, want a step that has timed out", got)
	}
	if got := env.Now().Sub(workflowtest.Epoch).Truncate(time.Minute); got != 40*time.Minute {
		t.Errorf("virtual time: got %v, want four attempts of 10 minutes", got)
	}
}

func TestAt_CallsInOrderOfTimeAndMayWait(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note2 := func(env *workflowtest.Env, s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, fmt.Sprintf("%s at %v", s, env.Now().Sub(workflowtest.Epoch)))
	}
	env, run := start(t, func(ctx workflow.Context, in string) (string, error) { return in, workflow.Sleep(ctx, 3*time.Hour) },
		func(e *workflowtest.Env) {
			e.At(2*time.Hour, func(context.Context) { note2(e, "second") })
			e.At(time.Hour, func(ctx context.Context) {
				note2(e, "first")
				for range e.Run().Events(ctx) { // read until the run has ended
				}
				note2(e, "last")
			})
		})
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.Advance(time.Hour)
	want := []string{"first at 1h0m0s", "second at 2h0m0s", "last at 3h0m0s"}
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff(want, order); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestAt_APanicFailsTheTest(t *testing.T) {
	got := observe(t, func(t testing.TB) {
		_, run := start(t, func(ctx workflow.Context, in string) (string, error) { return in, workflow.Sleep(ctx, time.Hour) },
			func(e *workflowtest.Env) { e.At(time.Minute, func(context.Context) { panic("no such order") }) })
		_, _ = run.Result(context.Background())
	})
	if !strings.Contains(got, "planned with Env.At panicked: no such order") || !strings.Contains(got, "env_test.go") {
		t.Errorf("got %q", got)
	}
}

func TestAdvance_FiresWhatIsDueMeanwhile(t *testing.T) {
	env, run := start(t, func(ctx workflow.Context, in string) (string, error) {
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		return call(ctx, work, in)
	}, bindWork)
	env.Advance(59 * time.Minute)
	if n := len(env.Log(run.Handle)); n != 3 {
		t.Errorf("after 59 minutes the log has %d events, want 3", n)
	}
	env.Advance(time.Minute)
	info, err := run.Info(t.Context())
	if err != nil || info.Status != workflow.StatusCompleted {
		t.Errorf("after an hour the run is %s, %v", info.Status, err)
	}
}

func TestResult_ReturnsAStuckErrorOfARunThatWaitsInVain(t *testing.T) {
	failure := observe(t, func(t testing.TB) {
		_, run := start(t, func(ctx workflow.Context, _ string) (string, error) { return note.Receive(ctx) }, func(*workflowtest.Env) {})
		_, err := run.Result(context.Background())
		var stuck *workflowtest.StuckError
		if !errors.As(err, &stuck) || !strings.Contains(stuck.Text, "topic note") {
			t.Errorf("got %v, want a *StuckError about the topic", err)
		}
		if _, again := run.Result(context.Background()); again == nil || again.Error() != err.Error() {
			t.Errorf("asked again: got %v", again)
		}
	})
	if n := strings.Count(failure, "workflowtest:"); n != 1 {
		t.Errorf("the test failed %d times, want once:\n%s", n, failure)
	}
}

func TestResult_EndsWithItsContext(t *testing.T) {
	_, run := start(t, func(ctx workflow.Context, in string) (string, error) { return call(ctx, work, in) }, func(e *workflowtest.Env) {
		work.Bind(e, func(ctx context.Context, arg string) (string, error) { return arg, nil })
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run.Result(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestGolden_ComparesWritesAndAsksToBeWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	var env *workflowtest.Env
	var run *workflow.Run[string]
	failure := observe(t, func(t testing.TB) {
		env, run = start(t, func(ctx workflow.Context, in string) (string, error) { return call(ctx, work, in) }, bindWork)
		if _, err := run.Result(context.Background()); err != nil {
			t.Error(err)
		}
		env.Golden(run.Handle)
	})
	if !strings.Contains(failure, "-workflowtest.update") {
		t.Errorf("without a file: got %q, want how to write it", failure)
	}
	path := filepath.Join("testdata", t.Name()+".log")
	want := []string{
		`+0s run_created tests.flow {"in":"in"}`,
		`+0s run_started`,
		`+0s step_created flow/defects.work#1 {"arg":"in"}`,
		`+0s step_started flow/defects.work#1 attempt 1`,
		`+0s step_completed flow/defects.work#1 attempt 1 "in"`,
		`+0s run_completed "in"`,
	}
	golden := func(t testing.TB) {
		env, run := start(t, func(ctx workflow.Context, in string) (string, error) { return call(ctx, work, in) }, bindWork)
		if _, err := run.Result(context.Background()); err != nil {
			t.Error(err)
		}
		env.WantLog(run.Handle, want...)
		env.Golden(run.Handle)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for content, says := range map[string]string{
		strings.Join(want, "\n") + "\n":     "",
		strings.Join(want[:5], "\n") + "\n": `run_completed "in"`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := observe(t, golden); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("got %q, want %q", got, says)
		}
	}
}
