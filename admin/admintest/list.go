package admintest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func lists(s *Scene) {
	ref := s.Ended("good", "list-me")
	begun := time.Now().Add(-time.Hour)
	if _, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("wait"), Queue: "lists", ID: "lists-2", Tags: map[string]string{"a=b%": "c=d", "x": "y"}}); err != nil {
		s.Fatal(err)
	}
	for what, f := range map[string]admin.Filter{
		"all": {}, "status": {Statuses: []string{"completed", "failed"}}, "workflow": {Workflow: Workflow}, "none": {Workflow: "nobody"}, "queue": {Queue: "lists"},
		"id": {WorkflowID: "list-me"}, "tags": {Tags: map[string]string{"a=b%": "c=d", "x": "y"}}, "root": {Root: ref}, "parent": {Parent: ref},
		"since": {Since: begun, Until: begun.Add(2 * time.Hour)}, "until": {Until: begun}, "all kinds": {Children: true, System: true, Oldest: true}, "budget": {Budget: 1, Limit: 1000},
	} {
		want, err := s.Direct.Runs(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		got, err := s.Service.Runs(s.ctx(), f)
		if err != nil {
			s.Errorf("%s: %v", what, err)
		}
		same(s, what, ids(got), ids(want))
		counted, err := s.Service.Count(s.ctx(), f)
		if err != nil {
			s.Errorf("count %s: %v", what, err)
		}
		wanted, err := s.Direct.Count(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		if counted.Total != wanted.Total || counted.Exact != wanted.Exact {
			s.Errorf("count %s: %+v, directly %+v", what, counted, wanted)
		}
		if what == "tags" && (len(got.Runs) != 1 || got.Runs[0].WorkflowID != "lists-2") {
			s.Errorf("tags: %+v", got.Runs)
		}
	}
}

func groupsFailures(s *Scene) {
	begun := time.Now().Add(-time.Hour)
	failed, err := s.Direct.Run(s.ctx(), s.Ended("bad", "group-me"))
	if err != nil || failed.Group == "" {
		s.Fatalf("got %+v, %v, want a failed run with a group", failed, err)
	}
	s.Ended("bad", "group-me-too")
	for what, f := range map[string]admin.FailureFilter{
		"all": {}, "group": {Group: failed.Group}, "kinds": {Kinds: []string{"blocked", "failed"}}, "kind": {Kinds: []string{"blocked"}}, "workflow": {Workflow: Workflow},
		"step": {Step: "nobody's"}, "since": {Since: begun}, "future": {Since: begun.Add(2 * time.Hour)}, "open": {Open: true}, "pages": {Limit: 1}, "budget": {Budget: 1},
	} {
		want, err := s.Direct.Failures(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		got, err := s.Service.Failures(s.ctx(), f)
		if err != nil {
			s.Errorf("%s: %v", what, err)
		}
		same(s, what, got, want)
		if finds := len(got.Groups) > 0; finds == (what == "kind" || what == "step" || what == "future") {
			s.Errorf("%s: found %d groups", what, len(got.Groups))
		}
	}
	for what, f := range map[string]admin.Filter{"group": {Group: failed.Group}, "failing": {Failing: true}} {
		got, err := s.Service.Runs(s.ctx(), f)
		if err != nil || len(got.Runs) < 2 || got.Runs[0].Group != failed.Group {
			s.Errorf("runs by %s: %+v, %v, want those that have failed alike", what, got.Runs, err)
		}
	}
	for what, f := range map[string]admin.FailureFilter{"group": {Group: "a b"}, "kind": {Kinds: []string{"sad"}}, "limit": {Limit: 1001}, "cursor": {Cursor: "x"}} {
		_, want := s.Direct.Failures(s.ctx(), f)
		_, got := s.Service.Failures(s.ctx(), f)
		sameProblem(s, "bad "+what, got, want)
	}
}

// ids returns the parts of a page that do not change while workers execute the runs.
func ids(p admin.RunPage) []string {
	all := []string{fmt.Sprint(p.Partial, p.Cursor)}
	for i := range p.Runs {
		all = append(all, p.Runs[i].ID+" "+p.Runs[i].WorkflowID)
	}
	return all
}

func pages(s *Scene) {
	want := map[string]bool{}
	for i := range 7 {
		want[s.Ended("good", fmt.Sprintf("page-%d", i))] = true
	}
	f := admin.Filter{Limit: 3, Since: time.Now().Add(-time.Hour)}
	got := map[string]bool{}
	for n := 0; ; n++ {
		page, err := s.Service.Runs(s.ctx(), f)
		if err != nil || n > 100 {
			s.Fatalf("page %d: %v", n, err)
		}
		for i := range page.Runs {
			if got[page.Runs[i].ID] {
				s.Errorf("run %s is on two pages", page.Runs[i].ID)
			}
			got[page.Runs[i].ID] = true
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	for id := range want {
		if !got[id] {
			s.Errorf("run %s is on no page", id)
		}
	}
}
