package otelflow_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/shim"
	flowstep "github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// onClock starts a worker with the bindings of a test, whose clock the test moves.
func onClock(t *testing.T, o observe.Observer, bind func(*worker.Worker)) (client *workflow.Client, clock *storetest.Clock, stop func()) {
	t.Helper()
	clock = storetest.NewClock()
	st := memstore.NewWith(memstore.Config{Clock: clock})
	client = workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{Observers: []observe.Observer{o}})
	bind(w)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(func() {
		stop()
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return client, clock, stop
}

// spansIn returns the names and durations of the spans of a run.
func spansIn(all []*tracepb.Span, run workflow.RunID) string {
	var names []string
	for _, one := range all {
		if attribute(one, "flowgen.run") == string(run) {
			names = append(names, one.Name+" "+time.Duration(one.EndTimeUnixNano-one.StartTimeUnixNano).String())
		}
	}
	return strings.Join(names, ", ")
}

// The test proves that the spans of a fork and of a retry are those of what they execute: they begin
// when the rerun was created, and the steps whose outcomes are copied have no spans in it. The
// duration of a rerun is measured from its creation, and not from that of the run before.
func TestOPS4_ARerunHasOnlyTheSpansOfWhatItExecutes(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg otelflow.Config, target string) {
		r := newReceiver(t)
		cfg.TracerProvider = r.provider()
		flow := shim.NewWorkflow[int, int]("shop.rerun", "in", shim.WorkflowPolicy{})
		shipped, fails := make(chan struct{}), true
		client, clock, stop := onClock(t, otelflow.New(cfg), func(w *worker.Worker) {
			shim.BindWorkflow(w, flow, func(ctx workflow.Context, n int) (int, error) {
				branch := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return ship.call(ctx, n) })
				if _, err := reserve.call(ctx, n); err != nil {
					return 0, err
				}
				return branch.Get(ctx)
			})
			ship.Bind(w, func(_ context.Context, n int) (int, error) { return n, nil })
			reserve.Bind(w, func(_ context.Context, n int) (int, error) {
				<-shipped
				if fails {
					return 0, flowstep.Fatal(errNoGoods)
				}
				return n, nil
			})
		})
		first, err := flow.Start(t.Context(), client, 1)
		if err != nil {
			t.Fatal(err)
		}
		at := ""
		for e, err := range first.Events(t.Context(), workflow.Types(event.StepCreated, event.StepCompleted)) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == event.StepCompleted {
				break
			}
			if e.Name == reserve.Name() {
				at = e.Key
			}
		}
		close(shipped)
		if _, err := first.Result(t.Context()); err == nil {
			t.Fatal("the run has not failed")
		}
		clock.Advance(50 * time.Hour)
		fails = false
		retry, err := first.Retry(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fork, err := first.Fork(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []*workflow.Run[int]{retry, fork} {
			if _, err := run.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		all, _ := r.spans()
		if got, want := spansIn(all, retry.ID()), "attempt shop.reserve 0s, run shop.rerun 0s"; got != want {
			t.Errorf("spans of the retry: got %s, want %s", got, want)
		}
		if got := spansIn(all, fork.ID()); !strings.HasSuffix(got, "run shop.rerun 0s") {
			t.Errorf("spans of the fork: got %s, want a run of 0s", got)
		}
		for _, line := range series(t, target, "flowgen_run_duration_seconds_sum") {
			if !strings.HasSuffix(line, " 0") && !strings.HasSuffix(line, " 0.0") {
				t.Errorf("duration of the runs: got %s, want 0", line)
			}
		}
	})
}

var press = limit.New("shop.press", limit.Config{AtOnce: 1})

// The test proves that the wait of a run for a limit is in its span start and in the metric of the
// wait for the beginning, and not in the span or the attempts of the run.
func TestOPS4_TheWaitOfARunForALimitIsInItsStart(t *testing.T) {
	everyWay(t, func(t *testing.T, cfg otelflow.Config, target string) {
		r := newReceiver(t)
		cfg.TracerProvider = r.provider()
		flow := shim.NewWorkflow[int, int]("shop.limited", "in", shim.WorkflowPolicy{Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{press.Use(1)} })})
		began, end := make(chan struct{}, 2), make(chan struct{})
		client, clock, stop := onClock(t, otelflow.New(cfg), func(w *worker.Worker) {
			shim.BindWorkflow(w, flow, func(ctx workflow.Context, n int) (int, error) { return ship.call(ctx, n) })
			ship.Bind(w, func(_ context.Context, n int) (int, error) {
				began <- struct{}{}
				<-end
				return n, nil
			})
		})
		var runs [2]*workflow.Run[int]
		for i := range runs {
			run, err := flow.Start(t.Context(), client, i)
			if err != nil {
				t.Fatal(err)
			}
			if runs[i] = run; i == 0 {
				<-began
			}
		}
		clock.Advance(10 * time.Second)
		close(end)
		for _, run := range runs {
			if _, err := run.Result(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		all, _ := r.spans()
		if got, want := spansIn(all, runs[1].ID()), "start shop.limited 10s, attempt shop.ship 0s, run shop.limited 0s"; got != want {
			t.Errorf("spans of the run that has waited: got %s, want %s", got, want)
		}
		if got := series(t, target, "flowgen_queue_wait_seconds_sum"); len(got) != 1 || !strings.HasSuffix(strings.TrimSuffix(got[0], ".0"), " 10") {
			t.Errorf("wait for the beginning: got %v, want 10 s", got)
		}
	})
}
