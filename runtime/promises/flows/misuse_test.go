package flows_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// panics calls f, which must panic, and returns the text of the panic value.
func panics(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		switch r := recover().(type) {
		case nil:
			t.Error("it did not panic")
		case error:
			text = r.Error()
		case string:
			text = r
		default:
			t.Errorf("it panicked with a %T", r)
		}
	}()
	f()
	return ""
}

func TestFLOW1_MisusePanicsWithTheFix(t *testing.T) {
	var zero workflow.Context
	var undeclared workflow.Topic[string]
	var undefined workflow.Definition[int, int]
	w := flowtest.NewMemory(t)
	for name, tt := range map[string]struct {
		f    func()
		want []string
	}{
		"Err of a zero Context":      {func() { _ = zero.Err() }, []string{"zero Context", "workflow.Go"}},
		"Sleep on a zero Context":    {func() { _ = workflow.Sleep(zero, 1) }, []string{"zero Context"}},
		"step on a zero Context":     {func() { _, _ = flowtest.Work1.Call(zero, 1) }, []string{"zero Context"}},
		"zero Topic":                 {func() { _ = undeclared.Send(w.Ctx, nil, "x") }, []string{"NewTopic"}},
		"zero Topic in a Select":     {func() { _ = undeclared.Case() }, []string{"NewTopic"}},
		"Topic without a name":       {func() { workflow.NewTopic[int]("") }, []string{"name is empty"}},
		"zero Definition":            {func() { _, _ = undefined.Start(w.Ctx, w.Client, 1) }, []string{"//flow:workflow", "go generate"}},
		"nil client":                 {func() { worker.New(nil, worker.Config{}) }, []string{"workflow.NewClient"}},
		"nil store":                  {func() { workflow.NewClient(nil, workflow.ClientConfig{}) }, []string{"sqlitestore.Open"}},
		"expiry below the heartbeat": {func() { worker.New(w.Client, worker.Config{ClaimExpiry: 1}) }, []string{"ClaimExpiry", "Heartbeat"}},
		"nil receiver":               {func() { shim.Receiver(worker.New(w.Client, worker.Config{}), "shop *Shop", true, flowtest.Work1) }, []string{"shop *Shop is nil", "test.work1"}},
		"negative limit":             {func() { workflow.Limit(-1) }, []string{"Limit(-1)"}},
		"no attempt timeout":         {func() { workflow.AttemptTimeout(0) }, []string{"positive"}},
		"workflow registered twice":  {func() { r := worker.New(w.Client, worker.Config{}); flowtest.Runs(r); flowtest.Runs(r) }, []string{"test.echo", "call Register once", "programs.go"}},
		"step registered twice": {func() {
			r := worker.New(w.Client, worker.Config{})
			flowtest.DoWork1(r)
			flowtest.DoWork1(r)
		}, []string{"test.work1", "call Register once", "programs.go"}},
	} {
		if text := panics(t, tt.f); !flowtest.ContainsAll(text, tt.want...) {
			t.Errorf("%s: panicked with %q, want %q in it", name, text, tt.want)
		}
	}
}

func TestFLOW1_RegisteringAfterRunPanics(t *testing.T) {
	w := flowtest.NewMemory(t)
	wk := w.Work(worker.Config{}, flowtest.Runs)
	_ = flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
	if text := panics(t, func() { flowtest.Parks(wk) }); !flowtest.ContainsAll(text, "test.parker", "before Run") {
		t.Errorf("panicked with %q", text)
	}
}

func TestREC7_RunIsForOneTimeAndNeedsSomethingToDo(t *testing.T) {
	w := flowtest.NewMemory(t)
	wk := w.Work(worker.Config{}, flowtest.Runs)
	_ = flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
	if err := wk.Run(w.Ctx); err == nil || !flowtest.ContainsAll(err.Error(), "twice", "new worker") {
		t.Errorf("the second Run: %v", err)
	}
	if err := worker.New(w.Client, worker.Config{}).Run(w.Ctx); err == nil || !flowtest.ContainsAll(err.Error(), "Register") {
		t.Errorf("Run with nothing registered: %v", err)
	}
}

func TestREC7_RunReturnsAnErrorIfTheStoreIsClosedUnderIt(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.Client, worker.Config{})
			flowtest.Runs(wk)
			done := make(chan error, 1)
			go func() { done <- wk.Run(w.Ctx) }()
			_ = flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err == nil {
					t.Error("Run returned nil")
				}
			case <-w.Ctx.Done():
				t.Error("Run did not return")
			}
		})
	}
}

// TestFLOW1_ADurableCallFromTheWrongPlaceFailsTheRunWithTheFix proves that a run fails with an
// explanation if its code uses the context of another branch or waits inside of Record. The log of
// the run remains valid.
func TestFLOW1_ADurableCallFromTheWrongPlaceFailsTheRunWithTheFix(t *testing.T) {
	wrong := flowtest.Flow[string, int]("wrong")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(wrong, func(ctx workflow.Context, where string) (int, error) {
		if where == "record" {
			return workflow.Record(ctx, func() (int, error) { return 1, workflow.Sleep(ctx, 1) })
		}
		f := workflow.GoErr(ctx, func(workflow.Context) error { return workflow.Sleep(ctx, 1) })
		_, err := f.Get(ctx)
		return 0, err
	}))
	for where, want := range map[string][]string{
		"record": {"inside of workflow.Record", "must not wait"},
		"branch": {"wrong/go#1", "uses the context of branch wrong", "workflow.Go passes"},
	} {
		if err := flowtest.Failure(w, flowtest.Start(w, wrong, where)); err.Code != event.CodePanic || !flowtest.ContainsAll(err.Reason, want...) {
			t.Errorf("%s: got %v", where, err)
		}
	}
}

// TestFLOW1_ADurableCallOnAGoroutineBlocksThatRunOnly proves that a durable call on a goroutine
// that the code has started ends this goroutine and blocks the run. The call has no effect, and
// other runs continue.
func TestFLOW1_ADurableCallOnAGoroutineBlocksThatRunOnly(t *testing.T) {
	strays := flowtest.Flow[string, int]("strays")
	w := flowtest.NewMemory(t)
	calls := make(chan struct{})
	w.Work(worker.Config{}, flowtest.Runs, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(strays, func(ctx workflow.Context, when string) (int, error) {
			var group sync.WaitGroup
			group.Go(func() {
				if when == "waits" {
					<-calls
				}
				_, _ = flowtest.Work1.Call(ctx, 1)
				t.Error("the call returned")
			})
			if when == "waits" {
				_, err := flowtest.Wake.Receive(ctx)
				return 0, err
			}
			group.Wait()
			if when == "goes on" {
				_, err := flowtest.Work1.Call(ctx, 2)
				return 0, err
			}
			return 1, nil
		}))
	for _, when := range []string{"goes on", "returns", "waits"} {
		run := flowtest.Start(w, strays, when)
		if when == "waits" {
			w.Reach(run, event.WaitCreated, 1)
			close(calls)
			w.Eventually("the call is reported", func() bool {
				return len(w.Lines("durable operation called on a goroutine of its own: the goroutine was ended")) == 3
			})
			if err := flowtest.Wake.Send(w.Ctx, run, "x"); err != nil { // the parked run detects the misuse when the message wakes it
				t.Fatal(err)
			}
		}
		w.BlockedAs(run, "_test.go:", "workflow.Go instead of go")
		if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n > 0 {
			t.Errorf("%s: %d steps are in the log", when, n)
		}
	}
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "<x>" {
		t.Errorf("another run: got %q", got)
	}
}

// TestFLOW1_ADurableCallAfterTheEndOfTheRunEndsItsGoroutineOnly proves that using the context of a
// run that has ended ends only the goroutine that uses it, and not the process.
func TestFLOW1_ADurableCallAfterTheEndOfTheRunEndsItsGoroutineOnly(t *testing.T) {
	leaks := flowtest.Flow[int, int]("leaks")
	w := flowtest.NewMemory(t)
	kept := make(chan workflow.Context, 1)
	wk := w.Work(worker.Config{}, flowtest.Runs, flowtest.As(leaks, func(ctx workflow.Context, n int) (int, error) {
		kept <- ctx
		return n, nil
	}))
	_ = flowtest.Result(w, flowtest.Start(w, leaks, 1))
	wk.Stop() // after this, no worker has the run
	ctx, ended := <-kept, make(chan struct{})
	go func() {
		defer close(ended)
		_ = workflow.Sleep(ctx, 1)
		t.Error("the call returned")
	}()
	<-ended
	w.OneLine("durable operation called on a goroutine of its own: the goroutine was ended", "_test.go:")
}

func TestFLOW1_ValuesOfContextsReachBranchesButNotSteps(t *testing.T) {
	carries := flowtest.Flow[int, []any]("carries")
	type key string
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		if ctx.Value(key("k")) != nil {
			return 0, errors.New("the step sees it")
		}
		return n, nil
	}), flowtest.As(carries, func(ctx workflow.Context, _ int) ([]any, error) {
		with := workflow.WithValue(workflow.WithValue(ctx, key("k"), "outer"), key("l"), 2)
		inner := workflow.WithValue(with, key("k"), "inner")
		f := workflow.Go(inner, func(ctx workflow.Context) (any, error) { return ctx.Value(key("k")), nil })
		v, err := f.Get(ctx)
		if err != nil {
			return nil, err
		}
		_, err = flowtest.Work1.Call(inner, 1)
		return []any{ctx.Value(key("k")), with.Value(key("k")), inner.Value(key("l")), v}, err
	}))
	got := flowtest.Result(w, flowtest.Start(w, carries, 1))
	if len(got) != 4 || got[0] != nil || got[1] != "outer" || got[2] != 2.0 || got[3] != "inner" {
		t.Errorf("got %v", got)
	}
}
