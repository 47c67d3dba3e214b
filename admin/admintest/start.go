package admintest

import (
	"net/http"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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
	again, err := s.Service.Start(s.ctx(), in) // the key returns the same run even after the end of the run
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
	goesOn := admin.Start{Workflow: Workflow, Input: Input("next"), Key: "k-4"}
	first, err = s.Service.Start(s.ctx(), goesOn)
	if err != nil {
		s.Fatal(err)
	}
	last, err := s.Service.Wait(s.ctx(), first.Run, time.Minute)
	if err != nil || last.ID == first.Run {
		s.Fatalf("the run has not continued as new: got %+v, %v", last, err)
	}
	if again, err := s.Service.Start(s.ctx(), goesOn); err != nil || again.Created || again.Run != last.ID {
		s.Errorf("again, after the run has continued as new: got %+v, %v, want run %s", again, err, last.ID)
	}
	goesOn.Input = last.Input
	_, err = s.Service.Start(s.ctx(), goesOn)
	problem(s, "the input of the last run of the chain", err, http.StatusUnprocessableEntity, admin.CodeInput)
	waiting := admin.Start{Workflow: Workflow, Input: Input("wait"), Key: "k-3"}
	if _, err = s.Service.Start(s.ctx(), waiting); err != nil {
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
		"tag that is not UTF-8": {Workflow: Workflow, Input: Input("good"), Tags: map[string]string{"a": "\xff"}},
		"id with a zero byte":   {Workflow: Workflow, ID: "a\x00b"},
		"id of 2 KiB":           {Workflow: Workflow, ID: strings.Repeat("x", 2<<10)},
	} {
		_, err := s.Service.Start(s.ctx(), in)
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	big := Input(strings.Repeat("x", workflow.DefaultMaxPayload))
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
