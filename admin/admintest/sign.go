package admintest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// signs makes all requests that logs record. It makes them without a principal, and as the
// principal of an API without authentication.
func signs(s *Scene) {
	asked := s.Service
	if asked == s.Direct {
		asked = s.Direct.As(admin.Principal{Name: "local", Role: admin.RoleAdmin})
	}
	for _, by := range []string{"local", ""} {
		if by == "" {
			asked = s.Direct
		}
		talks(s, asked, by)
		ends(s, asked, by)
		hooked(s, asked, by)
		scheduled(s, asked, by)
		many(s, asked, by)
	}
}

// signed reports a test error unless the principal requested exactly the given events in the log,
// in this order.
func (s *Scene) signed(what, run, by string, want ...string) {
	s.Helper()
	events, err := log(s, s.Direct, run, 1)
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, e := range events {
		if e.By == by && (by != "" || slices.Contains(want, e.Type)) {
			got = append(got, e.Type)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s: events by %q (-want +got):\n%s", what, by, diff)
	}
}

// acted executes an action on a run, and returns the result.
func (s *Scene) acted(to Service, ref string, a admin.Action) admin.Acted {
	s.Helper()
	got, err := to.Act(s.ctx(), ref, a)
	if err != nil {
		s.Fatalf("%s: %v", a.Verb, err)
	}
	return got
}

func talks(s *Scene, to Service, by string) {
	got, err := to.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("wait"), Hold: true})
	if err != nil {
		s.Fatal(err)
	}
	run := got.Run
	s.acted(to, run, admin.Action{Verb: "release"})
	s.Until(run, "waiting")
	s.acted(to, run, admin.Action{Verb: "pause"})
	s.Until(run, "paused")
	s.acted(to, run, admin.Action{Verb: "resume"})
	s.Until(run, "waiting")
	if _, err := to.Ask(s.ctx(), run, limits.Name(), admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	if _, err := to.Send(s.ctx(), run, "verdict", admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	s.over(run)
	s.signed("a run that one talks with", run, by, "run_created", "run_released", "run_paused", "run_resumed", "ask_accepted", "message_received")
}

// over waits for the end of a run.
func (s *Scene) over(run string) {
	s.Helper()
	if r, err := s.Direct.Wait(s.ctx(), run, time.Minute); err != nil || r.EndedAt.IsZero() {
		s.Fatalf("run %s has not ended: %+v, %v", run, r, err)
	}
}

func ends(s *Scene, to Service, by string) {
	canceled := s.Start("wait", "")
	s.Until(canceled, "waiting")
	s.acted(to, canceled, admin.Action{Verb: "cancel"})
	s.over(canceled)
	s.signed("cancel", canceled, by, "cancel_requested")
	made := s.acted(to, canceled, admin.Action{Verb: "resume-new"}).New
	s.acted(to, made, admin.Action{Verb: "terminate"})
	s.over(made)
	if by == "" { // without a principal, a worker or a client is recorded as the source of the end
		s.signed("a rerun", made, by, "run_created")
	} else {
		s.signed("a rerun that is terminated", made, by, "run_created", "run_cancelled")
	}
	again := s.acted(s.Direct, made, admin.Action{Verb: "restart"}).New // a restart copies the first event of the run
	s.acted(s.Direct, again, admin.Action{Verb: "cancel"})
	s.over(again)
	s.signed("a rerun by nobody", again, "", "run_created", "cancel_requested")
}

func hooked(s *Scene, to Service, by string) {
	run, open := s.hooked("signs-hooks-" + by)
	for _, name := range []string{`{"name":"eve"}`, `{"name":""}`} {
		if _, err := to.ResumeHook(s.ctx(), open[0].Token, admin.Message{Payload: admin.Payload(name)}); err != nil {
			s.Fatal(err)
		}
	}
	s.over(run)
	s.signed("hooks", run, by, "hook_received", "hook_received")
}

func scheduled(s *Scene, to Service, by string) {
	name := "signs-" + by
	_, err := to.PutSchedule(s.ctx(), admin.NewSchedule{Name: name, Workflow: Workflow, Timing: admin.Timing{When: "every 1000h"}, Input: Input("good")})
	if err != nil {
		s.Fatal(err)
	}
	run, err := s.Direct.Schedule(s.ctx(), name)
	if err != nil {
		s.Fatal(err)
	}
	for _, verb := range []string{"pause", "delete"} {
		if _, err := to.ActOnSchedule(s.ctx(), name, admin.ScheduleAction{Verb: verb}); err != nil {
			s.Fatal(err)
		}
	}
	s.over(run.Run)
	s.signed("a schedule", run.Run, by, "run_created", "message_received", "message_received", "cancel_requested")
}

func many(s *Scene, to Service, by string) {
	tags := map[string]string{"signs": "by " + by}
	var runs []string
	for range 2 {
		got, err := s.Direct.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("wait"), Tags: tags})
		if err != nil {
			s.Fatal(err)
		}
		s.Until(got.Run, "waiting")
		runs = append(runs, got.Run)
	}
	n := len(runs)
	for _, verb := range []string{"pause", "cancel"} { // first separately, then together
		b, err := to.StartBulk(s.ctx(), admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Tags: tags}, Action: admin.Action{Verb: verb}}, Expect: &n})
		if err != nil {
			s.Fatal(err)
		}
		s.over(b.Run)
	}
	for _, run := range runs {
		s.over(run)
		s.signed("a bulk action", run, by, "run_paused", "cancel_requested")
	}
}
