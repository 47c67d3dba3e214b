package admin_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// estate is a store with a run of ada, a run of bob, and a run without an owner. No worker executes
// the runs.
type estate struct {
	*testing.T
	st                *unattended
	direct            *admin.Service
	ada, bob, nobodys string
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	st := &unattended{Store: memstore.New()}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &estate{T: t, st: st, direct: admin.New(client)}
	start := func(id string, tags map[string]string) string {
		got, err := e.direct.Start(t.Context(), admin.Start{Workflow: "orders.fulfil", Input: admin.Payload(`{"order":"secret"}`), ID: id, Tags: tags})
		if err != nil {
			t.Fatal(err)
		}
		return got.Run
	}
	e.ada, e.bob, e.nobodys = start("of-ada", map[string]string{"owner": "ada"}), start("of-bob", map[string]string{"owner": "bob"}), start("of-nobody", nil)
	return e
}

func (e *estate) as(role admin.Role, owner string) *admin.Service {
	return e.direct.As(admin.Principal{Name: "p", Role: role, Owner: owner})
}

// unattended is a store that tests use without a worker. Its streams are closed, and it can refuse
// deliveries, so that no call waits for a worker.
type unattended struct {
	store.Store
	refuses atomic.Bool
}

// errRefused is the error of a delivery that the store refuses.
type errRefused struct{}

func (errRefused) Error() string   { return "no worker would answer" }
func (errRefused) Permanent() bool { return true }

func (u *unattended) Unwrap() store.Store { return u.Store }

func (u *unattended) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if u.refuses.Load() {
		return "", errRefused{}
	}
	return u.Store.Deliver(ctx, d)
}

func (u *unattended) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := u.Store.ReadStream(ctx, r)
	page.Closed = true
	return page, err
}

// calls calls each operation that concerns a single run, and returns the errors by operation.
func (e *estate) calls(s *admin.Service, ref string) map[string]error {
	ctx, m := e.Context(), admin.Message{Payload: admin.Payload("1")}
	got := map[string]error{}
	_, got["run"] = s.Run(ctx, ref)
	_, got["events"] = s.Events(ctx, ref, 1, 0)
	for _, got["follow"] = range s.Follow(ctx, ref, admin.EventFilter{}) {
		break
	}
	_, got["stream"] = s.Stream(ctx, ref, "words", 0, 0)
	got["follow a stream"] = nil
	for _, got["follow a stream"] = range s.FollowStream(ctx, ref, "words", 0) {
		break
	}
	_, got["wait"] = s.Wait(ctx, ref, 0)
	_, got["value"] = s.Value(ctx, ref, "progress")
	_, got["hooks"] = s.Hooks(ctx, admin.HookFilter{Run: ref})
	_, got["send"] = s.Send(ctx, ref, "verdict", m)
	e.st.refuses.Store(true)
	if _, got["ask"] = s.Ask(ctx, ref, "limit", m); errors.As(got["ask"], new(errRefused)) {
		got["ask"] = nil
	}
	e.st.refuses.Store(false)
	_, got["pause"] = s.Act(ctx, ref, admin.Action{Verb: "pause"})
	_, got["cancel"] = s.Act(ctx, ref, admin.Action{Verb: "cancel"})
	_, got["delete"] = s.Act(ctx, ref, admin.Action{Verb: "delete"})
	if p := admin.ProblemOf(got["delete"]); p != nil && p.Code == admin.CodeRefused { // the run is open, so deleting it is refused for every role
		got["delete"] = nil
	}
	return got
}

func TestOPS3_ARoleDoesWhatItMayAndNoMore(t *testing.T) {
	lowest := map[string]admin.Role{
		"run": admin.RoleViewer, "events": admin.RoleViewer, "follow": admin.RoleViewer, "wait": admin.RoleViewer, "hooks": admin.RoleViewer, "value": admin.RolePayloads,
		"stream": admin.RolePayloads, "follow a stream": admin.RolePayloads,
		"send": admin.RoleOperator, "ask": admin.RoleOperator, "pause": admin.RoleOperator, "cancel": admin.RoleOperator, "delete": admin.RoleAdmin,
	}
	for _, role := range append(admin.Roles(), "", "root") {
		e := newEstate(t)
		s := e.as(role, "")
		for what, err := range e.calls(s, e.nobodys) {
			may := role.Allows(lowest[what])
			if p := admin.ProblemOf(err); may != (err == nil) || !may && p.Status != http.StatusForbidden {
				t.Errorf("%q may %s: %v: got %v", role, what, may, err)
			}
		}
		_, err := s.Start(t.Context(), admin.Start{Workflow: "orders.fulfil"})
		if may := role.Allows(admin.RoleOperator); may != (err == nil) {
			t.Errorf("%q may start: %v: got %v", role, may, err)
		}
		for what, err := range map[string]error{"list": second(s.Runs(t.Context(), admin.Filter{})), "count": second(s.Count(t.Context(), admin.Filter{}))} {
			if may := role.Allows(admin.RoleViewer); may != (err == nil) {
				t.Errorf("%q may %s: %v: got %v", role, what, may, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestOPS3_AViewerSeesNoPayload(t *testing.T) {
	e := newEstate(t)
	for _, tt := range []struct {
		role admin.Role
		sees bool
	}{{admin.RoleViewer, false}, {admin.RolePayloads, true}} {
		s := e.as(tt.role, "")
		run, err := s.Run(t.Context(), e.ada)
		if err != nil || (run.Input != nil) != tt.sees || len(run.Actions) > 0 {
			t.Errorf("%s: got %+v, %v", tt.role, run, err)
		}
		waited, err := s.Wait(t.Context(), e.ada, 0)
		if err != nil || (waited.Input != nil) != tt.sees || len(waited.Actions) > 0 {
			t.Errorf("%s: wait: got %+v, %v", tt.role, waited, err)
		}
		page, err := s.Events(t.Context(), e.ada, 1, 0)
		if err != nil || len(page.Events) == 0 || (page.Events[0].Payload != nil) != tt.sees {
			t.Errorf("%s: got %+v, %v", tt.role, page, err)
		}
		for event, err := range s.Follow(t.Context(), e.ada, admin.EventFilter{}) {
			if err != nil || (event.Payload != nil) != tt.sees {
				t.Errorf("%s: follow: got %+v, %v", tt.role, event, err)
			}
			break
		}
	}
	run, err := e.as(admin.RoleOperator, "").Run(t.Context(), e.ada)
	if err != nil || !slices.Contains(run.Actions, "cancel") || slices.Contains(run.Actions, "delete") {
		t.Errorf("operator: got %+v, %v", run, err)
	}
}

// TestOPS3_AnOwnerSeesAndControlsItsRunsOnly proves that a principal with an owner cannot
// distinguish a run of another owner, or a run without an owner, from a missing run.
func TestOPS3_AnOwnerSeesAndControlsItsRunsOnly(t *testing.T) {
	e := newEstate(t)
	s := e.as(admin.RoleAdmin, "ada")
	for what, err := range e.calls(s, e.ada) {
		if err != nil {
			t.Errorf("%s of its own run: %v", what, err)
		}
	}
	for _, ref := range []string{e.bob, e.nobodys, "id:of-bob"} {
		for what, err := range e.calls(s, ref) {
			if p := admin.ProblemOf(err); p == nil || p.Status != http.StatusNotFound || p.Detail != "find run "+ref+": "+workflow.ErrRunNotFound.Error() {
				t.Errorf("%s of %s: got %+v, want 404 and nothing that tells it from a run that is not there", what, ref, p)
			}
		}
	}
	e = newEstate(t)
	s = e.as(admin.RoleAdmin, "ada")
	page, err := s.Runs(t.Context(), admin.Filter{Tags: map[string]string{"owner": "ada"}})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != e.ada {
		t.Errorf("list: got %+v, %v", page, err)
	}
	if page, err = s.Runs(t.Context(), admin.Filter{}); err != nil || len(page.Runs) != 1 {
		t.Errorf("list: got %+v, %v", page, err)
	}
	if counts, err := s.Count(t.Context(), admin.Filter{}); err != nil || counts.Total != 1 {
		t.Errorf("count: got %+v, %v", counts, err)
	}
	if _, err := s.Failures(t.Context(), admin.FailureFilter{}); admin.ProblemOf(err).Status != http.StatusForbidden {
		t.Errorf("failures of all owners: got %v, want 403", err)
	}
	for what, err := range fleetErrors(t.Context(), s) {
		if admin.ProblemOf(err) == nil || admin.ProblemOf(err).Status != http.StatusForbidden {
			t.Errorf("%s of all owners: got %v, want 403", what, err)
		}
	}
	for what, err := range fleetErrors(t.Context(), e.as(admin.RoleViewer, "")) {
		if err != nil {
			t.Errorf("%s: got %v for a viewer of all runs", what, err)
		}
	}
	for what, err := range fleetErrors(t.Context(), e.as("", "")) {
		if admin.ProblemOf(err) == nil || admin.ProblemOf(err).Status != http.StatusForbidden {
			t.Errorf("%s: got %v without a role, want 403", what, err)
		}
	}
	if _, err := e.as(admin.RoleViewer, "").Failures(t.Context(), admin.FailureFilter{}); err != nil {
		t.Errorf("failures: got %v for a viewer of all runs", err)
	}
	if _, err := e.as("", "").Failures(t.Context(), admin.FailureFilter{}); admin.ProblemOf(err).Status != http.StatusForbidden {
		t.Errorf("failures: got %v without a role, want 403", err)
	}
	for what, err := range map[string]error{
		"list":  second(s.Runs(t.Context(), admin.Filter{Tags: map[string]string{"owner": "bob"}})),
		"count": second(s.Count(t.Context(), admin.Filter{Tags: map[string]string{"owner": "bob"}})),
	} {
		if p := admin.ProblemOf(err); p == nil || p.Status != http.StatusForbidden {
			t.Errorf("%s of another owner: got %+v, want 403", what, p)
		}
	}
}

// TestOPS3_AnOwnerStartsInItsOwnNameOnly proves that a start sets the owner of the run, and that it
// neither returns nor ends a run of another owner.
func TestOPS3_AnOwnerStartsInItsOwnNameOnly(t *testing.T) {
	e := newEstate(t)
	s := e.as(admin.RoleOperator, "ada")
	tags := map[string]string{"region": "eu"}
	got, err := s.Start(t.Context(), admin.Start{Workflow: "orders.fulfil", Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	run, err := e.direct.Run(t.Context(), got.Run)
	if diff := cmp.Diff(map[string]string{"region": "eu", "owner": "ada"}, run.Tags); err != nil || diff != "" || len(tags) != 1 {
		t.Errorf("tags (-want +got): %v\n%s", err, diff)
	}
	for what, tt := range map[string]struct {
		in     admin.Start
		status int
	}{
		"a forged owner":                {admin.Start{Tags: map[string]string{"owner": "bob"}}, http.StatusForbidden},
		"the id of another run":         {admin.Start{ID: "of-bob"}, http.StatusConflict},
		"the id, failing":               {admin.Start{ID: "of-bob", Policy: "fail"}, http.StatusConflict},
		"canceling what has the id":     {admin.Start{ID: "of-bob", Policy: "cancel"}, http.StatusForbidden},
		"waiting in line behind it":     {admin.Start{ID: "of-bob", Policy: "queue"}, http.StatusForbidden},
		"canceling what waits for that": {admin.Start{ID: "of-bob", Policy: "latest"}, http.StatusForbidden},
	} {
		tt.in.Workflow = "orders.fulfil"
		_, err := s.Start(t.Context(), tt.in)
		p := admin.ProblemOf(err)
		if p == nil || p.Status != tt.status || p.Run == e.bob || strings.Contains(p.Detail, e.bob) {
			t.Errorf("%s: got %+v, want %d and nothing of the run", what, p, tt.status)
		}
	}
	if run, err := e.direct.Run(t.Context(), e.bob); err != nil || run.Status != "pending" {
		t.Errorf("the run of bob: got %+v, %v", run, err)
	}
}

// TestOPS3_AKeyIsOfItsPrincipal proves that an idempotency key never returns the run of another
// principal.
func TestOPS3_AKeyIsOfItsPrincipal(t *testing.T) {
	e := newEstate(t)
	start := func(name string) admin.Started {
		got, err := e.direct.As(admin.Principal{Name: name, Role: admin.RoleOperator}).Start(t.Context(), admin.Start{Workflow: "orders.fulfil", Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ada, bob, again := start("ada"), start("bob"), start("ada")
	if !ada.Created || !bob.Created || bob.Run == ada.Run || again.Created || again.Run != ada.Run {
		t.Errorf("got %+v, %+v, %+v", ada, bob, again)
	}
}

// fleetErrors calls the operations that concern the runs of all owners, and returns the errors by
// operation.
func fleetErrors(ctx context.Context, s *admin.Service) map[string]error {
	_, workers := s.Workers(ctx, admin.FleetFilter{})
	_, queues := s.Queues(ctx, admin.FleetFilter{})
	_, depth := s.Depth(ctx, "default")
	return map[string]error{"workers": workers, "queues": queues, "depth": depth}
}
