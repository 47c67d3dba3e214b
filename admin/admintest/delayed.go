package admintest

import (
	"net/http"
	"slices"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// patient is a workflow whose runs fail and are retried once, an hour later.
var patient = shim.NewWorkflow[string, string]("admintest.patient", "what", shim.WorkflowPolicy{
	Rerun: workflow.RetryPolicy{Attempts: 2, Initial: time.Hour, Max: time.Hour},
})

func bindPatient(w *worker.Worker) {
	shim.BindWorkflow(w, patient, func(ctx workflow.Context, _ string) (string, error) { return shim.Call[string](ctx, label, "bad") })
}

// delayed starts runs that fail, and returns their reruns, which are delayed by an hour.
func (s *Scene) delayed(n int, tag string) (reruns []string) {
	s.Helper()
	for range n {
		run, err := patient.Start(s.ctx(), s.Client, "parcel", workflow.WithTags(map[string]string{"bulk": tag}))
		if err != nil {
			s.Fatal(err)
		}
		rerun := ""
		for ctx := s.ctx(); rerun == ""; {
			r, err := s.Direct.Run(ctx, string(run.ID()))
			if err != nil {
				s.Fatalf("run %s is not tried again: %v", run.ID(), err)
			}
			rerun = r.RetriedAs
		}
		reruns = append(reruns, rerun)
	}
	return reruns
}

// goesOn checks that a rerun fails after a resume and that no further rerun follows.
func (s *Scene) goesOn(rerun string) {
	s.Helper()
	r, err := s.Service.Wait(s.ctx(), rerun, time.Minute)
	if err != nil || r.Status != "failed" || r.RetriedAs != "" || !r.Due.IsZero() {
		s.Errorf("the rerun after a resume: got %+v, %v, want that it has failed", r, err)
	}
}

func resumesDelayed(s *Scene) {
	rerun := s.delayed(1, "")[0]
	r, err := s.Service.Run(s.ctx(), rerun)
	if wait := time.Until(r.Due); err != nil || r.Status != "sleeping" || r.Paused || wait < 50*time.Minute || wait > time.Hour+time.Second {
		s.Errorf("a rerun in its delay: got %+v, %v, want that it sleeps for an hour", r, err)
	}
	same(s, "actions of a rerun in its delay", r.Actions, []string{"cancel", "pause", "resume", "restart", "fork", "terminate"})
	if _, err := s.Service.Act(s.ctx(), rerun, admin.Action{Verb: "resume", Reason: "the carrier is open"}); err != nil {
		s.Fatalf("resume: %v", err)
	}
	s.goesOn(rerun)
	_, err = s.Service.Act(s.ctx(), rerun, admin.Action{Verb: "resume"})
	problem(s, "resume of a rerun that has ended", err, http.StatusConflict, admin.CodeRefused)
}

func resumesManyDelayed(s *Scene) {
	reruns := s.delayed(3, "delayed")
	waiting := s.tagged(1, "wait", "delayed", "waiting")[0]
	request := admin.BulkRequest{Filter: admin.Filter{Tags: map[string]string{"bulk": "delayed"}}, Action: admin.Action{Verb: "resume"}}
	b := s.bulkDone(request)
	if b.Status != admin.BulkCompleted || b.Total != 7 || b.Done != 3 || b.Refused != 4 || b.Failed+b.Skipped+b.Left != 0 {
		s.Fatalf("got %+v, want that the three reruns are resumed, and what failed or waits is refused", b)
	}
	for _, f := range b.Failures {
		if slices.Contains(reruns, f.Run) {
			s.Fatalf("resume of rerun %s is refused: %s", f.Run, f.Detail)
		}
	}
	for _, rerun := range reruns {
		s.goesOn(rerun)
	}
	if r, err := s.Direct.Run(s.ctx(), waiting); err != nil || r.Status != "waiting" {
		s.Errorf("a run that is not delayed: got %+v, %v", r, err)
	}
}
