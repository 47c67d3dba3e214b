package admintest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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

	bad := s.Ended("bad", "") // has no workflow ID, because a workflow ID allows only one open run
	one := act(bad, admin.Action{Verb: "retry", Key: "r", Reason: "the card is valid"})
	if r, err := s.Service.Wait(s.ctx(), one.New, time.Minute); err != nil || r.Status != "failed" {
		s.Errorf("the rerun: got %+v, %v", r, err)
	}
	if page, err := s.Service.Events(s.ctx(), one.New, 1, 1); err != nil || len(page.Events) != 1 || page.Events[0].Reason != "the card is valid" {
		s.Errorf("the first event of the rerun: got %+v, %v", page, err)
	}
	if two := act(bad, admin.Action{Verb: "retry", Key: "r"}); one.New == "" || two.New != one.New {
		s.Errorf("retry with the same key after the rerun has failed: got %+v, want %+v", two, one)
	}
	_, err := s.Service.Act(s.ctx(), bad, admin.Action{Verb: "restart", Key: "r"})
	problem(s, "restart with the key of a retry", err, http.StatusConflict, admin.CodeRefused)
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
	for _, a := range []admin.Action{{Verb: "explode"}, {Verb: "restart", Reason: strings.Repeat("x", 1025)}, {Verb: "pause", Reason: strings.Repeat("x", 5000)}, {Verb: "fork"}, {Verb: "cancel", Reason: strings.Repeat("x", 5000)}, {Verb: "cancel", Reason: "\xff"}} {
		_, err := s.Service.Act(s.ctx(), restarted.New, a)
		problem(s, a.Verb, err, http.StatusBadRequest, admin.CodeInput)
	}
	_, err = s.Service.Act(s.ctx(), restarted.New, admin.Action{Verb: "pause"})
	problem(s, "pause a run that has ended", err, http.StatusConflict, admin.CodeRefused)
}

// rerunsByKeys sends the same requests from many clients concurrently.
func rerunsByKeys(s *Scene) {
	bad := s.Ended("bad", "reruns") // a rerun gets the workflow ID of this run
	page, err := s.Direct.Events(s.ctx(), bad, 1, 0)
	if err != nil {
		s.Fatal(err)
	}
	at := slices.IndexFunc(page.Events, func(e admin.Event) bool { return e.Name == "admintest.label" && e.Key != "" })
	if at < 0 {
		s.Fatalf("no step in %+v", page)
	}
	made := map[string]string{}
	for _, a := range []admin.Action{{Verb: "restart", Key: "r"}, {Verb: "fork", Step: page.Events[at].Key, Key: "f"}, {Verb: "restart", Key: strings.Repeat("ключ/ ", 40)}, {Verb: "retry", Key: "t"}} {
		if strings.HasPrefix(a.Key, "ключ") && s.Service != s.Direct {
			continue // a header cannot contain this key
		}
		got := make(chan string, 8)
		for range cap(got) {
			go func() {
				done, err := s.Service.Act(s.ctx(), bad, a)
				if err != nil {
					s.Errorf("%s: %v", a.Verb, err)
				}
				got <- done.New
			}()
		}
		one := <-got
		for range cap(got) - 1 {
			if other := <-got; one == "" || other != one {
				s.Errorf("%s: one key has made run %q and run %q", a.Verb, one, other)
			}
		}
		if before := made[one]; before != "" {
			s.Errorf("%s: the run of the key %q", a.Verb, before)
		}
		made[one] = a.Key
		if r, err := s.Service.Wait(s.ctx(), one, time.Minute); err != nil || r.Status != "failed" {
			s.Errorf("got %+v, %v", r, err)
		}
		if done, err := s.Service.Act(s.ctx(), bad, a); err != nil || done.New != one {
			s.Errorf("%s again, after its end: got %+v, %v, want run %s", a.Verb, done, err, one)
		}
	}
	_, err = s.Service.Act(s.ctx(), bad, admin.Action{Verb: "restart", Key: "f"})
	problem(s, "the key of a fork", err, http.StatusConflict, admin.CodeRefused)
	_, err = s.Service.Act(s.ctx(), bad, admin.Action{Verb: "fork", Step: page.Events[at].Key, Key: "r"})
	problem(s, "the key of a restart", err, http.StatusConflict, admin.CodeRefused)
	if got, err := s.Service.Act(s.ctx(), bad, admin.Action{Verb: "restart"}); err != nil || made[got.New] != "" {
		s.Errorf("without a key: got %+v, %v, want another run", got, err)
	}
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

// offers checks that the offered actions of a run are exactly those that would succeed, and that a
// pause is reported whatever the status of the run is.
func offers(s *Scene) {
	actions := func(what, ref string, is func(*admin.Run) bool, want ...string) {
		s.Helper()
		for ctx := s.ctx(); ; {
			r, err := s.Service.Run(ctx, ref)
			if err != nil {
				s.Fatal(err)
			}
			if is(&r) {
				same(s, "actions of "+what, r.Actions, want)
				return
			}
		}
	}
	status := func(status string) func(*admin.Run) bool {
		return func(r *admin.Run) bool { return r.Status == status && !r.Paused }
	}
	actions("a run without steps", s.Start("wait", "offers"), status("waiting"), "cancel", "pause", "restart", "terminate")
	held, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: Input("wait"), Hold: true, ID: "offers-held"})
	if err != nil {
		s.Fatal(err)
	}
	actions("a held run", held.Run, status("held"), "cancel", "pause", "release", "restart", "terminate")
	if _, err := s.Service.Act(s.ctx(), held.Run, admin.Action{Verb: "pause"}); err != nil {
		s.Fatal(err)
	}
	paused := func(r *admin.Run) bool { return r.Status == "held" && r.Paused }
	actions("a held and paused run", held.Run, paused, "cancel", "resume", "release", "restart", "terminate")
	offersReruns(s, actions, status)
	_, err = s.Service.Act(s.ctx(), "id:offers", admin.Action{Verb: "release"})
	problem(s, "release of a run that was not held", err, http.StatusConflict, admin.CodeRefused)
}

// offersReruns checks that a retried run can be retried again if its rerun has failed or was
// deleted, and not otherwise.
func offersReruns(s *Scene, actions func(what, ref string, is func(*admin.Run) bool, want ...string), status func(string) func(*admin.Run) bool) {
	act := func(ref, verb string) string {
		s.Helper()
		got, err := s.Service.Act(s.ctx(), ref, admin.Action{Verb: verb})
		if err != nil {
			s.Errorf("%s: %v", verb, err)
		}
		return got.New
	}
	bad := s.Ended("bad", "")
	rerun := act(bad, "retry")
	if _, err := s.Service.Wait(s.ctx(), rerun, time.Minute); err != nil {
		s.Fatal(err)
	}
	actions("a run whose rerun has failed", bad, status("failed"), "retry", "restart", "fork", "delete")
	act(rerun, "delete")
	actions("a run whose rerun was deleted", bad, status("failed"), "retry", "restart", "fork", "delete")
	stopped := s.Start("wait", "")
	s.Until(stopped, "waiting")
	act(stopped, "cancel")
	if _, err := s.Service.Wait(s.ctx(), stopped, time.Minute); err != nil {
		s.Fatal(err)
	}
	actions("a cancelled run", stopped, status("cancelled"), "resume-new", "restart", "delete")
	rerun = act(stopped, "resume-new")
	s.Until(rerun, "waiting")
	actions("a run whose rerun is open", stopped, status("cancelled"), "restart", "delete")
	act(rerun, "cancel")
	if _, err := s.Service.Wait(s.ctx(), rerun, time.Minute); err != nil {
		s.Fatal(err)
	}
	actions("a run whose rerun was cancelled", stopped, status("cancelled"), "resume-new", "restart", "delete")
}
