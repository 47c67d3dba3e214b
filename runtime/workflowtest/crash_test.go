package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestTEST3_AWorkflowOfManyOperationsSurvivesEveryCrash(t *testing.T) {
	began := time.Now()
	r := workflowtest.CrashEverywhere(t, order, "o1", setupOrder)
	t.Logf("%+v in %v", r, time.Since(began))
	// Each commit has two points, and each event belongs to one commit.
	if r.Events < 20 || r.Points < 30 || r.Tried != r.Points || r.Pairs != 200 || r.Interrupted == 0 || r.Missed+r.Failed != 0 {
		t.Errorf("got %+v", r)
	}
}

// books counts the effects of steps for each idempotency key.
type books struct {
	ledger
	mu   sync.Mutex
	seen map[string]bool
}

func (b *books) book(ctx context.Context, entry string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if key := step.IdempotencyKey(ctx); !b.seen[key] {
		b.seen[key] = true
		b.add(entry)
	}
}

// everythingCode is the code of a workflow that uses every operation.
func everythingCode(ctx workflow.Context, in string) (string, error) {
	n, err := workflow.Record(ctx, func() (int, error) { return 7, nil })
	if err != nil {
		return "", err
	}
	limited, cancel := workflow.WithTimeout(ctx, time.Hour)
	_, late := note.Receive(limited)
	cancel()
	if !errors.Is(late, workflow.ErrTimeout) {
		return "", fmt.Errorf("got %w, want a timeout", late)
	}
	keyed := workflow.WithStepOptions(ctx, workflow.Key("k"), workflow.Retry(workflow.RetryPolicy{Attempts: 9, Initial: time.Minute}))
	first, err := call(keyed, charge, in)
	if err != nil {
		return "", err
	}
	msg, timer := note.Case(), workflow.After(24*time.Hour)
	won, err := workflow.Select(ctx, msg, timer)
	if err != nil || won != msg {
		return "", fmt.Errorf("the timer has won: %w", err)
	}
	race, err := workflow.Any(ctx,
		workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, pack, "ups") }),
		workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, pack, "dhl") }))
	if err != nil {
		return "", err
	}
	_, undone := call(workflow.Detached(ctx), pack, "cleaned")
	return fmt.Sprint(n, first, msg.Value(), race, workflow.Rand(ctx).IntN(1000), workflow.UUID(ctx)), undone
}

func TestTEST3_EveryOperationSurvivesEveryCrash(t *testing.T) {
	var b *books
	r := workflowtest.CrashEverywhere(t, order, "o1", func(e *workflowtest.Env) {
		b = &books{seen: map[string]bool{}}
		shim.BindWorkflow(e, order, everythingCode)
		for _, s := range []shim.Step[stepFunc]{charge, pack} {
			failing := 0
			s.Bind(e, func(ctx context.Context, arg string) (string, error) {
				b.book(ctx, arg)
				if failing++; s == charge && failing < 3 {
					return "", errors.New("not yet")
				}
				return arg, nil
			})
		}
		e.At(2*time.Hour, func(ctx context.Context) {
			if err := note.Send(ctx, e.Run(), "hello", workflow.IdempotencyKey("once")); err != nil {
				panic(err)
			}
		})
	}, workflowtest.State(func(*workflowtest.Env) any { return b.entries }), workflowtest.Pairs(400))
	if r.Missed+r.Failed+r.Interrupted != 0 || r.Pairs != 400 {
		t.Errorf("got %+v", r)
	}
}

func TestTEST3_AFailureSaysHowToTryOnlyThatCrashAgain(t *testing.T) {
	executions := 0
	test := func(t testing.TB, opts ...workflowtest.Option) {
		var l *ledger
		opts = append(opts, workflowtest.State(func(*workflowtest.Env) any { return l.entries }), workflowtest.Pairs(0))
		workflowtest.CrashEverywhere(t, order, "in", func(e *workflowtest.Env) {
			executions++
			l = &ledger{}
			shim.BindWorkflow(e, order, func(ctx workflow.Context, in string) (string, error) {
				if _, err := call(ctx, charge, in); err != nil {
					return "", err
				}
				l.add("a side effect")
				return call(ctx, pack, in)
			})
			charge.Bind(e, echo)
			pack.Bind(e, echo)
		}, opts...)
	}
	all := observe(t, func(t testing.TB) { test(t) })
	m := regexp.MustCompile(`-workflowtest\.crash=(\S+)`).FindStringSubmatch(all)
	if m == nil {
		t.Fatalf("the failure does not name its point:\n%s", all)
	}
	executions = 0
	one := observe(t, func(t testing.TB) { test(t, workflowtest.Crash(m[1])) })
	if executions != 3 {
		t.Errorf("%d executions, want two without a crash and one with it", executions)
	}
	first, _, _ := strings.Cut(all, "\nIt fails at another point")
	if d := cmp.Diff(first, one); d != "" {
		t.Errorf("the point alone fails otherwise (-with all others +alone):\n%s", d)
	}
	for _, want := range []string{"The worker was killed when ", "without a crash", "with it", "step_created order/shop.pack#1"} {
		if !strings.Contains(one, want) {
			t.Errorf("the failure does not say %q:\n%s", want, one)
		}
	}
	if got := observe(t, func(t testing.TB) { test(t, workflowtest.Crash("commit:99:lost")) }); !strings.Contains(got, "did not reach") {
		t.Errorf("a point that is never reached: got %q", got)
	}
}

func TestTEST3_AWorkflowThatFailsWithoutACrashIsReportedAsThat(t *testing.T) {
	got := observe(t, func(t testing.TB) {
		workflowtest.CrashEverywhere(t, order, "in", func(e *workflowtest.Env) {
			shim.BindWorkflow(e, order, func(ctx workflow.Context, _ string) (string, error) { return note.Receive(ctx) })
		})
	})
	if !strings.Contains(got, "it fails without a crash") || !strings.Contains(got, "topic note") {
		t.Errorf("got %q", got)
	}
}

func TestCheck_IsCalledAfterEachExecutionAndItsFailuresNameThePoint(t *testing.T) {
	calls := 0
	setup := func(e *workflowtest.Env) {
		shim.BindWorkflow(e, order, callWork)
		bindWork(e)
	}
	var report workflowtest.CrashReport
	got := observe(t, func(t testing.TB) {
		report = workflowtest.CrashEverywhere(t, order, "in", setup, workflowtest.Pairs(0), workflowtest.Check(func(t testing.TB, e *workflowtest.Env, o workflowtest.Outcome) {
			calls++
			if o.Status != workflow.StatusCompleted || string(o.Result) != `"in"` || o.Run.ID() != e.Run().ID() {
				t.Errorf("outcome %+v", o)
			}
			if calls == 3 {
				t.Fatal("something is wrong")
			}
		}))
	})
	if calls != report.Tried+2 || report.Failed != 1 || !strings.Contains(got, "something is wrong") || !strings.Contains(got, "-workflowtest.crash=") {
		t.Errorf("%d calls for %+v, got %q", calls, report, got)
	}
}

func TestSample_BoundsTheCrashes(t *testing.T) {
	r := workflowtest.CrashEverywhere(t, order, "o1", setupOrder, workflowtest.Sample(5), workflowtest.Pairs(3), workflowtest.Seed(7))
	if r.Tried != 5 || r.Pairs != 3 {
		t.Errorf("got %+v, want 5 crashes and 3 pairs", r)
	}
}

// realCode is the code of a workflow for stores whose time is real.
func realCode(ctx workflow.Context, in string) (string, error) {
	paid, err := call(ctx, charge, in)
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, 5*time.Millisecond); err != nil {
		return "", err
	}
	by, err := note.Receive(ctx)
	if err != nil {
		return "", err
	}
	boxes, err := workflow.Map(ctx, []string{"a", "b"}, func(ctx workflow.Context, item string) (string, error) {
		return call(ctx, pack, item)
	})
	return fmt.Sprint(paid, by, boxes), err
}

func setupReal(e *workflowtest.Env) {
	shim.BindWorkflow(e, order, realCode)
	charge.Bind(e, echo)
	pack.Bind(e, echo)
	e.At(10*time.Millisecond, func(ctx context.Context) {
		if err := note.Send(ctx, e.Run(), "ann"); err != nil && ctx.Err() == nil {
			panic(err)
		}
	})
}

func TestTEST3_CrashesOnSQLite(t *testing.T) {
	open := func(t testing.TB) store.Store {
		st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	r := workflowtest.CrashEverywhere(t, order, "o1", setupReal, workflowtest.WithStore(open), workflowtest.Sample(8), workflowtest.Pairs(4))
	if r.Tried != 8 || r.Failed != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTEST3_CrashesOnRedis(t *testing.T) {
	url := redistest.Start(t).URL()
	n := 0
	open := func(t testing.TB) store.Store {
		n++
		st, err := redisstore.Open(fmt.Sprintf("%s?prefix=kit%d", url, n))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	r := workflowtest.CrashEverywhere(t, order, "o1", setupReal, workflowtest.WithStore(open), workflowtest.Sample(8), workflowtest.Pairs(4))
	if r.Tried != 8 || r.Failed != 0 {
		t.Errorf("got %+v", r)
	}
}
