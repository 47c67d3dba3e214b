package admintest

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

func shows(s *Scene) {
	for _, what := range []string{"good", "bad", "next"} {
		ref := s.Ended(what, "show-"+what)
		want, err := s.Direct.Run(s.ctx(), ref)
		if err != nil {
			s.Fatal(err)
		}
		got, err := s.Service.Run(s.ctx(), ref)
		if err != nil {
			s.Error(err)
		}
		same(s, what, got, want)
		if what == "bad" && (got.Failure == nil || !strings.Contains(got.Failure.Message, "the carrier is closed") || !slices.Contains(got.Actions, "retry")) {
			s.Errorf("bad: got %+v", got)
		}
		if what == "bad" && (got.FailedStep == nil || got.FailedStep.Run != ref || got.FailedStep.Step != "admintest.label" || got.FailedStep.Key == "") {
			s.Errorf("the step that bad has failed with: got %+v", got.FailedStep)
		}
		if what == "next" && got.Next == "" {
			s.Errorf("next: got %+v", got)
		}
	}
	showsBelow(s)
}

// showsBelow checks that a run counts its descendants by status.
func showsBelow(s *Scene) {
	ref := s.Start("family", "show-family")
	s.Until(ref, "waiting")
	for ctx := s.ctx(); ; {
		r, err := s.Service.Run(ctx, ref)
		if err != nil {
			s.Fatal(err)
		}
		if r.Below == nil || r.Below.Total < 2 || r.Below.Statuses["running"]+r.Below.Statuses["pending"] > 0 {
			continue // reads again until the second child waits
		}
		same(s, "the runs below a run", *r.Below, admin.Below{Statuses: map[string]int{"completed": 1, "waiting": 1}, Total: 2, Exact: true})
		break
	}
	if r, err := s.Service.Run(s.ctx(), s.Ended("good", "show-alone")); err != nil || r.Below != nil {
		s.Errorf("a run without children: got %+v, %v", r.Below, err)
	}
}

func readsLogs(s *Scene) {
	ref := s.Ended("bad", "logs")
	var all []admin.Event
	for from := uint64(1); from != 0; {
		page, err := s.Service.Events(s.ctx(), ref, from, 2)
		if err != nil || len(page.Events) == 0 {
			s.Fatalf("from %d: %+v, %v", from, page, err)
		}
		all = append(all, page.Events...)
		from = page.Next
	}
	want, err := s.Direct.Events(s.ctx(), ref, 0, 0)
	if err != nil {
		s.Fatal(err)
	}
	same(s, "the log", all, want.Events)
	none, err := s.Service.Events(s.ctx(), ref, 1000, 0)
	if err != nil || len(none.Events) != 0 || none.Next != 0 {
		s.Errorf("behind the end: %+v, %v", none, err)
	}
}

// log returns the events that Follow returns, and the error.
func log(s *Scene, service Service, ref string, from uint64) (all []admin.Event, err error) {
	for e, err := range service.Follow(s.ctx(), ref, admin.EventFilter{From: from}) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func followsEnded(s *Scene) {
	ref := s.Ended("good", "follow-ended")
	want, err := log(s, s.Direct, ref, 0)
	if err != nil {
		s.Fatal(err)
	}
	got, err := log(s, s.Service, "id:follow-ended", 0)
	if err != nil {
		s.Error(err)
	}
	same(s, "the log", got, want)
}

func followsLive(s *Scene) {
	ref := s.Start("wait", "follow-live")
	s.Until(ref, "waiting")
	seen := map[uint64]int{}
	last := uint64(0)
	for e, err := range s.Service.Follow(s.ctx(), ref, admin.EventFilter{}) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Seq != last+1 {
			s.Errorf("event %d follows %d", e.Seq, last)
		}
		if last = e.Seq; e.Seq == 1 { // the other events are recorded while the log is followed
			if _, err := s.Direct.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("true")}); err != nil {
				s.Fatal(err)
			}
		}
		seen[e.Seq]++
	}
	r, err := s.Direct.Run(s.ctx(), ref)
	if err != nil || r.Status != "completed" || r.Events != last {
		s.Errorf("the run is %s and has %d events, %d came: %v", r.Status, r.Events, last, err)
	}
}

func followsFrom(s *Scene) {
	ref := s.Ended("good", "follow-from")
	want, err := log(s, s.Direct, ref, 3)
	if err != nil || len(want) == 0 || want[0].Seq != 3 {
		s.Fatalf("got %+v, %v", want, err)
	}
	got, err := log(s, s.Service, ref, 3)
	if err != nil {
		s.Error(err)
	}
	same(s, "the log from 3", got, want)
	for e, err := range s.Service.Follow(s.ctx(), ref, admin.EventFilter{}) { // the reader stops before the end
		if err != nil || e.Seq != 1 {
			s.Errorf("got %+v, %v", e, err)
		}
		break
	}
}

// selected returns the events of an ended run that a filter selects.
func selected(s *Scene, ref string, f admin.EventFilter) (all []admin.Event) {
	s.Helper()
	for e, err := range s.Service.Follow(s.ctx(), ref, f) {
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// those returns the events for which meant returns true.
func those(all []admin.Event, meant func(e *admin.Event) bool) (some []admin.Event) {
	for i := range all {
		if meant(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

func followsTypes(s *Scene) {
	ref := s.Ended("bad", "follow-types")
	all, err := log(s, s.Direct, ref, 1)
	if err != nil {
		s.Fatal(err)
	}
	got := selected(s, ref, admin.EventFilter{Types: []string{"step_failed", "run_created"}})
	want := those(all, func(e *admin.Event) bool { return e.Type == "step_failed" || e.Type == "run_created" })
	if len(want) != 2 {
		s.Fatalf("the log is %+v", all)
	}
	same(s, "two types", got, want)
	same(s, "two types, later", selected(s, ref, admin.EventFilter{From: 2, Types: []string{"step_failed", "run_created"}}), want[1:])
}

// followsWhat checks that a filter selects events of an operation that began before the first
// requested event.
func followsWhat(s *Scene) {
	ref := s.Start("family", "follow-what")
	children := s.below(ref)
	s.Until(children[1], "waiting")
	if _, err := s.Direct.Send(s.ctx(), children[1], "verdict", admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	all, err := log(s, s.Direct, ref, 1)
	if err != nil {
		s.Fatal(err)
	}
	entities, err := s.Direct.Entities(s.ctx(), ref, admin.EntityFilter{Kinds: []string{"child"}})
	if err != nil || len(entities.Entities) != 2 {
		s.Fatalf("got %+v, %v", entities, err)
	}
	second := entities.Entities[1]
	about := func(e *admin.Event) bool { return e.Seq == second.Seq || e.Ref == second.Seq }
	want := those(all, about)
	if len(want) < 2 {
		s.Fatalf("the log is %+v", all)
	}
	same(s, "an entity", selected(s, ref, admin.EventFilter{Entity: second.ID}), want)
	same(s, "its key", selected(s, ref, admin.EventFilter{Key: second.Key}), want)
	same(s, "later", selected(s, ref, admin.EventFilter{Entity: second.ID, From: second.Seq + 1}), want[1:])
	same(s, "its key, later, and a type", selected(s, ref, admin.EventFilter{Key: second.Key, From: second.Seq + 1, Types: []string{"child_completed"}}), want[len(want)-1:])
	branch, _, _ := strings.Cut(second.Key, "/")
	below := those(all, func(e *admin.Event) bool {
		for _, o := range all {
			if (o.Seq == e.Seq || o.Seq == e.Ref) && strings.HasPrefix(o.Key, branch+"/") {
				return true
			}
		}
		return e.Key == branch
	})
	if len(below) <= len(want) {
		s.Fatalf("the keys of the log are not below %q: %+v", branch, all)
	}
	same(s, "a branch", selected(s, ref, admin.EventFilter{Key: branch}), below)
	named := those(all, func(e *admin.Event) bool {
		return e.Name == Workflow && e.Type != "run_created" || e.Ref != 0 && all[e.Ref-1].Name == Workflow
	})
	got := selected(s, ref, admin.EventFilter{Name: Workflow})
	if len(got) > 0 && got[0].Type == "run_created" { // the workflow has the same name
		got = got[1:]
	}
	same(s, "a name", got, named)
	for _, none := range []admin.EventFilter{{Key: second.Key[:len(second.Key)-1]}, {Name: "nobody"}, {Entity: entities.Entities[0].ID, From: second.Seq}} {
		if got := selected(s, ref, none); len(got) != 0 {
			s.Errorf("%+v: got %+v", none, got)
		}
	}
}

func refusesFollows(s *Scene) {
	ref := s.Ended("good", "follow-nonsense")
	for what, f := range map[string]admin.EventFilter{
		"a type that is none": {Types: []string{"step_completed", "step_done"}}, "no type": {Types: []string{""}}, "an entity that is none": {Entity: "step_1"}, "a key for an entity": {Entity: "fulfil/go#2"},
	} {
		follow := func(a Service) error { return last(a.Follow(s.ctx(), ref, f)) }
		sameProblem(s, what, follow(s.Service), follow(s.Direct))
		problem(s, what, follow(s.Service), http.StatusBadRequest, admin.CodeInput)
	}
}

func waits(s *Scene) {
	ref := s.Start("wait", "waits")
	s.Until(ref, "waiting")
	if r, err := s.Service.Wait(s.ctx(), ref, 0); err != nil || r.Status != "waiting" {
		s.Errorf("no time: got %+v, %v", r, err)
	}
	if r, err := s.Service.Wait(s.ctx(), ref, 10*time.Millisecond); err != nil || r.Status != "waiting" {
		s.Errorf("too little time: got %+v, %v", r, err)
	}
	if _, err := s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	if r, err := s.Service.Wait(s.ctx(), "id:waits", time.Minute); err != nil || r.Status != "completed" {
		s.Errorf("got %+v, %v", r, err)
	}
	first := s.Start("next", "waits-next")
	r, err := s.Service.Wait(s.ctx(), first, time.Minute)
	if err != nil || r.Status != "completed" || r.ID == first || string(r.Result) != `"label of good"` {
		s.Errorf("a run that continues: got %+v, %v", r, err)
	}
}
