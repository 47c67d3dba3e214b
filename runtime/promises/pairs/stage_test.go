package pairs_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// work is the input of the runs of all scenes.
type work struct {
	Do  string `json:"do"`  // selects the wait of the run: see wait
	Key string `json:"key"` // key of the cell
	By  string `json:"by"`  // identifies another run of the cell; empty for the run to which the command applies
}

// name identifies the run in the records of executed steps.
func (in work) name() string { return in.Key + in.By }

// The limits of the runs. Each cell has its own key of the limit perKey. The limit "pairs.all" has
// capacity for all runs.
var (
	perKey = limit.NewKeyed[string]("pairs.key", limit.Config{AtOnce: 1})
	forAll = limit.New("pairs.all", limit.Config{AtOnce: 10_000})

	plain     = flowtest.Flow[work, string]("pairs.plain")
	pooled    = flowtest.LimitedFlow[work, string]("pairs.pooled", uses)
	patient   = shim.NewWorkflow[work, string]("test.pairs.patient", "in", shim.WorkflowPolicy{Rerun: days})
	laned     = shim.NewWorkflow[work, string]("test.pairs.laned", "in", shim.WorkflowPolicy{Rerun: days, Uses: shim.Uses(uses)})
	mended    = flowtest.Flow[work, string]("pairs.mended")
	debounced = shim.NewWorkflow[work, string]("test.pairs.debounced", "in", shim.WorkflowPolicy{
		Collect: shim.Debounce(func(in work) string { return shim.Key(in.Key) }, 100*time.Hour, 1000*time.Hour),
	})
	single = shim.NewWorkflow[work, string]("test.pairs.single", "in", shim.WorkflowPolicy{
		Singleton: shim.Singleton(func(in work) string { return shim.Key(in.Key) }),
	})

	mark    = flowtest.AStep[string, string]("pairs.mark", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour})                       // returns at once
	gate    = flowtest.AStep[string, string]("pairs.gate", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour})                       // waits until its door is open
	hourly  = flowtest.AStep[string, string]("pairs.hourly", shim.Policy{Timeout: 10_000 * time.Hour, Retry: everyHour})                          // fails until its door is open
	fragile = flowtest.AStep[string, string]("pairs.fragile", shim.Policy{Timeout: 10_000 * time.Hour, Retry: workflow.RetryPolicy{Attempts: 1}}) // fails until its door is open, and has one attempt
	later   = flowtest.AStep[string, string]("pairs.later", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour})

	// Separate step runs execute the steps with limits or queues.
	gateUsing   = flowtest.AStep[string, string]("pairs.gate.using", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour, Uses: shim.Uses(stepUses)})
	hourlyUsing = flowtest.AStep[string, string]("pairs.hourly.using", shim.Policy{Timeout: 10_000 * time.Hour, Retry: everyHour, Uses: shim.Uses(stepUses)})
	laterUsing  = flowtest.AStep[string, string]("pairs.later.using", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour, Uses: shim.Uses(stepUses)})
	gateAway    = flowtest.AStep[string, string]("pairs.gate.away", shim.Policy{Retry: flowtest.Quick, Timeout: 10_000 * time.Hour, Queue: "away"})

	everyHour = workflow.RetryPolicy{Initial: time.Hour, Max: time.Hour}
	days      = workflow.RetryPolicy{Attempts: 2, Initial: 100 * time.Hour, Max: 100 * time.Hour} // the policy of workflows whose failed runs have one rerun
	goOn      = workflow.NewTopic[string]("pairs.on")
	double    = workflow.NewAsk[int, int]("pairs.double")
	approved  = workflow.NewHook[string]("pairs.approved")
	tokens    = workflow.NewValue[string]("pairs.token")
)

func uses(in work) []limit.Use {
	return []limit.Use{forAll.Use(1), perKey.For(in.Key).Use(1)}
}

func stepUses(a flowtest.StepArgs[string]) []limit.Use { return uses(work{Key: a.In}) }

// play is the code of all workflows. It executes the step "first", waits in the way that its input
// selects, and executes the step "last".
func (s *stage) play(ctx workflow.Context, in work) (string, error) {
	if err := errors.Join(s.watch.code(workflow.Info(ctx).ID), s.carried(workflow.Attributes(ctx), in.name())); err != nil {
		return "", err
	}
	double.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) { return 2 * n, nil })
	first := "first"
	if s.isOdd(workflow.Info(ctx).ID) {
		first = "changed"
	}
	if _, err := mark.CallKey(ctx, first, in.name()); err != nil {
		return "", err
	}
	if err := s.wait(ctx, in); err != nil {
		return "", err
	}
	if _, err := mark.CallKey(ctx, "last", in.name()); err != nil {
		return "", err
	}
	return in.Key, nil
}

// wait waits in the way that the input selects, until the scene lets it continue.
func (s *stage) wait(ctx workflow.Context, in work) (err error) {
	switch in.Do {
	case "", "complete":
	case "message":
		_, err = goOn.Receive(ctx)
	case "gate":
		_, err = gate.Call(ctx, in.Key)
	case "backoff":
		_, err = hourly.Call(ctx, in.Key)
	case "later":
		_, err = later.Call(ctx, in.Key)
	case "gate using":
		_, err = gateUsing.Call(ctx, in.Key)
	case "backoff using":
		_, err = hourlyUsing.Call(ctx, in.Key)
	case "later using":
		_, err = laterUsing.Call(ctx, in.Key)
	case "gate away":
		_, err = gateAway.Call(ctx, in.Key)
	case "sleep":
		err = workflow.Sleep(ctx, 100*time.Hour)
	case "hook", "own hook":
		var opts []workflow.HookOption
		if in.Do == "own hook" {
			opts = append(opts, workflow.Token("token-"+in.Key))
		}
		var h *workflow.OpenHook[string]
		if h, err = approved.Open(ctx, opts...); err != nil {
			return err
		}
		defer h.Dispose(ctx)
		tokens.Set(ctx, h.Token())
		_, err = h.Receive(ctx)
	case "child", "child subject", "child abandoned":
		tags := map[string]string{tagCell: in.Key}
		if in.Do != "child" {
			tags[tagSubject] = in.Key
		}
		opts := []workflow.ChildOption{workflow.WithTags(tags)}
		if in.Do == "child abandoned" {
			opts = append(opts, workflow.WithParentClose(workflow.ParentCloseAbandon))
		}
		_, err = plain.StartChild(ctx, work{Do: "message", Key: in.Key, By: "/child"}, opts...).Get(ctx)
	case "clean":
		if _, err = goOn.Receive(ctx); err != nil {
			if _, failed := gate.Call(workflow.Detached(ctx), in.Key); failed != nil {
				return failed
			}
		}
	case "fail":
		if _, err = fragile.Call(ctx, in.Key); err == nil {
			_, err = goOn.Receive(ctx)
		}
	case "fail beside":
		beside := workflow.Go(ctx, func(ctx workflow.Context) (string, error) {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return "", err
			}
			return mark.CallKey(ctx, "beside", in.name())
		})
		_, err = fragile.Call(ctx, in.Key)
		if _, failed := beside.Get(ctx); failed != nil {
			return failed
		}
	case "fail undone":
		if _, err := mark.CallKey(ctx, "undone", in.name()); err != nil {
			return err
		}
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := mark.CallKey(ctx, "undo", in.name())
			return err
		})
		_, err = fragile.Call(ctx, in.Key)
	case "wait undone":
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := mark.CallKey(ctx, "undo", in.name())
			return err
		})
		_, err = goOn.Receive(ctx)
	case "report":
		err = reported(in.Key)
	case "continue":
		return plain.ContinueAsNew(ctx, work{Do: "message", Key: in.Key, By: "/next"})
	default:
		err = fmt.Errorf("there is no %q", in.Do)
	}
	return err
}

// stage is a world with all interfaces to its store. The cells of one scene are executed on a
// stage.
type stage struct {
	*flowtest.World
	direct  *admin.Service
	service *admin.Service  // the service as the operator of the tests uses it
	remote  *remote.Service // the same service over HTTP
	api     http.Handler    // the handler that remote calls
	pages   http.Handler    // the console
	flowctl string          // path of flowctl; empty if flowctl is not tested
	how     hosting
	build   string          // build of the workers that are started
	serve   func()          // starts the worker of the queue "nobody", once
	before  *host           // a worker that the scene has started
	mend    func()          // makes the code fit all logs, once
	replace func()          // starts another worker of the queue "gone", once
	spare   func()          // starts workers of another build, once
	watch   *watcher        // nil if nothing is intercepted
	fleet   *flowtest.Fleet // the second worker and its replacement; nil if there is only one worker

	mu       sync.Mutex
	hosts    []*host
	die      func() // ends the second worker like os.Exit
	doors    map[string]chan struct{}
	tokens   map[string][]string  // tokens of pending attempts, by the key of the cell
	odd      map[event.RunID]bool // runs whose code does not fit their logs
	marked   []marked
	reported map[string]string // keys of cells, by the text of a failure that is reported
}

// marked is one execution of a step.
type marked struct {
	Step, Cell, Key string
	At              time.Time
}

// served contains the queues that have a worker from the beginning.
var served = []string{workflow.DefaultQueue, "away", admin.AdminQueue}

// newStage returns a stage. watch intercepts its operations; it may be nil.
func newStage(w *flowtest.World, watch *watcher, how hosting) *stage {
	s := &stage{World: w, watch: watch, how: how, build: firstBuild, direct: admin.New(w.Client), doors: map[string]chan struct{}{}, reported: map[string]string{}, tokens: map[string][]string{}, odd: map[event.RunID]bool{}}
	s.TakesLong()
	s.service = s.direct.AsLocal("operator")
	s.api = api.New(s.direct, api.Config{AllowUnauthenticated: true, Mutations: 1 << 20, Streams: 1 << 20, Lists: 1 << 20})
	var err error
	if s.remote, err = remote.New("http://localhost", remote.Config{Client: &http.Client{Transport: through{s.api}}}); err != nil {
		w.T.Fatal(err)
	}
	s.pages = console.New(s.service, console.Config{AllowUnauthenticated: true})
	all := worker.Config{Queues: served, Concurrency: 4000, Runs: 4000}
	s.Work(all, s.bindings()...)
	switch {
	case how.pins():
		s.serving(workflow.DefaultQueue, s.build)
	case how == byFunctions: // otherwise a command about their build may come before the store knows the build
		s.Eventually("the functions serve", func() bool {
			return s.serves(s.build, store.Route{Queue: workflow.DefaultQueue, Workflow: plain.Name()})
		})
	}
	s.spare = sync.OnceFunc(func() {
		all.Build, all.Pin = spareBuild, how.pins()
		s.Work(all, s.bindings()...)
	})
	s.serve = sync.OnceFunc(func() {
		s.Work(worker.Config{Queues: []string{"nobody"}, Alerts: alert.Config{Targets: map[string]alert.Target{"nobody": accepting{}}}}, s.bindings()...)
	})
	s.mend = sync.OnceFunc(func() {
		s.setOdd(nil)
		s.Work(worker.Config{Queues: []string{"odd"}}, s.otherBindings()...)
	})
	s.replace = sync.OnceFunc(func() { s.Work(worker.Config{Queues: []string{"gone"}, Pin: true}, s.otherBindings()...) })
	return s
}

// withMortal starts a second worker that kill can end. Another worker then replaces it.
func (s *stage) withMortal() {
	cfg := worker.Config{
		Queues: served, Concurrency: 4000, Runs: 4000, Heartbeat: 20_000 * time.Hour, ClaimExpiry: 80_000 * time.Hour, // long enough for the jumps of the clock
		Interceptors: s.interceptors(),
	}
	s.fleet = s.Keep(1, cfg, func(die func()) []flowtest.Binding {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.die = die
		return s.bindings()
	})
}

// kill ends the second worker, if there is one, whatever this worker is doing.
func (s *stage) kill() {
	s.T.Helper()
	if s.fleet == nil {
		return
	}
	if !s.until(flowtest.Patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.die != nil
	}) {
		s.T.Fatal("the second worker does not begin")
	}
	s.mu.Lock()
	die := s.die
	s.mu.Unlock()
	go die() // die blocks for ever
}

func (s *stage) isOdd(run event.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.odd[run]
}

func (s *stage) setOdd(odd map[event.RunID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd = odd
}

func (s *stage) bindings() []flowtest.Binding {
	all := []flowtest.Binding{
		flowtest.As(plain, s.play), flowtest.As(pooled, s.play), flowtest.As(patient, s.play), flowtest.As(laned, s.play), flowtest.As(debounced, s.play), flowtest.As(single, s.play),
		func(r workflow.Registrar) { admin.Register(r, s.direct) },
	}
	for _, d := range []flowtest.StepOf[string, string]{mark} {
		all = append(all, d.As(s.executed("mark", func(context.Context, string) error { return nil })))
	}
	for _, d := range []flowtest.StepOf[string, string]{gate, gateUsing, gateAway} {
		all = append(all, d.As(s.executed("gate", func(ctx context.Context, key string) error {
			select {
			case <-s.door(key):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})))
	}
	for _, d := range []flowtest.StepOf[string, string]{hourly, hourlyUsing, fragile} {
		all = append(all, d.As(s.executed("try", func(_ context.Context, key string) error {
			select {
			case <-s.door(key):
				return nil
			default:
				return errors.New("the door is shut")
			}
		})))
	}
	for _, d := range []flowtest.StepOf[string, string]{later, laterUsing} {
		all = append(all, d.As(func(ctx context.Context, key string) (string, error) {
			l, err := step.Later(ctx, approved)
			if err != nil {
				return "", err
			}
			s.mu.Lock()
			s.tokens[key] = append(s.tokens[key], l.Token())
			s.mu.Unlock()
			return l.Pending()
		}))
	}
	return all
}

// otherBindings returns the bindings with an additional workflow. It changes the code, so that a
// worker gets blocked runs.
func (s *stage) otherBindings() []flowtest.Binding {
	return append(s.bindings(), flowtest.As(mended, s.play))
}

// executed returns the code of a step. The code records each execution before it calls do.
func (s *stage) executed(name string, do func(ctx context.Context, key string) error) func(context.Context, string) (string, error) {
	return func(ctx context.Context, key string) (string, error) {
		call, _ := step.Current(ctx)
		s.mu.Lock()
		s.marked = append(s.marked, marked{name + " " + call.Key, key, step.IdempotencyKey(ctx), s.Store.Clock().Now()})
		s.mu.Unlock()
		if err := errors.Join(s.watch.attempt(ctx), s.carried(step.Attributes(ctx), key)); err != nil {
			return "", err
		}
		return key, do(ctx, key)
	}
}

func (s *stage) door(key string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doors[key] == nil {
		s.doors[key] = make(chan struct{})
	}
	return s.doors[key]
}

// open opens the door of a cell. It has no effect if the door is open.
func (s *stage) open(key string) {
	door := s.door(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-door:
	default:
		close(door)
	}
}

// executions returns the step executions of a cell, in order.
func (s *stage) executions(key string) (all []marked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.marked {
		if m.Cell == key {
			all = append(all, m)
		}
	}
	return all
}

// load returns the stored data of a run.
func (s *stage) load(run event.RunID) store.Loaded {
	s.T.Helper()
	loaded, err := s.Store.Load(s.Ctx, []store.Load{{Run: run, Inbox: true}})
	if err != nil {
		s.T.Fatal(err)
	}
	return loaded[0]
}

// through is a transport that calls a handler in the same process.
type through struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (h through) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	r.RemoteAddr = "127.0.0.1:1"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	h.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// page returns a page of the console.
func (s *stage) page(path string) string {
	s.T.Helper()
	r := httptest.NewRequestWithContext(s.Ctx, http.MethodGet, "http://localhost"+path, nil)
	r.RemoteAddr = "127.0.0.1:1"
	rec := httptest.NewRecorder()
	s.pages.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		s.T.Errorf("console page %s: got status %d\n%s", path, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// onMemory returns a stage on an in-memory store whose time the test advances. If intercepted is
// set, an interceptor wraps all its operations.
func onMemory(t *testing.T, intercepted bool, how hosting) *stage {
	t.Helper()
	if !intercepted {
		return newStage(flowtest.NewVirtual(t), nil, how)
	}
	watch, clock := newWatcher(), storetest.NewClock()
	w := flowtest.NewWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{Interceptors: []workflow.Interceptor{watch}})
	w.Clock = clock
	return newStage(w, watch, how)
}
