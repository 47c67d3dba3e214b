package admintest

import (
	"net/http"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// journals makes requests as a principal, and checks their entries in the journal.
func journals(s *Scene) {
	ada := s.Direct.As(admin.Principal{Name: "journal-ada\u202e<b>", Role: admin.RoleOperator, Face: admin.FaceConsole})
	begun := time.Now().Add(-time.Minute)
	ref := s.Start("wait", "of-the-journal")
	for _, verb := range []string{"pause", "resume", "delete", "cancel"} {
		_, err := ada.Act(s.ctx(), ref, admin.Action{Verb: verb})
		if (err != nil) != (verb == "delete") {
			s.Fatalf("%s: %v", verb, err)
		}
	}
	mine := []string{"journal-ada\u202e<b>"}
	count := func(what string, f admin.JournalFilter, want int) {
		s.Helper()
		f.Principals = mine
		got, err := s.Service.Journal(s.ctx(), f)
		if err != nil || len(got.Entries) != want {
			s.Errorf("%s: got %+v, %v, want %d entries", what, got, err, want)
			return
		}
		direct, err := s.Direct.Journal(s.ctx(), f)
		if err != nil {
			s.Fatal(err)
		}
		same(s, what, got, direct)
	}
	count("all", admin.JournalFilter{}, 4)
	count("actions", admin.JournalFilter{Actions: []string{"pause", "cancel"}}, 2)
	count("target", admin.JournalFilter{Target: ref}, 4)
	count("another target", admin.JournalFilter{Target: "id:of-the-journal"}, 0)
	count("outcome", admin.JournalFilter{Outcomes: []string{admin.CodeForbidden}}, 1)
	count("no outcome", admin.JournalFilter{Outcomes: []string{admin.OutcomeUnknown}}, 0)
	count("since", admin.JournalFilter{Since: begun}, 4)
	count("until", admin.JournalFilter{Until: begun}, 0)
	count("a page", admin.JournalFilter{Limit: 3}, 3)
	first, err := s.Service.Journal(s.ctx(), admin.JournalFilter{Principals: mine, Limit: 3})
	if err != nil || first.Cursor == "" {
		s.Fatalf("the first page: %+v, %v", first, err)
	}
	count("the next page", admin.JournalFilter{Limit: 3, Cursor: first.Cursor}, 1)
	got, err := s.Service.Journal(s.ctx(), admin.JournalFilter{Actions: []string{"dance"}, Budget: 1})
	if err != nil || !got.Partial || got.Cursor == "" {
		s.Errorf("a budget of 1: got %+v, %v, want a partial page", got, err)
	}
	for what, f := range map[string]admin.JournalFilter{
		"a cursor of nobody": {Cursor: "no"}, "a page that is too large": {Limit: 1001}, "a negative page": {Limit: -1}, "a negative budget": {Budget: -1},
		"times that are exchanged": {Since: time.Now(), Until: begun},
	} {
		_, err := s.Service.Journal(s.ctx(), f)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
}

// journalsReasons gives reasons for actions whose reason only the journal records.
func journalsReasons(s *Scene) {
	asked := s.Service
	if asked == s.Direct { // this service has no journal, so it refuses the reasons
		for what, err := range actWithReasons(s, s.Direct, "reasons-refused", "because") {
			problem(s, what+" without a journal", err, http.StatusBadRequest, admin.CodeInput)
		}
		asked = s.Direct.AsLocal("admintest")
	}
	for what, err := range actWithReasons(s, asked, "reasons-kept", "because <\u202e>") {
		want := admin.OutcomeDone
		if p := admin.ProblemOf(err); p != nil && p.Code == admin.CodeUnsupported && what == "repair" { // the memory store cannot repair, but the journal records the request
			want = p.Code
		} else if err != nil {
			s.Errorf("%s: %v", what, err)
			continue
		}
		page, err := s.Service.Journal(s.ctx(), admin.JournalFilter{Actions: []string{what}, Limit: 1})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Reason != "because <\u202e>" || page.Entries[0].Outcome != want {
			s.Errorf("%s: the journal has %+v, %v", what, page.Entries, err)
		}
	}
	for what, err := range actWithReasons(s, asked, "reasons-too-long", strings.Repeat("x", 1025)) { // the reason is longer than the journal accepts
		problem(s, what+" for a long reason", err, http.StatusBadRequest, admin.CodeInput)
	}
}

// actWithReasons executes, with a reason, one action for each kind of object, and each action on
// runs whose reason the log does not record. It returns the errors by the names that the journal
// uses.
func actWithReasons(s *Scene, to Service, id, reason string) map[string]error {
	s.Helper()
	bad := s.Ended("bad", id)
	s.schedule(id, "good")
	limit := s.Visit(id)
	_, restarted := to.Act(s.ctx(), bad, admin.Action{Verb: "restart", Reason: reason})
	_, triggered := to.ActOnSchedule(s.ctx(), id, admin.ScheduleAction{Verb: "trigger", Reason: reason})
	_, reset := to.ActOnPool(s.ctx(), limit, admin.PoolAction{Verb: "reset", Key: id, Reason: reason})
	_, started := to.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("good"), Reason: reason})
	run, open := s.hooked(id + "-hook")
	_, sent := to.Send(s.ctx(), run, "verdict", admin.Message{Payload: admin.Payload("1"), Reason: reason})
	_, asked := to.Ask(s.ctx(), run, limits.Name(), admin.Message{Payload: admin.Payload("1"), Reason: reason})
	_, resumed := to.ResumeHook(s.ctx(), open[0].Token, admin.Message{Payload: admin.Payload(`{}`), Reason: reason})
	_, put := to.PutSchedule(s.ctx(), admin.NewSchedule{Name: id, Workflow: Workflow, Input: Input("good"), Timing: admin.Timing{When: yearly}, Reason: reason})
	n := len(s.tagged(3, "wait", id, "waiting"))
	slow := admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Tags: map[string]string{"bulk": id}}, Action: admin.Action{Verb: "pause"}}, Expect: &n, Rate: 1}
	b, err := s.Direct.StartBulk(s.ctx(), slow)
	if err != nil {
		s.Fatal(err)
	}
	_, stopped := to.StopBulk(s.ctx(), b.ID, admin.Because{Reason: reason})
	_, saved := to.SaveView(s.ctx(), id, admin.NewView{Filter: "status:failed", Reason: reason})
	_, deleted := to.DeleteView(s.ctx(), id, admin.Because{Reason: reason})
	_, repaired := to.Repair(s.ctx(), admin.Because{Reason: reason})
	return map[string]error{
		"restart": restarted, "trigger": triggered, "reset": reset, "start": started, "send": sent, "ask": asked, "resume-hook": resumed, "put": put, "stop": stopped, "repair": repaired,
		"save-view": saved, "delete-view": deleted,
	}
}
