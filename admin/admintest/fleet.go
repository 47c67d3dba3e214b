package admintest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// showsFleet compares only data that do not change by themselves. The lease of the worker does
// change, because the worker renews it.
func showsFleet(s *Scene) {
	ref := s.Start("wait", "fleet-1")
	s.Until(ref, "waiting")
	const unserved = "nobody's queue/β" // a name that must be escaped in URLs
	var started []string
	for n := range 3 {
		in := admin.Start{Workflow: Workflow, Input: Input("good"), Queue: unserved, ID: fmt.Sprint("fleet-unserved-", n)}
		got, err := s.Direct.Start(s.ctx(), in)
		if err != nil {
			s.Fatal(err)
		}
		started = append(started, got.Run)
	}
	first, err := s.Direct.Run(s.ctx(), "id:fleet-unserved-0")
	if err != nil {
		s.Fatal(err)
	}
	workers, err := s.Service.Workers(s.ctx(), admin.FleetFilter{})
	if err != nil || len(workers.Workers) != 1 || !workers.Workers[0].Live || workers.Workers[0].Name == "" || workers.Workers[0].Build == "" || workers.Workers[0].Lease.IsZero() ||
		!slices.Contains(workers.Workers[0].Serves, admin.Served{Queue: "default", Workflow: Workflow}) {
		s.Errorf("workers: %+v, %v, want the one of the scene", workers, err)
	}
	queues, err := s.Service.Queues(s.ctx(), admin.FleetFilter{Queue: unserved})
	if err != nil || len(queues.Queues) != 1 {
		s.Fatalf("queues: %+v, %v, want one", queues, err)
	}
	got := queues.Queues[0]
	if !strings.Contains(got.Fix, "start a worker") || !strings.Contains(got.Fix, unserved) {
		s.Errorf("the fix of a queue that nobody serves is %q", got.Fix)
	}
	if !slices.Contains(started, got.OldestRun) { // the runs may have been created in the same millisecond
		s.Errorf("the oldest run is %q, want one of %v", got.OldestRun, started)
	}
	got.Fix, got.OldestRun = "", ""
	same(s, "queue that nobody serves", got, admin.Queue{
		Queue: unserved, Workflow: Workflow, Ready: 3, Exact: true, Oldest: first.CreatedAt,
	})
	served, err := s.Service.Queues(s.ctx(), admin.FleetFilter{Queue: "default"})
	if err != nil || len(served.Queues) == 0 {
		s.Fatalf("queues: %+v, %v", served, err)
	}
	if q := served.Queues[slices.IndexFunc(served.Queues, func(q admin.Queue) bool { return q.Workflow == Workflow })]; q.Workers != 1 || q.Fix != "" || q.Parked+q.Running < 1 {
		s.Errorf("queue that is served: %+v, want one worker, and the run that waits", q)
	}
	depth, err := s.Service.Depth(s.ctx(), unserved)
	if err != nil || depth.OldestMs < 0 || depth.Ready != 3 || depth.Workers != 0 || depth.Queue != unserved || !depth.Exact {
		s.Errorf("depth: %+v, %v, want 3 runs that nobody serves", depth, err)
	}
	if depth, err = s.Service.Depth(s.ctx(), "default"); err != nil || depth.Workers != 1 {
		s.Errorf("depth of a queue that is served: %+v, %v", depth, err)
	}
	depth, err = s.Service.Depth(s.ctx(), "never used")
	if err != nil {
		s.Error(err)
	}
	same(s, "depth of a queue that nobody has used", depth, admin.Depth{Queue: "never used", Exact: true})
	pagesFleet(s)
}

// showsRates compares the rates of a worker whose report the scene writes. Another worker may publish
// its own.
func showsRates(s *Scene) {
	keeper, ok := store.As[store.SessionDataStore](s.Client.Store())
	if !ok {
		s.Fatal("the store keeps no data of sessions")
	}
	const report = `{"ms":60000,"started":120,"ended":90,"steps":[{"step":"rates.only","h":[40,300]}]}`
	for id, body := range map[store.SessionID]string{"rates": report, "newer": `"a report of a newer release"`} {
		session := store.Session{ID: id, Worker: "rates", TTL: time.Hour}
		if err := s.Client.Store().OpenSession(s.ctx(), session); err != nil {
			s.Fatal(err)
		}
		if err := keeper.SetSessionData(s.ctx(), 0, id, []byte(body)); err != nil {
			s.Fatal(err)
		}
	}
	got, err := s.Service.Rates(s.ctx())
	i := slices.IndexFunc(got.Steps, func(r admin.StepRate) bool { return r.Step == "rates.only" })
	if err != nil || i < 0 || got.Workers < 1 || got.StartedPerSecond < 2 || got.EndedPerSecond < 1.5 || got.StepsPerSecond < 5 {
		s.Fatalf("rates: got %+v, %v, want at least those of the report", got, err)
	}
	if r := got.Steps[i]; r.PerSecond != 5 || r.P50Ms < 80 || r.P50Ms > 100 || r.P50Ms > r.P95Ms || r.P95Ms > r.P99Ms || r.P99Ms > 103 { // bucket 40 ends at 102.4 ms
		s.Errorf("rates of a step: got %+v, want 5 per second with about 100 ms", r)
	}
	if err := s.Client.Store().CloseSession(s.ctx(), 0, "rates"); err != nil {
		s.Fatal(err)
	}
	if got, err = s.Service.Rates(s.ctx()); err != nil || slices.ContainsFunc(got.Steps, func(r admin.StepRate) bool { return r.Step == "rates.only" }) {
		s.Errorf("rates after the end of the session: got %+v, %v", got, err)
	}
}

func pagesFleet(s *Scene) {
	all, err := s.Direct.Queues(s.ctx(), admin.FleetFilter{})
	if err != nil {
		s.Fatal(err)
	}
	var names, want []string
	for _, q := range all.Queues {
		want = append(want, q.Queue+" "+q.Workflow)
	}
	for f := (admin.FleetFilter{Limit: 1}); ; {
		page, err := s.Service.Queues(s.ctx(), f)
		if err != nil || len(page.Queues) > 1 || len(names) > len(want) {
			s.Fatalf("page after %q: %+v, %v", f.Cursor, page, err)
		}
		for _, q := range page.Queues {
			names = append(names, q.Queue+" "+q.Workflow)
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	same(s, "queues, page by page", names, want)
	none, err := s.Service.Workers(s.ctx(), admin.FleetFilter{Queue: "never used"})
	if err != nil || none.Workers == nil || len(none.Workers) != 0 {
		s.Errorf("workers of a queue that nobody has used: %+v, %v, want an empty page", none, err)
	}
	for what, f := range map[string]admin.FleetFilter{"limit": {Limit: 1001}, "negative limit": {Limit: -1}, "cursor": {Cursor: "no/cursor"}} {
		_, got := s.Service.Workers(s.ctx(), f)
		_, want := s.Direct.Workers(s.ctx(), f)
		sameProblem(s, "workers by a bad "+what, got, want)
		_, got = s.Service.Queues(s.ctx(), f)
		_, want = s.Direct.Queues(s.ctx(), f)
		sameProblem(s, "queues by a bad "+what, got, want)
	}
	_, got := s.Service.Depth(s.ctx(), "")
	_, direct := s.Direct.Depth(s.ctx(), "")
	sameProblem(s, "depth of no queue", got, direct)
}

// showsLimits waits until the worker has registered the limits that its code uses.
func showsLimits(s *Scene) {
	want := map[string][]string{visit.Name(): {customers.All().Name()}, event.StepRun(weigh.Name()): {scales.Name()}, Workflow: nil}
	used := func(of Service) map[string][]string {
		page, err := of.Queues(s.ctx(), admin.FleetFilter{})
		if err != nil {
			s.Fatal(err)
		}
		got := map[string][]string{}
		for i := range page.Queues {
			q := &page.Queues[i]
			name := q.Workflow
			if q.Step != "" { // a step has an entry of its own
				name = event.StepRun(q.Step)
			}
			if _, asked := want[name]; asked {
				got[name] = q.Limits
			}
		}
		return got
	}
	for ctx := s.ctx(); len(used(s.Direct)[visit.Name()]) == 0 && ctx.Err() == nil; { // the service reads the catalog at most once per second
	}
	same(s, "limits of queues", used(s.Service), want)
	page, err := s.Service.Catalog(s.ctx(), admin.CatalogFilter{Workflow: visit.Name()})
	if err != nil || len(page.Workflows) != 1 || !slices.Equal(page.Workflows[0].Versions[0].Limits, want[visit.Name()]) {
		s.Errorf("the catalogue has %+v, %v", page.Workflows, err)
	}
	all, err := s.Service.Catalog(s.ctx(), admin.CatalogFilter{})
	if err != nil || slices.ContainsFunc(all.Workflows, func(w admin.CatalogWorkflow) bool { return strings.Contains(w.Workflow, weigh.Name()) }) {
		s.Errorf("the catalogue of workflows has a step: %+v, %v", all, err)
	}
}
