package admintest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func listsEntities(s *Scene) {
	ref := s.Start("family", "entities")
	s.Until(s.below(ref)[1], "waiting")
	s.Until(ref, "waiting")
	all, err := s.Service.Entities(s.ctx(), "id:entities", admin.EntityFilter{})
	if err != nil || all.Next != 0 {
		s.Fatalf("got %+v, %v", all, err)
	}
	page, err := s.Direct.Events(s.ctx(), ref, 1, 0)
	if err != nil {
		s.Fatal(err)
	}
	var told []string
	for _, e := range all.Entities {
		told = append(told, fmt.Sprintf("%s %s %s %v", e.Kind, e.Name, e.State, e.Open))
		began := page.Events[e.Seq-1]
		prefix := map[string]string{"child": "chld_", "step": "step_", "wait": "wait_"}[e.Kind]
		if !strings.HasPrefix(e.ID, prefix) || len(e.ID) != 31 || !began.Creates || !began.Time.Equal(e.Began) || e.Changed.Before(e.Began) || e.Key != began.Key || e.Run != began.Next {
			s.Errorf("got %+v, which began with %+v", e, began)
		}
	}
	same(s, "entities", told, []string{"child " + Workflow + " completed false", "child " + Workflow + " waiting true"})
	open, err := s.Service.Entities(s.ctx(), ref, admin.EntityFilter{Open: true, Kinds: []string{"child", "step"}})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "open entities", open, admin.EntityPage{Entities: all.Entities[1:]})
	one, err := s.Service.Entities(s.ctx(), ref, admin.EntityFilter{Limit: 1})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "the first", one, admin.EntityPage{Entities: all.Entities[:1], Next: all.Entities[1].Seq})
	two, err := s.Service.Entities(s.ctx(), ref, admin.EntityFilter{Limit: 1, From: one.Next})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "the second", two, admin.EntityPage{Entities: all.Entities[1:]})
	for what, f := range map[string]admin.EntityFilter{"after the end": {From: 1 << 40}, "hooks": {Kinds: []string{"hook"}}} {
		got, err := s.Service.Entities(s.ctx(), ref, f)
		if err != nil {
			s.Fatal(err)
		}
		same(s, what, got, admin.EntityPage{Entities: []admin.Entity{}})
	}
	failed, err := s.Service.Entities(s.ctx(), s.Ended("bad", ""), admin.EntityFilter{Kinds: []string{"step"}})
	if err != nil || len(failed.Entities) != 1 || failed.Entities[0].State != "failed" || failed.Entities[0].Failure == nil || failed.Entities[0].Attempt != 1 {
		s.Errorf("a step that has failed: %+v, %v", failed, err)
	}
	waits, err := s.Service.Entities(s.ctx(), all.Entities[1].Run, admin.EntityFilter{Open: true})
	if err != nil || len(waits.Entities) != 1 || waits.Entities[0].Kind != "wait" || waits.Entities[0].Name != "verdict" {
		s.Errorf("a run that waits: %+v, %v", waits, err)
	}
	for _, f := range []admin.EntityFilter{{Kinds: []string{"run"}}, {Kinds: []string{"none"}}, {Limit: -1}, {Limit: 1001}} {
		_, err := s.Service.Entities(s.ctx(), ref, f)
		problem(s, fmt.Sprintf("%+v", f), err, http.StatusBadRequest, admin.CodeInput)
	}
	_, err = s.Service.Entities(s.ctx(), "id:nobody", admin.EntityFilter{})
	problem(s, "of no run", err, http.StatusNotFound, admin.CodeNotFound)
}

// below waits until a run has started two other runs, and returns them in order.
func (s *Scene) below(ref string) (all []string) {
	s.Helper()
	for e, err := range s.Direct.Follow(s.ctx(), ref, admin.EventFilter{}) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Type == "child_created" {
			s.begun(e.Next)
			if all = append(all, e.Next); len(all) == 2 {
				break
			}
		}
	}
	return all
}

// begun waits until a child exists whose creation is already in the log of its parent.
func (s *Scene) begun(ref string) {
	s.Helper()
	ctx := s.ctx()
	for {
		_, err := s.Direct.Run(ctx, ref)
		if p := admin.ProblemOf(err); p == nil {
			return
		} else if p.Code != admin.CodeNotFound {
			s.Fatal(err)
		}
	}
}

func showsTrees(s *Scene) {
	top := s.Start("family", "tree")
	children := s.below(top)
	s.Until(children[1], "waiting")
	got, err := s.Service.Tree(s.ctx(), "id:tree")
	if err != nil || got.Partial {
		s.Fatalf("got %+v, %v", got, err)
	}
	var told []string
	for _, b := range got.Runs {
		told = append(told, fmt.Sprint(b.Depth, " ", b.ID, " ", b.Parent, " ", b.Root))
	}
	want := []string{fmt.Sprint(0, " ", top, "  ", top)}
	for _, child := range children {
		want = append(want, fmt.Sprint(1, " ", child, " ", top, " ", top))
	}
	slices.Sort(told[1:]) // runs that were created in the same millisecond are sorted by ID
	slices.Sort(want[1:])
	same(s, "the tree", told, want)
	part, err := s.Service.Tree(s.ctx(), children[1])
	if err != nil || len(part.Runs) != 1 || part.Runs[0].ID != children[1] || part.Runs[0].Depth != 0 || part.Runs[0].Status != string(workflow.StatusWaiting) {
		s.Errorf("a part of it: %+v, %v", part, err)
	}
	if _, err := s.Service.Act(s.ctx(), top, admin.Action{Verb: "cancel"}); err != nil {
		s.Error(err)
	}
	_, err = s.Service.Tree(s.ctx(), "wrun_00000000000000000000000000")
	problem(s, "of no run", err, http.StatusNotFound, admin.CodeNotFound)
}
