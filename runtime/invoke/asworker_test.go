package invoke_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// platform serves a function, and replaces its process when code of the function ends it. After that,
// the store receives no call from the process, and its requests get no answer.
type platform struct {
	w        *flowtest.World
	start    func(st store.Store, die func()) http.Handler
	deaths   atomic.Int64
	mu       sync.Mutex
	current  http.Handler
	replaced chan struct{} // closed when the current process has died
}

// host starts a platform and returns its URL. start is called for each process.
func host(w *flowtest.World, start func(st store.Store, die func()) http.Handler) (*platform, string) {
	w.T.Helper()
	p := &platform{w: w, start: start}
	p.launch()
	s := httptest.NewServer(p)
	w.T.Cleanup(s.Close)
	return p, s.URL
}

// launch starts a process.
func (p *platform) launch() {
	var dead atomic.Bool
	ended := make(chan struct{})
	st := &flowtest.Between{Store: p.w.Store, Around: func(_ context.Context, _ string, _ any, do func() error) error {
		if dead.Load() {
			return store.ErrClosed
		}
		return do()
	}}
	die := func() {
		if dead.Swap(true) {
			return
		}
		p.deaths.Add(1)
		close(ended)
		p.w.CloseSessions() // Otherwise the test would wait until the leases expire. The dispatcher opens others.
		p.launch()
	}
	h := p.start(st, die)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.replaced = h, ended
}

func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	h, ended := p.current, p.replaced
	p.mu.Unlock()
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		answered <- rec
	}()
	select {
	case rec := <-answered:
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = rec.Body.WriteTo(w)
	case <-ended:
		panic(http.ErrAbortHandler)
	}
}

var (
	killers    = flowtest.Flow[int, int]("invoke.killers")
	killerStep = flowtest.AStep[int, int]("invoke.killer", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100, Initial: time.Millisecond}})
)

// TestOPS7_ARunThatKillsItsFunctionsIsPoisonedAlone proves that a run which ends every process of a
// function that executes it is poisoned, and that the runs of the same processes end.
func TestOPS7_ARunThatKillsItsFunctionsIsPoisonedAlone(t *testing.T) {
	for _, inStep := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a step %t", inStep), func(t *testing.T) {
			t.Parallel()
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				var innocent []*workflow.Run[int]
				for n := range 10 {
					innocent = append(innocent, flowtest.Start(w, fives, n))
				}
				guilty := flowtest.Start(w, killers, 1)
				r := &receiver{}
				p, url := host(w, func(st store.Store, die func()) http.Handler {
					h, err := invoke.Handler(workflow.NewClient(st, workflow.ClientConfig{}), registers(five,
						addStep.As(func(ctx context.Context, n int) (int, error) { return n + 1, pause(ctx, 20*time.Millisecond) }),
						flowtest.As(killers, func(ctx workflow.Context, n int) (int, error) {
							if !inStep {
								die()
								return 0, errors.New("it is dead")
							}
							return killerStep.Call(ctx, n)
						}),
						killerStep.As(func(context.Context, int) (int, error) { die(); return 0, errors.New("it is dead") }),
					), invoke.Config{Secrets: [][]byte{secret}, Worker: worker.Config{Alerts: reports(r, alert.Poisoned)}})
					if err != nil {
						t.Error(err)
						return http.NotFoundHandler()
					}
					return h
				})
				dispatch(w, url)
				if e := flowtest.Failure(w, guilty); e.Code != event.CodePoisoned || !strings.Contains(e.Error(), "died 5 times") {
					t.Errorf("failure %v of the run that kills, want poisoned", e)
				}
				for n, run := range innocent {
					if got := flowtest.Result(w, run); got != n+5 {
						t.Errorf("result %d, want %d", got, n+5)
					}
				}
				if n := p.deaths.Load(); n != 5 {
					t.Errorf("%d processes died, want 5", n)
				}
				w.Eventually("the alert arrives", func() bool { return len(r.got()) == 1 })
				if a := r.got()[0]; a.Condition != alert.Poisoned || a.Run != guilty.ID() {
					t.Errorf("alert %+v, want one about the poisoned run", a)
				}
				w.Healthy()
			})
		})
	}
}

// receiver is a target that records what it gets.
type receiver struct{ flowtest.Seen[alert.Alert] }

func (r *receiver) Deliver(_ context.Context, a *alert.Alert) error { r.Add(*a); return nil }
func (r *receiver) got() []alert.Alert                              { return r.Get() }

// reports returns a configuration with one rule, whose alerts r receives.
func reports(r *receiver, some ...alert.Condition) alert.Config {
	return alert.Config{
		Rules:   []alert.Rule{{Name: "rule", Conditions: some, Window: alert.MaxWindow, Target: "ops"}},
		Targets: map[string]alert.Target{"ops": r},
	}
}

// TestOPS7_FunctionsRaiseAndDeliverAlerts proves that failed and blocked runs cause alerts if only
// functions execute them, and that a function delivers the alerts.
func TestOPS7_FunctionsRaiseAndDeliverAlerts(t *testing.T) {
	w := flowtest.NewVirtual(t)
	r := &receiver{}
	failing := flowtest.Flow[int, int]("invoke.failing")
	blocking := flowtest.Flow[int, int]("invoke.blocking")
	missing := flowtest.AStep[int, int]("invoke.missing", shim.Policy{})
	h := handler(w, invoke.Config{Worker: worker.Config{Alerts: reports(r, alert.Failed, alert.Blocked)}},
		flowtest.As(failing, func(workflow.Context, int) (int, error) { return 0, errors.New("no stock") }), flowtest.As(blocking, missing.Call))
	fails, blocks := flowtest.Start(w, failing, 1), flowtest.Start(w, blocking, 1)
	if a := ask(t, h, fails.ID()); a.Status != invoke.StatusDone {
		t.Fatalf("answer %+v, want done", a)
	}
	if a := ask(t, h, blocks.ID()); a.code() != invoke.CodeBlocked {
		t.Fatalf("answer %+v, want blocked", a)
	}
	w.Clock.Advance(time.Minute)
	if a := ask(t, h, ""); a.Status != invoke.StatusAnnounced {
		t.Fatalf("answer %+v, want announced", a)
	}
	for _, run := range w.List(workflow.Filter{Workflow: event.AlertRun}) {
		if a := ask(t, h, run); a.Status != invoke.StatusDone {
			t.Errorf("answer %+v for the delivery of an alert, want done", a)
		}
	}
	got := map[event.RunID]alert.Condition{}
	for _, a := range r.got() {
		got[a.Run] = a.Condition
	}
	if diff := cmp.Diff(map[event.RunID]alert.Condition{fails.ID(): alert.Failed, blocks.ID(): alert.Blocked}, got); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// recorder is an observer that keeps the events that it receives.
type recorder struct {
	mu     sync.Mutex
	events map[event.RunID][]event.Event
}

type recorded struct {
	*recorder
	run event.RunID
}

func (r *recorder) Run(run observe.Run) observe.RunObserver { return recorded{r, run.ID} }

func (r recorded) Committed(c observe.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.recorder.events = map[event.RunID][]event.Event{}
	}
	r.events[r.run] = append(r.events[r.run], slices.Clone(c.Events)...)
}

// TestOPS7_ObserversReceiveEachCommittedEventOnceAcrossInvocations proves that observers of functions
// receive the events of a run in order, without the events of earlier invocations, although each
// invocation replays them.
func TestOPS7_ObserversReceiveEachCommittedEventOnceAcrossInvocations(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		r := &recorder{}
		h := handler(w, invoke.Config{Worker: worker.Config{Observers: []observe.Observer{r}}}, flowtest.As(twoMessages, receivesTwo), add)
		run := flowtest.Start(w, twoMessages, 1)
		for _, want := range []string{invoke.StatusParked, invoke.StatusParked, invoke.StatusDone} {
			if a := ask(t, h, run.ID()); a.Status != want {
				t.Fatalf("answer %+v, want %s", a, want)
			}
			if want == invoke.StatusParked {
				w.Send(run, 1)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		// The first event was committed by the client that has started the run.
		if diff := cmp.Diff(w.Log(run)[1:], r.events[run.ID()], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("reported events (-log +reported):\n%s", diff)
		}
	})
}

var (
	twoMessages = flowtest.Flow[int, int]("invoke.two")
	receivesTwo = func(ctx workflow.Context, n int) (int, error) {
		for range 2 {
			got, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if n, err = addStep.Call(ctx, n+got); err != nil {
				return 0, err
			}
		}
		return n, nil
	}
)

// around is an interceptor of clients, of workflow code and of steps. It counts its calls.
type around struct {
	requests, flows, steps atomic.Int64
	misuse                 bool
}

func (a *around) InterceptClient(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
	a.requests.Add(1)
	return next(ctx)
}

func (a *around) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	a.flows.Add(1)
	if a.misuse {
		return nil // without a call of next
	}
	return next(ctx)
}

func (a *around) InterceptStep(ctx context.Context, _ step.Call, next func(context.Context) error) error {
	a.steps.Add(1)
	return next(context.WithValue(ctx, principal{}, "ann"))
}

// principal is the key of a value that an interceptor adds to the context of steps.
type principal struct{}

// TestOPS7_InterceptorsWrapTheCodeThatFunctionsExecute proves that the interceptors of the client, of
// workflow code and of steps are called in functions as in a worker, and that misuse blocks a run.
func TestOPS7_InterceptorsWrapTheCodeThatFunctionsExecute(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		in, bad := &around{}, &around{misuse: true}
		client := workflow.NewClient(w.Client.Store(), workflow.ClientConfig{Interceptors: []workflow.Interceptor{in}})
		who := addStep.As(func(ctx context.Context, n int) (int, error) {
			if ctx.Value(principal{}) != "ann" {
				return 0, step.Fatal(errors.New("the step was not intercepted"))
			}
			return n + 1, nil
		})
		code := flowtest.As(twoMessages, receivesTwo)
		intercepted := func(i *around) http.Handler {
			h, err := invoke.Handler(client, registers(code, who), invoke.Config{Secrets: [][]byte{secret}, Worker: worker.Config{Interceptors: []workflow.Interceptor{i}}})
			flowtest.Order(t, err)
			return h
		}
		h := intercepted(in)
		run, err := twoMessages.Start(w.Ctx, client, 1)
		flowtest.Order(t, err)
		for range 2 {
			ask(t, h, run.ID())
			w.Send(run, 1)
		}
		if a := ask(t, intercepted(bad), run.ID()); a.code() != invoke.CodeBlocked || !strings.Contains(a.Error.Message, "around") {
			t.Errorf("answer %+v with an interceptor that breaks the rules, want blocked and its name", a)
		}
		if a := ask(t, h, run.ID()); a.Status != invoke.StatusDone {
			t.Errorf("answer %+v, want done", a)
		}
		if got := flowtest.Result(w, run); got != 5 {
			t.Errorf("result %d, want 5", got)
		}
		if diff := cmp.Diff([]int64{3, 3, 2}, []int64{in.requests.Load(), in.flows.Load(), in.steps.Load()}); diff != "" {
			t.Errorf("intercepted requests of the client (a start and two messages), executions of workflow code and attempts (-want +got):\n%s", diff)
		}
		w.Healthy()
	})
}

// pause waits for d. It returns the cause if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
