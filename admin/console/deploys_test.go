package console_test

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// otherBuild opens a session of a worker of another build.
func (s *site) otherBuild() {
	s.Helper()
	session := store.Session{ID: "deploy", Worker: "pretended", TTL: time.Hour, Fingerprint: "other-1@0", Routes: []store.Route{{Queue: "default", Workflow: "nothing"}}}
	if err := s.Client.Store().OpenSession(s.Context(), session); err != nil {
		s.Fatal(err)
	}
}

func TestOPS10_TheConsoleListsAndChangesBuilds(t *testing.T) {
	s := newSite(t, console.Config{})
	run := s.Start("wait", "")
	s.Until(run, "waiting")
	s.otherBuild()
	all, err := s.Direct.Deploys(t.Context())
	if err != nil || len(all.Builds) != 2 {
		t.Fatalf("deployments: %+v, %v, want two builds", all, err)
	}
	own := all.Builds[0].Build
	has(t, mainOf(s.get("deploys", 200)), own, "other-1", "/flows/deploys/other-1/ramp", "/flows/deploys/other-1/retire", "live")
	has(t, mainOf(s.get("deploys?drained="+own, 200)), own+": needed", run, "no other live build serves its queue and workflow", "deploys drained "+own)
	s.get("deploys?drained=unknown", 404)

	has(t, s.post("deploys/other-1/ramp", url.Values{"percent": {"5"}, "reason": {"canary"}}, 200), "distributed as set", "95")
	has(t, s.post("deploys/other-1/ramp", url.Values{"percent": {"101"}}, 400), "is not from 0 to 100")
	has(t, s.post("deploys/other-1/retire", url.Values{"to": {"unknown"}}, 404), "is unknown")
	page := s.post("deploys/other-1/retire", url.Values{"to": {own}}, 200)
	has(t, page, "The build is retired", "retiring", "/flows/deploys/other-1/unretire")
	has(t, s.post("deploys/other-1/unretire", nil, 200), "in use again")
	s.get("deploys/other-1/explode", 404)
	has(t, s.post("deploys/unknown/retire", nil, 404), "is unknown")
}

// countedReads is a store that counts the requests which read runs.
type countedReads struct {
	store.Store
	n atomic.Int64
}

func (r *countedReads) Unwrap() store.Store { return r.Store }

func (r *countedReads) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	r.n.Add(1)
	return r.Store.Load(ctx, loads)
}

func (r *countedReads) List(ctx context.Context, q store.Query) (store.Page, error) {
	r.n.Add(1)
	lister, _ := store.As[store.Lister](r.Store)
	return lister.List(ctx, q)
}

// TestOPS10_AFormForABuildReadsNoRuns proves that the form of an action does not read open runs, of
// which there may be many. The action itself reports an unknown build.
func TestOPS10_AFormForABuildReadsNoRuns(t *testing.T) {
	scene := newSite(t, console.Config{})
	scene.otherBuild()
	scene.Until(scene.Start("wait", ""), "waiting")
	counted := &countedReads{Store: scene.Client.Store()}
	client := workflow.NewClient(counted, workflow.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	other := *scene.Scene
	other.Direct = admin.New(client)
	s := newSiteOver(t, &other, console.Config{})
	s.get("deploys?drained=other-1", 200)
	if counted.n.Swap(0) == 0 {
		t.Fatal("reads of the list of builds are not counted")
	}
	for _, verb := range []string{"ramp", "retire", "unretire"} {
		if s.get("deploys/other-1/"+verb, 200); counted.n.Load() > 0 {
			t.Errorf("%s: %d reads of runs, want none", verb, counted.n.Swap(0))
		}
	}
}

// The test proves that the pages of a run show the build to which it is pinned, and that the pages of
// other runs have no such field.
func TestOPS10_TheConsoleShowsTheBuildOfAPinnedRun(t *testing.T) {
	s := newSite(t, console.Config{})
	flow := shim.NewWorkflow[int, int]("orders.pinned", "n", shim.WorkflowPolicy{Pin: true})
	session := store.Session{ID: "blue", Worker: "pretended", TTL: time.Hour, Fingerprint: "blue-1@0", Routes: []store.Route{{Queue: event.PinnedQueue("default", "blue-1"), Workflow: flow.Name()}}}
	if err := s.Client.Store().OpenSession(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	run, err := flow.Start(t.Context(), s.Client, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range []string{"", "/events", "/data"} {
		has(t, mainOf(s.get("runs/"+string(run.ID())+tab, 200)), `<dt>Pinned to build</dt><dd class="mono">blue-1</dd>`, `<dt>Created by build</dt><dd`)
	}
	hasNot(t, mainOf(s.get("runs/"+s.Ended("good", ""), 200)), "Pinned to")
	if err := s.Client.Store().CloseSession(t.Context(), 0, "blue"); err != nil {
		t.Fatal(err)
	}
	has(t, mainOf(s.get("runs/"+string(run.ID()), 200)), "No live worker of build blue-1, to which the run is pinned", "retire the build")
}

// The test proves that a viewer sees the builds but no actions, and that a reader with an owner sees
// nothing.
func TestOPS10_TheConsoleShowsBuildsToTheirReaders(t *testing.T) {
	s, login := newSiteWithRolesOn(t, filepath.Join(t.TempDir(), "runs.db"))
	login(admin.RoleViewer)
	page := mainOf(s.get("deploys", 200))
	if has(t, page, "Drained?"); strings.Contains(page, "Retire") {
		t.Errorf("a viewer may retire builds:\n%s", page)
	}
	login(owned)
	s.get("deploys", 403)
}
