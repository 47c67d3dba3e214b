package interceptors_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// trace collects lines.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *trace) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// tracer implements all three interfaces.
type tracer struct {
	*trace
	name string
}

func (t tracer) InterceptClient(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error {
	t.add("%s %s %s", t.name, call.Operation, call.Name)
	err := next(ctx)
	t.add("%s %s %s: created %v, run known %v, error %v", t.name, call.Operation, call.Name, call.Created, call.Run != "", err)
	return err
}

func (t tracer) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	t.add("%s code %s", t.name, workflow.Info(ctx).Workflow)
	err := next(ctx)
	t.add("%s code %s: %v", t.name, workflow.Info(ctx).Workflow, err)
	return err
}

func (t tracer) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	t.add("%s %s of %s, attempt %d", t.name, call.Step, call.Workflow, call.Attempt)
	err := next(ctx)
	t.add("%s %s: %v", t.name, call.Step, err)
	return err
}

func TestOPS8_InterceptorsAreCalledInOrderAroundEachOperation(t *testing.T) {
	var tr trace
	both := []workflow.Interceptor{tracer{&tr, "a"}, tracer{&tr, "b"}}
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{Interceptors: both})
	w.Work(worker.Config{Interceptors: both}, bindings()...)
	if got := flowtest.Result(w, flowtest.Start(w, doubles, 4)); got != 8 {
		t.Errorf("the result is %d", got)
	}
	w.StopWorkers()
	want := []string{
		"a start test.intercepted", "b start test.intercepted",
		"b start test.intercepted: created true, run known true, error <nil>", "a start test.intercepted: created true, run known true, error <nil>",
		"a code test.intercepted", "b code test.intercepted",
		"a test.double of test.intercepted, attempt 1", "b test.double of test.intercepted, attempt 1", "b test.double: <nil>", "a test.double: <nil>",
		"b code test.intercepted: <nil>", "a code test.intercepted: <nil>",
	}
	got := tr.all()
	slices.SortStableFunc(got, func(a, b string) int { // the start is concurrent to the worker
		return strings.Compare(map[bool]string{true: "0", false: "1"}[strings.Contains(a, "start")], map[bool]string{true: "0", false: "1"}[strings.Contains(b, "start")])
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestOPS8_AClientInterceptorWrapsMessagesHooksAndQuestions(t *testing.T) {
	var tr trace
	topic, hook, ask := workflow.NewTopic[int]("numbers"), workflow.NewHook[int]("paid"), workflow.NewAsk[int, int]("plus")
	d := flowtest.Flow[int, int]("talks")
	tokens := make(chan string, 1)
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{Interceptors: []workflow.Interceptor{tracer{&tr, "a"}}})
	w.Work(worker.Config{}, flowtest.As(d, func(ctx workflow.Context, n int) (int, error) {
		ask.Handle(ctx, nil, func(_ workflow.Context, q int) (int, error) { return n + q, nil })
		h, err := hook.Open(ctx)
		if err != nil {
			return 0, err
		}
		select {
		case tokens <- h.Token():
		default:
		}
		m, err := topic.Receive(ctx)
		if err != nil {
			return 0, err
		}
		p, err := h.Receive(ctx)
		return n + m + p, err
	}))
	run := flowtest.Start(w, d, 1)
	token := <-tokens
	if got, err := ask.Ask(w.Ctx, run, 5); err != nil || got != 6 {
		t.Errorf("the answer is %d, %v", got, err)
	}
	flowtest.Order(t, topic.Send(w.Ctx, run, 10))
	flowtest.Order(t, w.Client.SendToHook(w.Ctx, token, []byte("100")))
	if got := flowtest.Result(w, run); got != 111 {
		t.Errorf("the result is %d", got)
	}
	err := hook.Send(w.Ctx, w.Client, token, 1)
	if !errors.Is(err, workflow.ErrHookDisposed) {
		t.Errorf("a payload for a closed hook: %v", err)
	}
	var got []string
	for _, l := range tr.all() {
		if !strings.Contains(l, "start") {
			got = append(got, strings.ReplaceAll(l, string(run.ID()), "RUN"))
		}
	}
	want := []string{
		"a ask plus", "a ask plus: created false, run known true, error <nil>",
		"a send numbers", "a send numbers: created false, run known true, error <nil>",
		"a hook ", "a hook paid: created false, run known true, error <nil>",
		"a hook paid", "a hook paid: created false, run known true, error the hook of run RUN: workflow: hook is closed: workflow: run has ended",
	}
	if d := cmp.Diff(want[:7], got[:min(7, len(got))]); d != "" || len(got) != 8 || !strings.Contains(got[7], "hook is closed") {
		t.Error(d, got)
	}
}

// refuse is an error of an interceptor.
var errRefused = errors.New("not today")

func TestOPS8_AnInterceptorMayRefuseAnOperation(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{Interceptors: []workflow.Interceptor{
		clientFunc(func(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error {
			if call.Name == doubles.Name() {
				return errRefused
			}
			return next(ctx)
		}),
	}})
	if _, err := doubles.Start(w.Ctx, w.Client, 1); !errors.Is(err, errRefused) {
		t.Errorf("the start returned %v", err)
	}
	if all := w.List(workflow.Filter{}); len(all) != 0 {
		t.Errorf("a refused start has created %v", all)
	}
	other := flowtest.Flow[int, int]("refused")
	w.Work(worker.Config{Interceptors: []workflow.Interceptor{
		codeFunc(func(ctx workflow.Context, next func(workflow.Context) error) error { return errRefused }),
	}}, flowtest.As(other, code))
	run := flowtest.Start(w, other, 1)
	if f := flowtest.Failure(w, run); !strings.Contains(f.Error(), errRefused.Error()) || f.Code != event.CodeError {
		t.Errorf("the run failed with %v", f)
	}
}

func TestOPS8_StartManyCreatesAThousandRunsWithOneRequest(t *testing.T) {
	var tr trace
	w := flowtest.NewMemory(t)
	counts := &flowtest.Between{Store: w.Store}
	client := flowtest.NewClient(counts, workflow.ClientConfig{Interceptors: []workflow.Interceptor{
		clientFunc(func(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error {
			err := next(workflow.OnBehalfOf(ctx, fmt.Sprintf("caller %d", len(tr.all()))))
			tr.add("%s", call.Run)
			return err
		}),
	}})
	var requests []workflow.StartRequest[int]
	for n := range 1050 {
		requests = append(requests, workflow.StartRequest[int]{Input: n})
	}
	defer func() { _ = client.Close() }()
	started, err := doubles.StartMany(w.Ctx, client, requests)
	flowtest.Order(t, err)
	if n := counts.Count("create"); n != 2 {
		t.Errorf("1,050 starts made %d requests, want one for 1,000", n)
	}
	lines := tr.all()
	slices.Reverse(lines[:1000]) // the interceptors of the first start of a request return last
	slices.Reverse(lines[1000:])
	for i, s := range started {
		if s.Err != nil || string(s.Run.ID()) != lines[i] {
			t.Errorf("start %d: %v, run %v, the interceptor saw %s", i, s.Err, s.Run.ID(), lines[i])
		}
	}
	if none, err := doubles.StartMany(w.Ctx, client, nil); err != nil || len(none) != 0 {
		t.Errorf("no starts: %v, %v", none, err)
	}
}

func TestOPS8_AWorkerInterceptorAlsoWrapsStepsOnAnotherQueueAndNoRunOfTheRuntime(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var tr trace
		d := flowtest.Flow[int, int]("remotely")
		w.Work(worker.Config{Interceptors: []workflow.Interceptor{tracer{&tr, "a"}}}, append(bindings(), flowtest.As(d, func(ctx workflow.Context, n int) (int, error) {
			return remote.Call(ctx, n)
		}))...)
		if got := flowtest.Result(w, flowtest.Start(w, d, 3)); got != 6 {
			t.Errorf("the result is %d", got)
		}
		w.StopWorkers()
		got := slices.Compact(slices.Sorted(slices.Values(tr.all()))) // replays repeat the lines of the code
		want := []string{
			"a code test.remotely", "a code test.remotely: <nil>",
			"a test.double.elsewhere of test.remotely, attempt 1", "a test.double.elsewhere: <nil>",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestOPS8_LoggerNamesTheRunTheStepAndTheAttempt(t *testing.T) {
	var out bytes.Buffer
	w := flowtest.NewMemory(t)
	d, s := flowtest.Flow[int, int]("logs"), double
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	run, err := d.Start(workflow.WithAttribute(w.Ctx, "traceparent", "00-"+trace+"-00f067aa0ba902b7-01"), w.Client, 1)
	flowtest.Order(t, err)
	w.Work(worker.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}, flowtest.As(d, code), s.As(func(ctx context.Context, n int) (int, error) {
		step.Logger(ctx).Info("here")
		return n, nil
	}))
	flowtest.Result(w, run)
	w.StopWorkers()
	want := fmt.Sprintf("msg=here run=%s workflow=test.logs step=test.double attempt=1 trace=%s", run.ID(), trace)
	if !strings.Contains(out.String(), want) {
		t.Errorf("the log has no %q: %s", want, out.String())
	}
}

func TestOPS8_AnInterceptorThatWrapsNothingIsRefused(t *testing.T) {
	refused := func(what string, f func()) {
		t.Helper()
		defer func() {
			if r := fmt.Sprint(recover()); !strings.Contains(r, what) || !strings.Contains(r, "implement Intercept") {
				t.Errorf("the panic %q does not name %s and the fix", r, what)
			}
		}()
		f()
	}
	st := memstore.New()
	defer func() { _ = st.Close() }()
	refused("Interceptors[1] is a int", func() {
		workflow.NewClient(st, workflow.ClientConfig{Interceptors: []workflow.Interceptor{clientFunc(nil), 3}})
	})
	c := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { _ = c.Close() }()
	refused(`Interceptors[0] "interceptors_test.clientFunc" is neither`, func() {
		worker.New(c, worker.Config{Interceptors: []workflow.Interceptor{clientFunc(nil)}})
	})
}

func TestOPS8_AStepPanicReachesInterceptorsAsAnError(t *testing.T) {
	var tr trace
	w := flowtest.NewMemory(t)
	d := flowtest.Flow[int, int]("panics")
	w.Work(worker.Config{Interceptors: []workflow.Interceptor{
		stepFunc(func(ctx context.Context, call step.Call, next func(context.Context) error) error {
			err := next(ctx)
			if p, ok := errors.AsType[*step.PanicError](err); ok {
				tr.add("%v %v", p.Value, bytes.Contains(p.Stack, []byte("explode")))
			}
			return fmt.Errorf("wrapped: %w", err)
		}),
	}}, flowtest.As(d, code), double.As(explode))
	run := flowtest.Start(w, d, 1)
	flowtest.Failure(w, run)
	failed := flowtest.Filter(w.Log(run), event.StepRetrying, event.StepFailed)
	if len(failed) != 2 {
		t.Fatalf("attempts: %v", failed)
	}
	for _, e := range failed {
		if e.Failure.Code != event.CodePanic || !strings.Contains(e.Failure.Stack, "explode") {
			t.Errorf("attempt failed with %+v", e.Failure)
		}
	}
	if d := cmp.Diff([]string{"boom true", "boom true"}, tr.all()); d != "" {
		t.Error(d)
	}
}

func explode(context.Context, int) (int, error) { panic("boom") }
