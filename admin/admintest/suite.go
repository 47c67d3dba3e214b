package admintest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// behaviors names what every service does.
var behaviors = []struct {
	name string
	do   func(s *Scene)
}{
	{"StartsARunOfAWorkflowByItsName", startsByName},
	{"StartsOnceForAKey", startsOnce},
	{"StartsByThePoliciesOfAnID", startsByPolicy},
	{"StartsLaterAndOnHold", startsLater},
	{"RefusesAStartThatMakesNoSense", refusesStarts},
	{"KeepsNumbersAndTextOfPayloads", keepsPayloads},
	{"ListsAndCountsByEachField", lists},
	{"ListsPageByPage", pages},
	{"GroupsFailures", groupsFailures},
	{"ShowsARunInEachState", shows},
	{"ReadsALogInPages", readsLogs},
	{"FollowsARunThatHasEnded", followsEnded},
	{"FollowsARunWhileItRuns", followsLive},
	{"FollowsFromAnEvent", followsFrom},
	{"WaitsForTheEndAndNoLonger", waits},
	{"Acts", acts},
	{"KeepsReasonsAndActsOnceForAKey", reasons},
	{"SendsAMessageOnceForAKey", sends},
	{"AsksAndGetsTheAnswer", asks},
	{"ReadsValues", values},
	{"NamesRunsByHostileWorkflowIDs", hostileNames},
	{"AnswersBadInputAsTheStoreDoes", badInput},
	{"EndsWithItsContext", endsWithContext},
}

// Run judges the service that over returns for the one that works with the store itself. open returns an empty store.
func Run(t *testing.T, open func(t testing.TB) store.Store, over func(t testing.TB, direct admin.Service) admin.Service) {
	t.Helper()
	s := NewScene(t, open(t), over)
	for _, b := range behaviors {
		t.Run(b.name, func(t *testing.T) { b.do(s.on(t)) })
	}
}

func startsByName(s *Scene) {
	got, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("good"), ID: "by-name", Tags: map[string]string{"region": "eu"}})
	if err != nil || !got.Created {
		s.Fatalf("got %+v, %v", got, err)
	}
	r, err := s.Service.Wait(s.ctx(), got.Run, time.Minute)
	if err != nil || r.Status != "completed" || string(r.Result) != `"label of good"` || r.WorkflowID != "by-name" || r.Tags["region"] != "eu" || r.Queue != workflow.DefaultQueue {
		s.Errorf("got %+v, %v", r, err)
	}
}

func startsOnce(s *Scene) {
	in := admin.Start{Workflow: Workflow, Input: Input("good"), Key: "k-1"}
	first, err := s.Service.Start(s.ctx(), in)
	if err != nil || !first.Created {
		s.Fatalf("got %+v, %v", first, err)
	}
	if _, err := s.Service.Wait(s.ctx(), first.Run, time.Minute); err != nil {
		s.Fatal(err)
	}
	again, err := s.Service.Start(s.ctx(), in) // after its end, too
	if err != nil || again.Created || again.Run != first.Run {
		s.Errorf("again: got %+v, %v, want run %s", again, err, first.Run)
	}
	in.Input = Input("bad")
	_, err = s.Service.Start(s.ctx(), in)
	problem(s, "another input", err, http.StatusUnprocessableEntity, admin.CodeInput)
	in.Input, in.Workflow = Input("good"), "admintest.other"
	_, err = s.Service.Start(s.ctx(), in)
	problem(s, "another workflow", err, http.StatusUnprocessableEntity, admin.CodeInput)
	in = admin.Start{Workflow: Workflow, Input: Input("good"), Key: "k-2"}
	if other, err := s.Service.Start(s.ctx(), in); err != nil || !other.Created {
		s.Errorf("another key: got %+v, %v", other, err)
	}
	waiting := admin.Start{Workflow: Workflow, Input: Input("wait"), Key: "k-3"}
	first, err = s.Service.Start(s.ctx(), waiting)
	if err != nil {
		s.Fatal(err)
	}
	waiting.Workflow = "admintest.other"
	_, err = s.Service.Start(s.ctx(), waiting)
	problem(s, "another workflow, while the first one runs", err, http.StatusUnprocessableEntity, admin.CodeInput)
}

func startsByPolicy(s *Scene) {
	active := s.Start("wait", "by-policy")
	in := admin.Start{Workflow: Workflow, Input: Input("wait"), ID: "by-policy"}
	if got, err := s.Service.Start(s.ctx(), in); err != nil || got.Created || got.Run != active {
		s.Errorf("use: got %+v, %v, want run %s", got, err, active)
	}
	in.Policy = "fail"
	_, err := s.Service.Start(s.ctx(), in)
	problem(s, "fail", err, http.StatusConflict, admin.CodeRefused)
	in.Policy = "cancel"
	got, err := s.Service.Start(s.ctx(), in)
	if err != nil || !got.Created {
		s.Errorf("cancel: got %+v, %v", got, err)
	}
	if r, err := s.Direct.Wait(s.ctx(), active, time.Minute); err != nil || r.Status != string(workflow.StatusCanceled) {
		s.Errorf("cancel: the run before is %s, %v", r.Status, err)
	}
	s.Ended("good", "by-finished")
	in = admin.Start{Workflow: Workflow, Input: Input("good"), ID: "by-finished", Finished: "reject"}
	_, err = s.Service.Start(s.ctx(), in)
	problem(s, "reject", err, http.StatusConflict, admin.CodeRefused)
	in.Workflow, in.ID, in.Finished = "admintest.other", "by-policy", ""
	_, err = s.Service.Start(s.ctx(), in)
	problem(s, "the id of a run of another workflow", err, http.StatusConflict, admin.CodeRefused)
}

func startsLater(s *Scene) {
	later, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("good"), DelayMs: 3_600_000, Queue: "admintest later"})
	if err != nil {
		s.Fatal(err)
	}
	r, err := s.Service.Run(s.ctx(), later.Run)
	if err != nil || r.Status != "pending" || r.Queue != "admintest later" || r.Due.Sub(r.CreatedAt) < 59*time.Minute {
		s.Errorf("later: got %+v, %v", r, err)
	}
	held, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("good"), Hold: true})
	if err != nil {
		s.Fatal(err)
	}
	if r, err := s.Service.Run(s.ctx(), held.Run); err != nil || r.Status != "held" {
		s.Errorf("on hold: got %+v, %v", r, err)
	}
	if _, err := s.Service.Act(s.ctx(), held.Run, admin.Action{Verb: "release", Key: "once"}); err != nil {
		s.Error(err)
	}
	if r, err := s.Service.Wait(s.ctx(), held.Run, time.Minute); err != nil || r.Status != "completed" {
		s.Errorf("released: got %+v, %v", r, err)
	}
}

func refusesStarts(s *Scene) {
	for what, in := range map[string]admin.Start{
		"no workflow":           {Input: Input("good")},
		"one of the runtime":    {Workflow: "flowgen.step/admintest.label"},
		"no JSON":               {Workflow: Workflow, Input: admin.Payload(`{"what":`)},
		"unknown policy":        {Workflow: Workflow, ID: "x", Policy: "first"},
		"unknown end policy":    {Workflow: Workflow, ID: "x", Finished: "never"},
		"policy without id":     {Workflow: Workflow, Policy: "use"},
		"key and id":            {Workflow: Workflow, ID: "x", Key: "k"},
		"negative delay":        {Workflow: Workflow, DelayMs: -1},
		"delay of a million y":  {Workflow: Workflow, DelayMs: 1 << 62},
		"delay and hold":        {Workflow: Workflow, DelayMs: 1, Hold: true},
		"id that is not UTF-8":  {Workflow: Workflow, ID: "\xff"},
		"tag that is not UTF-8": {Workflow: Workflow, Tags: map[string]string{"a": "\xff"}},
		"id with a zero byte":   {Workflow: Workflow, ID: "a\x00b"},
		"id of 2 KiB":           {Workflow: Workflow, ID: strings.Repeat("x", 2<<10)},
	} {
		_, err := s.Service.Start(s.ctx(), in)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	big := admin.Payload(`"` + strings.Repeat("x", workflow.DefaultMaxPayload) + `"`)
	_, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: big})
	problem(s, "an input that is too large", err, http.StatusRequestEntityTooLarge, admin.CodeInput)
}

func keepsPayloads(s *Scene) {
	const sent = `{"n":9223372036854775808,"f":1.10,"s":"<\u00fc\u2028& \"","deep":[[[{}]]],"null":null}`
	ref := s.Start("wait", "keeps")
	if _, err := s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload(sent)}); err != nil {
		s.Fatal(err)
	}
	r, err := s.Service.Wait(s.ctx(), ref, time.Minute)
	if err != nil || r.Status != "completed" {
		s.Fatalf("got %+v, %v", r, err)
	}
	if !strings.Contains(string(r.Result), `9223372036854775808`) || !strings.Contains(string(r.Result), `1.10`) {
		s.Errorf("the run has got %s, want %s", r.Result, sent)
	}
	direct, err := s.Direct.Run(s.ctx(), ref)
	if err != nil || string(direct.Result) != string(r.Result) {
		s.Errorf("result %s, directly %s, %v", r.Result, direct.Result, err)
	}
}

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
	for what, f := range map[string]admin.Filter{"group": {Group: failed.Group}, "troubled": {Troubled: true}} {
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

// ids takes out of a page what stays the same while others work on its runs.
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
		if what == "next" && got.Next == "" {
			s.Errorf("next: got %+v", got)
		}
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

// log returns what follow delivers of a log, and its error.
func log(s *Scene, service admin.Service, ref string, from uint64) (all []admin.Event, err error) {
	for e, err := range service.Follow(s.ctx(), ref, from) {
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
	for e, err := range s.Service.Follow(s.ctx(), ref, 1) {
		if err != nil {
			s.Fatal(err)
		}
		if e.Seq != last+1 {
			s.Errorf("event %d follows %d", e.Seq, last)
		}
		if last = e.Seq; e.Seq == 1 { // the rest comes while it is followed
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
	for e, err := range s.Service.Follow(s.ctx(), ref, 1) { // a reader that has had enough
		if err != nil || e.Seq != 1 {
			s.Errorf("got %+v, %v", e, err)
		}
		break
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

func acts(s *Scene) {
	ref := s.Start("wait", "acts")
	s.Until(ref, "waiting")
	act := func(ref string, a admin.Action) admin.Acted {
		s.Helper()
		got, err := s.Service.Act(s.ctx(), ref, a)
		if err != nil {
			s.Errorf("%s: %v", a.Verb, err)
		}
		return got
	}
	act(ref, admin.Action{Verb: "pause"})
	s.Until(ref, "paused")
	act(ref, admin.Action{Verb: "resume"})
	s.Until(ref, "waiting")
	act(ref, admin.Action{Verb: "cancel", Reason: "ordered twice <&>", Key: "c"})
	if r, err := s.Service.Wait(s.ctx(), ref, time.Minute); err != nil || r.Status != string(workflow.StatusCanceled) || !strings.Contains(r.Failure.Message, "ordered twice <&>") {
		s.Errorf("cancel: got %+v, %v", r, err)
	}
	again := act(ref, admin.Action{Verb: "resume-new"})
	if again.New == "" || again.Run != ref {
		s.Errorf("resume-new: got %+v", again)
	}
	act(again.New, admin.Action{Verb: "cancel"})

	bad := s.Ended("bad", "") // an id would be that of one new run at a time
	one, two := act(bad, admin.Action{Verb: "retry", Key: "r"}), act(bad, admin.Action{Verb: "retry", Key: "r"})
	if one.New == "" || one != two {
		s.Errorf("retry: got %+v, then %+v", one, two)
	}
	restarted := act(bad, admin.Action{Verb: "restart"})
	page, err := s.Direct.Events(s.ctx(), bad, 1, 0)
	if err != nil {
		s.Fatal(err)
	}
	var step string
	for _, e := range page.Events {
		if e.Name == "admintest.label" && e.Key != "" {
			step = e.Key
			break
		}
	}
	forked := act(bad, admin.Action{Verb: "fork", Step: step})
	for _, made := range []string{one.New, restarted.New, forked.New} {
		if r, err := s.Service.Wait(s.ctx(), made, time.Minute); err != nil || r.Status != "failed" {
			s.Errorf("got %+v, %v", r, err)
		}
	}
	act(bad, admin.Action{Verb: "delete"})
	_, err = s.Service.Run(s.ctx(), bad)
	problem(s, "a run that was deleted", err, http.StatusNotFound, admin.CodeNotFound)
	for _, a := range []admin.Action{{Verb: "explode"}, {Verb: "restart", Reason: "why"}, {Verb: "pause", Reason: strings.Repeat("x", 5000)}, {Verb: "fork"}, {Verb: "cancel", Reason: strings.Repeat("x", 5000)}, {Verb: "cancel", Reason: "\xff"}} {
		_, err := s.Service.Act(s.ctx(), restarted.New, a)
		problem(s, a.Verb, err, http.StatusBadRequest, admin.CodeInput)
	}
	_, err = s.Service.Act(s.ctx(), restarted.New, admin.Action{Verb: "pause"})
	problem(s, "pause a run that has ended", err, http.StatusConflict, admin.CodeRefused)
	_, err = s.Service.Act(s.ctx(), restarted.New, admin.Action{Verb: "restart", Key: "k"})
	problem(s, "a key that is not kept", err, http.StatusNotImplemented, admin.CodeUnsupported)
}

func reasons(s *Scene) {
	ref := s.Start("wait", "reasons")
	s.Until(ref, "waiting")
	for _, a := range []admin.Action{{Verb: "pause", Reason: "lunch", Key: "k"}, {Verb: "resume", Reason: "back", Key: "k"}, {Verb: "pause", Reason: "again", Key: "k"}} {
		if _, err := s.Service.Act(s.ctx(), ref, a); err != nil {
			s.Fatalf("%s: %v", a.Verb, err)
		}
		s.Until(ref, map[string]string{"lunch": "paused", "back": "waiting", "again": "waiting"}[a.Reason])
	}
	if _, err := s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("1")}); err != nil {
		s.Fatal(err)
	}
	if r, err := s.Service.Wait(s.ctx(), ref, time.Minute); err != nil || r.Status != "completed" {
		s.Fatalf("got %+v, %v: the second pause has a key that was used", r, err)
	}
	page, err := s.Service.Events(s.ctx(), ref, 1, 0)
	if err != nil {
		s.Fatal(err)
	}
	var told []string
	for _, e := range page.Events {
		if e.Reason != "" {
			told = append(told, e.Type+": "+e.Reason)
		}
	}
	same(s, "reasons in the log", told, []string{"run_paused: lunch", "run_resumed: back"})
}

func sends(s *Scene) {
	ref := s.Start("wait", "sends")
	s.Until(ref, "waiting")
	for range 2 {
		got, err := s.Service.Send(s.ctx(), "id:sends", "other/ topic", admin.Message{Payload: admin.Payload("1"), Key: "k"})
		if err != nil || got.Run != ref {
			s.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload(`null`)}); err != nil {
		s.Error(err)
	}
	if r, err := s.Service.Wait(s.ctx(), ref, time.Minute); err != nil || string(r.Result) != `"null"` {
		s.Errorf("got %+v, %v", r, err)
	}
	events, err := log(s, s.Direct, ref, 1)
	if err != nil {
		s.Fatal(err)
	}
	n := 0
	for _, e := range events {
		if e.Type == "message_received" && e.Name == "other/ topic" {
			n++
		}
	}
	if n != 1 {
		s.Errorf("the message has come %d times, want once", n)
	}
	_, err = s.Service.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload("2")})
	problem(s, "a run that has ended", err, http.StatusConflict, admin.CodeRefused)
}

func asks(s *Scene) {
	ref := s.Start("wait", "asks")
	ask := func(payload, key string) (admin.Answer, error) {
		return s.Service.Ask(s.ctx(), ref, limits.Name(), admin.Message{Payload: admin.Payload(payload), Key: key})
	}
	if got, err := ask("21", ""); err != nil || string(got.Payload) != "42" || got.Run != ref {
		s.Errorf("got %+v, %v", got, err)
	}
	for range 2 {
		if got, err := ask("4", "k"); err != nil || string(got.Payload) != "8" {
			s.Errorf("with a key: got %+v, %v", got, err)
		}
	}
	_, err := ask("-1", "")
	problem(s, "a question that is refused", err, http.StatusUnprocessableEntity, admin.CodeRejected)
	_, err = ask("13", "")
	problem(s, "an answer that is an error", err, http.StatusUnprocessableEntity, admin.CodeRejected)
	_, err = s.Service.Ask(s.ctx(), s.Ended("good", "asks-ended"), limits.Name(), admin.Message{Payload: admin.Payload("1")})
	problem(s, "a run that has ended", err, http.StatusConflict, admin.CodeRefused)
	ctx, cancel := context.WithTimeout(s.ctx(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Service.Ask(ctx, ref, "nobody-handles", admin.Message{Payload: admin.Payload("1")})
	problem(s, "an ask that nobody handles", err, http.StatusGatewayTimeout, admin.CodeTimeout)
}

func values(s *Scene) {
	ref := s.Ended("good", "values")
	got, err := s.Service.Value(s.ctx(), "id:values", "progress")
	same(s, "progress", got, admin.Value{Run: ref, Name: "progress", Set: true, Value: admin.Payload(`"good"`)})
	if err != nil {
		s.Error(err)
	}
	got, err = s.Service.Value(s.ctx(), ref, "..")
	same(s, "a value that was never set", got, admin.Value{Run: ref, Name: ".."})
	if err != nil {
		s.Error(err)
	}
}

func hostileNames(s *Scene) {
	for _, id := range []string{
		"a/b", "/", ".", "..", "../../etc", "a//b", "%2F", "a%", "a b", "a+b", "ü/β\u202e", "<script>", "?x=1#y", "\x1b[31m", "\n", "id:id:", ":", `\`, "a;b,c", "~", "count", "events",
	} {
		ref := s.Start("good", id)
		r, err := s.Service.Run(s.ctx(), "id:"+id)
		if err != nil || r.ID != ref || r.WorkflowID != id {
			s.Errorf("%q: got %+v, %v", id, r, err)
		}
		if r, err = s.Service.Wait(s.ctx(), "id:"+id, time.Minute); err != nil || r.ID != ref {
			s.Errorf("%q: got %+v, %v", id, r, err)
		}
	}
	ref := s.Start("wait", "hostile-topics")
	for _, topic := range []string{"..", ".", "a/b", "%2e", "\n", "é"} {
		if _, err := s.Service.Send(s.ctx(), ref, topic, admin.Message{Payload: admin.Payload("1")}); err != nil {
			s.Errorf("topic %q: %v", topic, err)
		}
	}
}

func badInput(s *Scene) {
	ref := s.Start("wait", "bad-input")
	const unknown = "wrun_00000000000000000000000000"
	long := strings.Repeat("x", 300)
	calls := map[string]func(admin.Service) error{}
	for _, name := range []string{"", "order-1", "id:", "id:nobody", unknown, "..", "a/b", "\xff", "id:\xff"} {
		calls[fmt.Sprintf("run %q", name)] = func(a admin.Service) error { _, err := a.Run(s.ctx(), name); return err }
		calls[fmt.Sprintf("events %q", name)] = func(a admin.Service) error { _, err := a.Events(s.ctx(), name, 0, 0); return err }
		calls[fmt.Sprintf("wait %q", name)] = func(a admin.Service) error { _, err := a.Wait(s.ctx(), name, time.Second); return err }
		calls[fmt.Sprintf("follow %q", name)] = func(a admin.Service) error { _, err := log(s, a, name, 1); return err }
		calls[fmt.Sprintf("cancel %q", name)] = func(a admin.Service) error { _, err := a.Act(s.ctx(), name, admin.Action{Verb: "cancel"}); return err }
		calls[fmt.Sprintf("value %q", name)] = func(a admin.Service) error { _, err := a.Value(s.ctx(), name, "progress"); return err }
		calls[fmt.Sprintf("send %q", name)] = func(a admin.Service) error {
			_, err := a.Send(s.ctx(), name, "verdict", admin.Message{Payload: admin.Payload("1")})
			return err
		}
		calls[fmt.Sprintf("ask %q", name)] = func(a admin.Service) error {
			_, err := a.Ask(s.ctx(), name, limits.Name(), admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, f := range map[string]admin.Filter{
		"status": {Statuses: []string{"asleep"}}, "cursor": {Cursor: "no"}, "limit": {Limit: 1001}, "negative limit": {Limit: -1}, "budget": {Budget: -1},
		"times": {Since: time.Now(), Until: time.Now().Add(-time.Hour)}, "parent": {Parent: "order-1"}, "root": {Root: "order-1"},
	} {
		calls["list by "+what] = func(a admin.Service) error { _, err := a.Runs(s.ctx(), f); return err }
	}
	calls["a page of events that is too large"] = func(a admin.Service) error { _, err := a.Events(s.ctx(), ref, 1, 1001); return err }
	calls["a page of less than no events"] = func(a admin.Service) error { _, err := a.Events(s.ctx(), ref, 1, -1); return err }
	calls["no action"] = func(a admin.Service) error { _, err := a.Act(s.ctx(), ref, admin.Action{}); return err }
	for what, name := range map[string]string{"no": "", "a long": long} {
		calls["value of "+what+" name"] = func(a admin.Service) error { _, err := a.Value(s.ctx(), ref, name); return err }
		calls["ask of "+what+" name"] = func(a admin.Service) error {
			_, err := a.Ask(s.ctx(), ref, name, admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, topic := range map[string]string{"no": "", "a long": strings.Repeat("x", 2000), "a zero byte in its": "a\x00", "no UTF-8 in its": "\xff"} {
		calls["topic of "+what+" name"] = func(a admin.Service) error {
			_, err := a.Send(s.ctx(), ref, topic, admin.Message{Payload: admin.Payload("1")})
			return err
		}
	}
	for what, payload := range map[string]string{"no": "", "half a": `{"a":`, "an open": `"`, "two": "1 2"} {
		calls["message of "+what+" JSON"] = func(a admin.Service) error {
			_, err := a.Send(s.ctx(), ref, "verdict", admin.Message{Payload: admin.Payload(payload)})
			return err
		}
	}
	for what, call := range calls {
		sameProblem(s, what, call(s.Service), call(s.Direct))
	}
}

func endsWithContext(s *Scene) {
	ref := s.Start("wait", "contexts")
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err := s.Service.Run(ended, ref)
	problem(s, "a run", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	_, err = s.Service.Wait(ended, ref, time.Minute)
	problem(s, "waiting", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	following, cancel := context.WithCancel(s.ctx())
	defer cancel()
	for _, err = range s.Service.Follow(following, ref, 1) {
		if err != nil {
			break
		}
		cancel()
	}
	problem(s, "following", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
	short, cancel := context.WithTimeout(s.ctx(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Service.Wait(short, ref, time.Minute)
	problem(s, "waiting longer than there is time", err, http.StatusGatewayTimeout, admin.CodeTimeout)
}
