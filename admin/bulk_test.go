package admin_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	cancelOrders = admin.BulkRequest{Filter: admin.Filter{Workflow: "orders.fulfil"}, Action: admin.Action{Verb: "cancel"}}
	deleteOrders = admin.BulkRequest{Filter: admin.Filter{Workflow: "orders.fulfil"}, Action: admin.Action{Verb: "delete"}}
)

// code returns the problem code of an error, or the empty string if the error has none.
func code(err error) string {
	if err == nil {
		return ""
	}
	return admin.ProblemOf(err).Code
}

func TestOPS3_ABulkActionHasTheRightsOfTheOneThatAsks(t *testing.T) {
	e := newEstate(t)
	ctx := t.Context()
	preview := func(s *admin.Service, r admin.BulkRequest) admin.BulkPreview {
		t.Helper()
		p, err := s.Preview(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all, gone := preview(e.direct, cancelOrders), preview(e.direct, deleteOrders)
	if all.Count != 3 || gone.Refused != 3 {
		t.Fatalf("got %+v, %+v", all, gone)
	}
	viewer, operator, owner, other := e.as(admin.RolePayloads, ""), e.as(admin.RoleOperator, ""), e.as(admin.RoleOperator, "ada"), e.as(admin.RoleOperator, "bob")
	if own := preview(owner, cancelOrders); own.Count != 1 || own.Samples[0].ID != e.ada {
		t.Errorf("an owner sees %+v", own)
	}
	own, err := owner.StartBulk(ctx, admin.NewBulk{Token: preview(owner, cancelOrders).Token})
	if err != nil || own.Owner != "ada" || own.By != "p" || own.Total != 1 {
		t.Fatalf("an owner starts %+v, %v", own, err)
	}
	whole, err := operator.StartBulk(ctx, admin.NewBulk{Token: all.Token})
	if err != nil || whole.Owner != "" || whole.Total != 3 {
		t.Fatalf("an operator starts %+v, %v", whole, err)
	}
	start := func(s *admin.Service, b admin.NewBulk) error { _, err := s.StartBulk(ctx, b); return err }
	find := func(s *admin.Service, id string) error { _, err := s.Bulk(ctx, id); return err }
	stop := func(s *admin.Service, id string) error { _, err := s.StopBulk(ctx, id, admin.Because{}); return err }
	ask := func(s *admin.Service, r admin.BulkRequest) error { _, err := s.Preview(ctx, r); return err }
	forBob := cancelOrders
	forBob.Filter.Tags = map[string]string{"owner": "bob"}
	one := 1
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"preview by a viewer":                   {ask(viewer, cancelOrders), admin.CodeForbidden},
		"start by a viewer":                     {start(viewer, admin.NewBulk{Token: all.Token}), admin.CodeForbidden},
		"stop by a viewer":                      {stop(viewer, whole.ID), admin.CodeForbidden},
		"show to a viewer":                      {find(viewer, whole.ID), ""},
		"preview of a deletion by an operator":  {ask(operator, deleteOrders), admin.CodeForbidden},
		"deletion by an operator":               {start(operator, admin.NewBulk{BulkRequest: deleteOrders, Expect: &one}), admin.CodeForbidden},
		"deletion with the token of an admin":   {start(operator, admin.NewBulk{Token: gone.Token}), admin.CodeForbidden},
		"all runs by an owner":                  {start(owner, admin.NewBulk{Token: all.Token}), admin.CodeForbidden},
		"runs of another owner":                 {ask(owner, forBob), admin.CodeForbidden},
		"start with runs of another owner":      {start(owner, admin.NewBulk{BulkRequest: forBob, Expect: &one}), admin.CodeForbidden},
		"no filter but the owner":               {ask(owner, admin.BulkRequest{Action: cancelOrders.Action}), admin.CodeInput},
		"a start with no filter but the owner":  {start(owner, admin.NewBulk{BulkRequest: admin.BulkRequest{Action: cancelOrders.Action}, Expect: &one}), admin.CodeInput},
		"all of an owner":                       {ask(owner, admin.BulkRequest{Action: cancelOrders.Action, All: true}), ""},
		"show to another owner":                 {find(other, own.ID), admin.CodeNotFound},
		"stop by another owner":                 {stop(other, own.ID), admin.CodeNotFound},
		"show of that of all to an owner":       {find(owner, whole.ID), admin.CodeNotFound},
		"show of nothing to an owner":           {find(owner, "bulk-0"), admin.CodeNotFound},
		"stop by the owner":                     {stop(owner, own.ID), ""},
		"a run of the workflow by an operator":  {startRun(ctx, operator), admin.CodeForbidden},
		"a run of the workflow by an admin":     {startRun(ctx, e.as(admin.RoleAdmin, "")), admin.CodeForbidden},
		"a new run of a bulk action":            {act(ctx, operator, whole.Run, "restart"), admin.CodeRefused},
		"a new run of a bulk action for admins": {act(ctx, e.as(admin.RoleAdmin, ""), whole.Run, "restart"), admin.CodeRefused},
	} {
		if got := code(tt.err); got != tt.want {
			t.Errorf("%s: got %v, want %q", what, tt.err, tt.want)
		}
	}
	for _, tt := range []struct {
		who  *admin.Service
		want []string
	}{{viewer, []string{own.ID, whole.ID}}, {owner, []string{own.ID}}, {other, nil}} {
		page, err := tt.who.Bulks(ctx, admin.BulkFilter{})
		var ids []string
		for _, b := range page.Bulks {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		slices.Sort(tt.want)
		if err != nil || !slices.Equal(ids, tt.want) {
			t.Errorf("got %v, %v, want %v", ids, err, tt.want)
		}
	}
}

func startRun(ctx context.Context, s *admin.Service) error {
	_, err := s.Start(ctx, admin.Start{Workflow: admin.BulkRuns.Name()})
	return err
}

func act(ctx context.Context, s *admin.Service, run, verb string) error {
	_, err := s.Act(ctx, run, admin.Action{Verb: verb})
	return err
}

func TestOPS1_ABulkActionByAnOldPreviewIsRefused(t *testing.T) {
	e := newEstate(t)
	token := func(at time.Time) string {
		b := []byte(`{"filter":{"workflow":"orders.fulfil"},"action":{"verb":"cancel"},"at":"` + at.Format(time.RFC3339) + `","count":3}`)
		sum := sha256.Sum256(b)
		return base64.RawURLEncoding.EncodeToString(append(sum[:8], b...))
	}
	_, err := e.direct.StartBulk(t.Context(), admin.NewBulk{Token: token(time.Now().Add(-admin.PreviewLasts - time.Minute))})
	if code(err) != admin.CodePrecondition || admin.ProblemOf(err).Status != 412 || admin.ProblemOf(err).Exit != 4 {
		t.Errorf("got %v", err)
	}
	if _, err := e.direct.StartBulk(t.Context(), admin.NewBulk{Token: token(time.Now().Add(-admin.PreviewLasts + time.Minute))}); err != nil {
		t.Errorf("one that is almost old: %v", err)
	}
}

// lateStore is a store whose clock appears to be late, as it does if a busy server delays its
// response.
type lateStore struct {
	store.Store
	by time.Duration
}

func (s *lateStore) Unwrap() store.Store { return s.Store }
func (s *lateStore) Clock() store.Clock  { return &lateClock{s.Store.Clock(), s.by} }

type lateClock struct {
	store.Clock
	by time.Duration
}

func (c *lateClock) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// TestOPS1_APreviewHasTheRunsThatAnotherProcessHasJustCreated proves that a preview includes the
// runs that another process has just created, although both processes estimate the clock of the
// server independently.
func TestOPS1_APreviewHasTheRunsThatAnotherProcessHasJustCreated(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	client := func(s store.Store) *workflow.Client {
		c := workflow.NewClient(s, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	direct := admin.New(client(&lateStore{st, 50 * time.Millisecond}))
	order, starter := shim.NewWorkflow[int, int]("orders.fulfil", "in", shim.WorkflowPolicy{}), client(st)
	for n := range 3 {
		if _, err := order.Start(t.Context(), starter, n); err != nil {
			t.Fatal(err)
		}
		p, err := direct.Preview(t.Context(), cancelOrders)
		if err != nil || p.Count != n+1 {
			t.Errorf("a preview after start %d: got %d runs, %v", n+1, p.Count, err)
		}
	}
}

// TestOPS1_ABulkActionIsRefusedIfTheNumberIsATenthOff proves that a bulk action is refused if the
// number of runs differs from the expected number by more than a tenth, in either direction.
func TestOPS1_ABulkActionIsRefusedIfTheNumberIsATenthOff(t *testing.T) {
	e := newEstate(t)
	for range 17 {
		if _, err := e.direct.Start(t.Context(), admin.Start{Workflow: "orders.fulfil"}); err != nil {
			t.Fatal(err)
		}
	}
	for expect, want := range map[int]string{17: admin.CodePrecondition, 18: admin.CodePrecondition, 19: "", 20: "", 22: "", 23: admin.CodePrecondition, 0: admin.CodePrecondition} { // 20 runs match
		if _, err := e.direct.StartBulk(t.Context(), admin.NewBulk{BulkRequest: cancelOrders, Expect: &expect}); code(err) != want {
			t.Errorf("%d expected: got %v, want %q", expect, err, want)
		}
	}
}

// broken is a store that fails to deliver to some runs. During an outage it also fails all reads.
type broken struct {
	store.Store
	mu           sync.Mutex
	runs         map[event.RunID]bool
	calls        int    // number of deliveries
	after        int    // number of successful deliveries before the outage
	outage, away int    // length of the outage and its remainder, in reads
	first        func() // called in the first delivery
}

func (b *broken) Unwrap() store.Store { return b.Store }

var errBroken = errors.New("the disk is broken")

func (b *broken) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first != nil {
		b.first()
		b.first = nil
	}
	if b.calls++; b.outage > 0 && b.calls > b.after {
		b.away, b.outage = b.outage, 0
	}
	if b.away > 0 || b.runs[d.Run] {
		return "", errBroken
	}
	return b.Store.Deliver(ctx, d)
}

func (b *broken) Load(ctx context.Context, l []store.Load) ([]store.Loaded, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away > 0 {
		b.away--
		return nil, errBroken
	}
	return b.Store.Load(ctx, l)
}

// bulkEnd runs a worker until the bulk action has ended, and returns the final state of the action.
func bulkEnd(t *testing.T, c *workflow.Client, b admin.NewBulk) admin.Bulk {
	t.Helper()
	return bulkEndAfter(t, c, b, func(admin.Bulk) error { return nil })
}

// bulkEndAfter is bulkEnd, but calls do before the worker executes the bulk action.
func bulkEndAfter(t *testing.T, c *workflow.Client, b admin.NewBulk, do func(admin.Bulk) error) admin.Bulk {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	direct := admin.New(c)
	started, err := direct.StartBulk(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(started); err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, worker.Config{Queues: []string{admin.AdminQueue}})
	admin.Register(w, direct)
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	_, err = direct.Wait(ctx, "id:"+started.ID, time.Minute)
	for errors.Is(err, errBroken) { // during the outage, all reads fail
		_, err = direct.Wait(ctx, "id:"+started.ID, time.Minute)
	}
	if err != nil {
		t.Error(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	got, err := direct.Bulk(t.Context(), started.ID)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// brokenStore returns a client of a store that contains runs. Deliveries fail to the runs for which
// bad returns true.
func brokenStore(t *testing.T, runs int, bad func(i int) bool) (*workflow.Client, *broken) {
	t.Helper()
	b := &broken{Store: memstore.New(), runs: map[event.RunID]bool{}}
	c := workflow.NewClient(b, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), b.Store.Close()); err != nil {
			t.Error(err)
		}
	})
	for i := range runs {
		got, err := admin.New(c).Start(t.Context(), admin.Start{Workflow: "orders.fulfil", Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		if bad(i) {
			b.runs[event.RunID(got.Run)] = true
		}
	}
	return c, b
}

var pauseOrders = admin.BulkRequest{Filter: admin.Filter{Workflow: "orders.fulfil"}, Action: admin.Action{Verb: "pause"}}

func TestOPS1_ABulkActionCountsWhatFailsAndEndsIfThatIsTooMuch(t *testing.T) {
	n := 12
	c, _ := brokenStore(t, n, func(i int) bool { return i%3 == 0 })
	got := bulkEnd(t, c, admin.NewBulk{BulkRequest: pauseOrders, Expect: &n, Rate: 1000, MaxFailures: 5})
	if got.Status != admin.BulkCompleted || got.Done != 8 || got.Failed != 4 || got.Left != 0 || len(got.Failures) != 4 || !strings.Contains(got.Failures[0].Detail, errBroken.Error()) {
		t.Errorf("got %+v", got)
	}
	c, _ = brokenStore(t, n, func(int) bool { return true })
	got = bulkEnd(t, c, admin.NewBulk{BulkRequest: pauseOrders, Expect: &n, Rate: 4, MaxFailures: 3})
	if got.Status != admin.BulkFailed || got.Failed != 4 || got.Left != 8 || !strings.Contains(got.Failure, "no more than 3 were allowed: 8 remain") {
		t.Errorf("too many: got %+v", got)
	}
}

// TestOPS1_ABulkActionWaitsForTheStore proves that no run counts as failed because of an outage of
// the store, and that the step is repeated after the outage. Runs that the interrupted attempt
// canceled count as done, although they do not match the filter after that.
func TestOPS1_ABulkActionWaitsForTheStore(t *testing.T) {
	n := 40
	for _, r := range []admin.BulkRequest{pauseOrders, cancelHeld} {
		c, b := brokenStore(t, n, func(int) bool { return false })
		b.outage, b.after = 6, 20
		got := bulkEnd(t, c, admin.NewBulk{BulkRequest: r, Expect: &n, Rate: 1000, MaxFailures: 1})
		if got.Status != admin.BulkCompleted || got.Done != n || got.Failed+got.Skipped+got.Refused != 0 {
			t.Errorf("%s: got %+v", r.Action.Verb, got)
		}
	}
}

// cancelHeld cancels the held runs. A canceled run does not match its filter.
var cancelHeld = admin.BulkRequest{Filter: admin.Filter{Statuses: []string{"held"}}, Action: admin.Action{Verb: "cancel"}}

// TestOPS1_ABulkActionLooksAtEachRunAtItsTurn proves that a bulk action rechecks each run
// immediately before it acts on the run. A run that was canceled after it was listed does not match
// or does not accept the action.
func TestOPS1_ABulkActionLooksAtEachRunAtItsTurn(t *testing.T) {
	n := 40
	for what, tt := range map[string]struct {
		statuses         []string
		skipped, refused int
	}{"does not match": {[]string{"held"}, 1, 0}, "does not take it": {nil, 0, 1}} {
		c, b := brokenStore(t, n, func(int) bool { return false })
		page, err := admin.New(c).Runs(t.Context(), admin.Filter{Limit: 1}) // the newest run, which the action processes last
		if err != nil {
			t.Fatal(err)
		}
		other := workflow.NewClient(b.Store, workflow.ClientConfig{})
		b.first = func() {
			if err := other.Run(workflow.RunID(page.Runs[0].ID)).Cancel(t.Context(), ""); err != nil {
				t.Error(err)
			}
		}
		r := pauseOrders
		r.Filter.Statuses = tt.statuses
		got := bulkEnd(t, c, admin.NewBulk{BulkRequest: r, Expect: &n, Rate: 1000})
		if got.Done != n-1 || got.Skipped != tt.skipped || got.Refused != tt.refused || got.Left != 0 {
			t.Errorf("%s: got %+v", what, got)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOPS1_ABulkActionCountsWhatIsGoneAsSkipped proves that runs count as skipped if they do not
// match when the action lists them, so that the counts add up to the total.
func TestOPS1_ABulkActionCountsWhatIsGoneAsSkipped(t *testing.T) {
	n := 11
	c, _ := brokenStore(t, n-1, func(int) bool { return false })
	got := bulkEnd(t, c, admin.NewBulk{BulkRequest: cancelHeld, Expect: &n})
	if got.Total != n-1 || got.Done != n-1 || got.Skipped != 0 {
		t.Errorf("got %+v", got)
	}
	c, _ = brokenStore(t, n, func(int) bool { return false })
	page, err := admin.New(c).Runs(t.Context(), admin.Filter{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	got = bulkEndAfter(t, c, admin.NewBulk{BulkRequest: cancelHeld, Expect: &n}, func(admin.Bulk) error {
		return act(t.Context(), admin.New(c), page.Runs[0].ID, "cancel")
	})
	if got.Done != n-1 || got.Skipped != 1 || got.Left != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestOPS1_ABulkActionStopsAfterAPart proves that a bulk action that is stopped ends after the part
// in progress, whatever its rate is.
func TestOPS1_ABulkActionStopsAfterAPart(t *testing.T) {
	n := 600
	c, _ := brokenStore(t, n, func(int) bool { return false })
	got := bulkEndAfter(t, c, admin.NewBulk{BulkRequest: pauseOrders, Expect: &n, Rate: 1_000_000}, func(b admin.Bulk) error {
		_, err := admin.New(c).StopBulk(t.Context(), b.ID, admin.Because{})
		return err
	})
	if got.Status != admin.BulkStopped || got.Done != 250 || got.Left != 350 {
		t.Errorf("got %+v", got)
	}
}

// TestOPS3_ABulkActionOfSomebodyWithoutTheRightDoesNothing proves that the worker that executes a
// bulk action checks the rights of the principal, in addition to the check at its start.
func TestOPS3_ABulkActionOfSomebodyWithoutTheRightDoesNothing(t *testing.T) {
	n := 2
	c, _ := brokenStore(t, n, func(int) bool { return false })
	got := bulkEnd(t, c, admin.NewBulk{BulkRequest: cancelHeld, Expect: &n, By: &admin.Principal{Name: "eve", Role: admin.RoleViewer}})
	if got.Status != admin.BulkFailed || got.Done != 0 || !strings.Contains(got.Failure, "needs the role operator") {
		t.Errorf("got %+v", got)
	}
}

// TestOPS3_AForgedOrderOfABulkActionDoesNothing proves that the order of a bulk action, which names
// the principal whose rights apply, is valid only in a run that StartBulk has started. Otherwise a
// schedule could start a run that deletes runs for a principal without the right.
func TestOPS3_AForgedOrderOfABulkActionDoesNothing(t *testing.T) {
	c, _ := brokenStore(t, 2, func(int) bool { return false })
	direct := admin.New(c)
	w := worker.New(c, worker.Config{Queues: []string{admin.AdminQueue}})
	admin.Register(w, direct)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	forged := shim.NewWorkflow[map[string]any, workflow.None]("flowgen.bulk", "w", shim.WorkflowPolicy{Queue: admin.AdminQueue})
	order := func(id, owner string) map[string]any {
		return map[string]any{"order": map[string]any{
			"id": id, "filter": admin.Filter{Workflow: "orders.fulfil", Until: time.Now()}, "action": admin.Action{Verb: "cancel"},
			"by": admin.Principal{Name: "root", Role: admin.RoleAdmin, Owner: owner}, "total": 2, "rate": 10, "maxFailures": 10,
		}}
	}
	for what, tt := range map[string]struct {
		id, owner string
		opts      []workflow.StartOption
	}{
		"another workflow id":     {id: "bulk-a", opts: []workflow.StartOption{workflow.WithID("bulk-b")}},
		"no workflow id":          {id: "bulk-c"},
		"an id of no bulk action": {id: "mine", opts: []workflow.StartOption{workflow.WithID("mine")}},
		"of a schedule":           {id: "bulk-d", opts: []workflow.StartOption{workflow.WithID("bulk-d"), workflow.WithTags(map[string]string{workflow.TagSchedule: "nightly"})}},
		"runs of other owners":    {id: "bulk-e", owner: "ada", opts: []workflow.StartOption{workflow.WithID("bulk-e"), workflow.WithTags(map[string]string{"owner": "ada"})}},
	} {
		run, err := forged.Start(t.Context(), c, order(tt.id, tt.owner), tt.opts...)
		if err != nil {
			continue // StartBulk refuses this principal
		}
		if got, err := direct.Wait(t.Context(), string(run.ID()), time.Minute); err != nil || got.Status != "failed" {
			t.Errorf("%s: got %s, %v, want it failed", what, got.Status, err)
		}
	}
	held, err := direct.Count(t.Context(), admin.Filter{Workflow: "orders.fulfil", Statuses: []string{"held"}})
	if err != nil || held.Total != 2 {
		t.Errorf("%d runs were left alone, %v, want 2", held.Total, err)
	}
}

// TestOPS1_ABulkActionLeavesTheRunsOfTheRuntimeAlone proves that a preview counts all runs that the
// filter selects, and that runs of the runtime itself refuse every action.
func TestOPS1_ABulkActionLeavesTheRunsOfTheRuntimeAlone(t *testing.T) {
	c, _ := brokenStore(t, 2, func(int) bool { return false })
	direct := admin.New(c)
	ctx := t.Context()
	if _, err := direct.PutSchedule(ctx, admin.NewSchedule{Name: "nightly", Workflow: "orders.fulfil", Timing: admin.Timing{When: "30 2 * * *"}}); err != nil {
		t.Fatal(err)
	}
	two := 2
	if _, err := direct.StartBulk(ctx, admin.NewBulk{BulkRequest: pauseOrders, Expect: &two}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter     admin.Filter
		count, own int
	}{
		"all":                 {admin.Filter{}, 2, 0},
		"all of the system":   {admin.Filter{System: true}, 4, 2},
		"a schedule":          {admin.Filter{Workflow: event.ScheduleRun}, 1, 1},
		"a bulk action":       {admin.Filter{Workflow: admin.BulkRuns.Name()}, 1, 1},
		"of no such workflow": {admin.Filter{Workflow: "flowgen.none"}, 0, 0},
	} {
		counts, err := direct.Count(ctx, c.filter)
		if err != nil || counts.Total != c.count {
			t.Errorf("%s: the count is %d, %v, want %d", name, counts.Total, err, c.count)
		}
		p, err := direct.Preview(ctx, admin.BulkRequest{Filter: c.filter, All: true, Action: admin.Action{Verb: "cancel"}})
		if err != nil || p.Count != c.count || p.Refused != c.own {
			t.Errorf("%s: the preview has %d runs, %d refused, %v, want %d and %d", name, p.Count, p.Refused, err, c.count, c.own)
		}
	}
}
