package admintest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Workflow is the name of the workflow whose runs the suite starts.
const Workflow = "admintest.order"

var (
	order    = shim.NewWorkflow[string, string](Workflow, "what", shim.WorkflowPolicy{})
	verdicts = workflow.NewTopic[json.RawMessage]("verdict")
	limits   = workflow.NewAsk[int, int]("set limit/β") // a name that must be escaped in URLs
	progress = workflow.NewValue[string]("progress")
	words    = workflow.NewStream[string]("words/β")
	recent   = workflow.NewStream[int]("recent", workflow.KeepLast(2))
	// customers admits one visit of each customer at a time.
	customers = limit.NewKeyed[string]("admintest.customer/β", limit.Config{AtOnce: 1})
	visit     = shim.NewWorkflow[string, string]("admintest.visit", "customer", shim.WorkflowPolicy{
		Uses: shim.Uses(func(customer string) []limit.Use { return []limit.Use{customers.For(customer).Use(1)} }),
	})
	// scales admits one parcel at a time. Workers of a separate queue weigh the parcels.
	scales = limit.New("admintest.scales", limit.Config{AtOnce: 1})
	weigh  = shim.NewStep("admintest.weigh", shim.Policy{
		Queue: "admintest.scales", Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{scales.Use(1)} }),
	}, shim.Handle[int, int])
	label = shim.NewStep("admintest.label", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}}, func(f func(context.Context, string) (string, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, what string) (string, error) { return f(ctx, what) })
	})
)

// run behaves according to its input. "good" completes, "bad" fails, and "next" continues as
// "good". "family" has a child "good", then a child that waits. "talk" writes to streams and
// repeats each message until it receives "bye". "hook" opens three hooks and receives payloads of
// the first hook until the name in the payload is empty. With any other input, the run waits for a
// message and returns it.
func run(ctx workflow.Context, what string) (string, error) {
	progress.Set(ctx, what)
	limits.Handle(ctx, func(n int) error {
		if n < 0 {
			return errors.New("a limit is not negative")
		}
		return nil
	}, func(_ workflow.Context, n int) (int, error) {
		if n == 13 {
			return 0, errors.New("13 is nobody's limit")
		}
		return 2 * n, nil
	})
	switch what {
	case "good", "bad":
		got, err := shim.Call[string](ctx, label, what)
		return got, err
	case "next":
		return "", order.ContinueAsNew(ctx, "good")
	case "family":
		if _, err := order.Child(ctx, "good"); err != nil {
			return "", err
		}
		return order.Child(ctx, "wait")
	case "hook":
		return "", hook(ctx)
	case "talk":
		return "", talk(ctx)
	}
	got, err := verdicts.Receive(ctx)
	return string(got), err
}

func talk(ctx workflow.Context) error {
	for i := range 5 {
		recent.Write(ctx, i+1)
	}
	words.Write(ctx, "hello")
	if _, err := shim.Call[string](ctx, label, "words"); err != nil {
		return err
	}
	for {
		got, err := verdicts.Receive(ctx)
		if err != nil || string(got) == `"bye"` {
			return err
		}
		words.Write(ctx, string(got))
	}
}

// Service contains the operations that the suite tests.
type Service interface {
	Runs(ctx context.Context, f admin.Filter) (admin.RunPage, error)
	Count(ctx context.Context, f admin.Filter) (admin.Counts, error)
	Run(ctx context.Context, ref string) (admin.Run, error)
	Events(ctx context.Context, ref string, from uint64, limit int) (admin.EventPage, error)
	Follow(ctx context.Context, ref string, f admin.EventFilter) iter.Seq2[admin.Event, error]
	Entities(ctx context.Context, ref string, f admin.EntityFilter) (admin.EntityPage, error)
	Inbox(ctx context.Context, ref string) (admin.Inbox, error)
	Graph(ctx context.Context, ref, path string) (admin.Graph, error)
	Tree(ctx context.Context, ref string) (admin.Tree, error)

	Act(ctx context.Context, ref string, a admin.Action) (admin.Acted, error)
	Start(ctx context.Context, in admin.Start) (admin.Started, error)
	Wait(ctx context.Context, ref string, most time.Duration) (admin.Run, error)
	Send(ctx context.Context, ref, topic string, m admin.Message) (admin.Sent, error)
	Ask(ctx context.Context, ref, name string, m admin.Message) (admin.Answer, error)
	Value(ctx context.Context, ref, name string) (admin.Value, error)

	Streams(ctx context.Context, ref string, f admin.StreamFilter) (admin.StreamList, error)
	Stream(ctx context.Context, ref, name string, from uint64, limit int) (admin.ChunkPage, error)
	FollowStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[admin.Chunk, error]

	Hooks(ctx context.Context, f admin.HookFilter) (admin.HookPage, error)
	Hook(ctx context.Context, token string) (admin.Hook, error)
	ResumeHook(ctx context.Context, token string, m admin.Message) (admin.Sent, error)

	Failures(ctx context.Context, f admin.FailureFilter) (admin.FailurePage, error)
	Workers(ctx context.Context, f admin.FleetFilter) (admin.WorkerPage, error)
	Queues(ctx context.Context, f admin.FleetFilter) (admin.QueuePage, error)
	Depth(ctx context.Context, queue string) (admin.Depth, error)
	Rates(ctx context.Context) (admin.Rates, error)
	Catalog(ctx context.Context, f admin.CatalogFilter) (admin.CatalogPage, error)

	Schedules(ctx context.Context, f admin.ScheduleFilter) (admin.SchedulePage, error)
	Schedule(ctx context.Context, name string) (admin.Schedule, error)
	PutSchedule(ctx context.Context, n admin.NewSchedule) (admin.ScheduleActed, error)
	ActOnSchedule(ctx context.Context, name string, a admin.ScheduleAction) (admin.ScheduleActed, error)

	Pools(ctx context.Context, f admin.PoolFilter) (admin.PoolPage, error)
	ActOnPool(ctx context.Context, name string, a admin.PoolAction) (admin.PoolActed, error)

	Deploys(ctx context.Context) (admin.Deploys, error)
	Drained(ctx context.Context, build string) (admin.Drained, error)
	Ramp(ctx context.Context, r admin.Ramp) (admin.Ramped, error)
	ActOnDeploy(ctx context.Context, build string, a admin.DeployAction) (admin.DeployActed, error)

	Views(ctx context.Context) (admin.ViewList, error)
	SaveView(ctx context.Context, name string, v admin.NewView) (admin.ViewActed, error)
	DeleteView(ctx context.Context, name string, why admin.Because) (admin.ViewActed, error)

	Preview(ctx context.Context, r admin.BulkRequest) (admin.BulkPreview, error)
	StartBulk(ctx context.Context, b admin.NewBulk) (admin.Bulk, error)
	Bulk(ctx context.Context, id string) (admin.Bulk, error)
	Bulks(ctx context.Context, f admin.BulkFilter) (admin.BulkPage, error)
	StopBulk(ctx context.Context, id string, why admin.Because) (admin.Bulk, error)

	Journal(ctx context.Context, f admin.JournalFilter) (admin.JournalPage, error)

	Examine(ctx context.Context) (admin.Exam, error)
	Check(ctx context.Context) (admin.Checked, error)
	Repair(ctx context.Context, why admin.Because) (admin.Checked, error)

	Export(ctx context.Context, r admin.ExportRequest, w io.Writer) (admin.ExportCount, error)
}

// Scene is a store with a worker, and the service under test.
type Scene struct {
	testing.TB
	Service Service        // the service under test
	Direct  *admin.Service // a service with direct access to the same store
	Client  *workflow.Client
}

// NewScene returns a scene on a store. It closes the store at the end of the test. over returns the
// service under test; its argument is the service with direct access to the store.
func NewScene(t testing.TB, st store.Store, over func(t testing.TB, direct *admin.Service) Service) *Scene {
	t.Helper()
	return newScene(t, st, nil, over)
}

// NewSealedScene returns a scene whose client and worker seal user data with a codec, and a service
// without a codec on the same store.
func NewSealedScene(t testing.TB, st store.Store, codec store.Codec) (sealed *Scene, without *admin.Service) {
	t.Helper()
	s := newScene(t, st, codec, func(_ testing.TB, direct *admin.Service) Service { return direct })
	bare := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := bare.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, admin.New(bare)
}

func newScene(t testing.TB, st store.Store, codec store.Codec, over func(t testing.TB, direct *admin.Service) Service) *Scene {
	t.Helper()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler), Codec: codec})
	w := worker.New(client, worker.Config{})
	label.Bind(w, func(ctx context.Context, what string) (string, error) {
		switch what {
		case "bad":
			return "", fatal{"the carrier is closed"}
		case "words":
			return "", step.Write(ctx, words, "world")
		}
		return "label of " + what, nil
	})
	weigh.Bind(w, func(_ context.Context, grams int) (int, error) { return grams, nil })
	shim.BindWorkflow(w, order, run)
	direct := admin.New(client)
	admin.Register(w, direct)
	release := bindStates(w)
	bindGraphs(w)
	bindPatient(w)
	shim.BindWorkflow(w, visit, func(ctx workflow.Context, _ string) (string, error) {
		got, err := verdicts.Receive(ctx)
		return string(got), err
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		release()
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return &Scene{TB: t, Service: over(t, direct), Direct: direct, Client: client}
}

// on returns a copy of the scene for a subtest.
func (s *Scene) on(t *testing.T) *Scene {
	part := *s
	part.TB = t
	return &part
}

// ctx returns a context with the time limit of one part of a test.
func (s *Scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	s.Cleanup(cancel)
	return ctx
}

// Start starts a run with direct access to the store.
func (s *Scene) Start(what, id string) string {
	s.Helper()
	got, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input(what), ID: id})
	if err != nil {
		s.Fatal(err)
	}
	return got.Run
}

// Ended starts a run and waits for its end.
func (s *Scene) Ended(what, id string) string {
	s.Helper()
	ref := s.Start(what, id)
	if r, err := s.Direct.Wait(s.ctx(), ref, time.Minute); err != nil || r.EndedAt.IsZero() {
		s.Fatalf("run %s has not ended: %+v, %v", ref, r, err)
	}
	return ref
}

// Until waits until a run has a status. The status can change without an event, because a run that
// parks after it has read its inbox records nothing. So Until waits for each event only briefly.
func (s *Scene) Until(ref string, want ...string) {
	s.Helper()
	ctx := s.ctx()
	for from := uint64(1); ; {
		r, err := s.Direct.Run(ctx, ref)
		if err != nil {
			s.Fatal(err)
		}
		if slices.Contains(want, r.Status) {
			return
		}
		if !r.EndedAt.IsZero() {
			s.Fatalf("run %s is %s, want %v", ref, r.Status, want)
		}
		from = max(from, r.Events+1)
		briefly, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		for _, err := range s.Direct.Follow(briefly, ref, admin.EventFilter{From: from}) {
			if ctx.Err() != nil || err != nil && briefly.Err() == nil {
				s.Fatalf("run %s is %s, want %v: %v", ref, r.Status, want, err)
			}
			break
		}
		cancel()
	}
}

// Input returns the input of a run.
func Input(what string) admin.Payload {
	b, _ := json.Marshal(map[string]string{"what": what}) // a string can always be encoded
	return b
}

// fatal is an error that is not retried.
type fatal struct{ text string }

func (f fatal) Error() string { return f.text }

// same reports a test error if the JSON forms of two results differ.
func same[T any](s *Scene, what string, got, want T) {
	s.Helper()
	if diff := cmp.Diff(form(s, want), form(s, got)); diff != "" {
		s.Errorf("%s: the service answers something else (-direct +service):\n%s", what, diff)
	}
}

func form(s *Scene, v any) string {
	s.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}

// sameProblem reports a test error unless both errors are the same problem.
func sameProblem(s *Scene, what string, got, want error) {
	s.Helper()
	if got == nil || want == nil {
		s.Errorf("%s: the service answers %v, directly it is %v: want a problem", what, got, want)
		return
	}
	g, w := admin.ProblemOf(got), admin.ProblemOf(want)
	if g.Code != w.Code || g.Status != w.Status || g.Exit != w.Exit || g.Detail == "" {
		s.Errorf("%s: the problem %d %s (%s), directly it is %d %s (%s)", what, g.Status, g.Code, g.Detail, w.Status, w.Code, w.Detail)
	}
}

// problem reports a test error unless err is a problem with the given status and code.
func problem(s *Scene, what string, err error, status int, code string) {
	s.Helper()
	if p := admin.ProblemOf(err); p == nil || p.Status != status || p.Code != code {
		s.Errorf("%s: got %+v, want status %d, code %s", what, p, status, code)
	}
}
