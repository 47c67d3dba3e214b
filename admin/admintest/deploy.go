package admintest

import (
	"net/http"
	"slices"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
)

// otherBuild is the build of a worker that the scene pretends to have.
const otherBuild = "other-1"

// builds opens a session of a worker of another build, and returns both builds and a function that
// closes the session.
func (s *Scene) builds() (own string, leave func()) {
	s.Helper()
	session := store.Session{ID: "deploy", Worker: "pretended", TTL: time.Hour, Fingerprint: otherBuild + "@0", Routes: []store.Route{{Queue: "default", Workflow: "nothing"}}}
	if err := s.Client.Store().OpenSession(s.ctx(), session); err != nil {
		s.Fatal(err)
	}
	all, err := s.Service.Deploys(s.ctx())
	if err != nil {
		s.Fatal(err)
	}
	i := slices.IndexFunc(all.Builds, func(d admin.Deploy) bool { return d.Build != otherBuild && d.Claims })
	if i < 0 {
		s.Fatalf("deployments: got %+v, want the build of the worker", all)
	}
	return all.Builds[i].Build, func() {
		if err := s.Client.Store().CloseSession(s.ctx(), 0, "deploy"); err != nil {
			s.Error(err)
		}
	}
}

// deploy returns what the service lists about a build.
func (s *Scene) deploy(build string) admin.Deploy {
	s.Helper()
	all, err := s.Service.Deploys(s.ctx())
	i := slices.IndexFunc(all.Builds, func(d admin.Deploy) bool { return d.Build == build })
	if err != nil || i < 0 {
		s.Fatalf("deployments: got %+v, %v, want build %s", all, err, build)
	}
	return all.Builds[i]
}

func showsDeploys(s *Scene) {
	own, leave := s.builds()
	run := s.Start("wait", "")
	s.Until(run, "waiting")
	got := s.deploy(own)
	if len(got.Workers) == 0 || !got.Claims || got.FirstSeen.IsZero() || got.LastSeen.Before(got.FirstSeen) || got.Started == 0 || got.Needs == 0 {
		s.Errorf("build of the worker: got %+v, want a worker, times, and run %s", got, run)
	}
	if other := s.deploy(otherBuild); len(other.Workers) != 1 || other.Workers[0] != "pretended" || other.Needs != 0 || !other.FirstSeen.IsZero() {
		s.Errorf("other build: got %+v, want one worker and no runs", other)
	}
	d, err := s.Service.Drained(s.ctx(), own)
	if err != nil || d.Build != own || d.Answer != admin.DrainedNo || d.Reason == "" || !d.Claims || d.Needs == 0 || len(d.Runs) == 0 || d.Runs[0].Reason == "" || d.Read == 0 {
		s.Errorf("drained: got %+v, %v, want that runs need the build", d, err)
	}
	leave()
	_, err = s.Service.Drained(s.ctx(), otherBuild)
	problem(s, "a build that is gone without a trace", err, http.StatusNotFound, admin.CodeNotFound)
}

func rampsDeploys(s *Scene) {
	own, leave := s.builds()
	defer leave()
	got, err := s.Service.Ramp(s.ctx(), admin.Ramp{Percent: map[string]int{own: 5, otherBuild: 95}})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "percentages", got, admin.Ramped{Percent: map[string]int{own: 5, otherBuild: 95}})
	done, err := s.Service.ActOnDeploy(s.ctx(), otherBuild, admin.DeployAction{Verb: "retire", To: own})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "retired", done, admin.DeployActed{Build: otherBuild, Verb: "retire", To: own})
	if d := s.deploy(otherBuild); d.Retired.IsZero() || d.To != own || d.Percent != 0 {
		s.Errorf("retired build: got %+v", d)
	}
	if d := s.deploy(own); d.Percent != 100 {
		s.Errorf("build that receives its runs: got %+v, want 100 percent", d)
	}
	if _, err := s.Service.ActOnDeploy(s.ctx(), otherBuild, admin.DeployAction{Verb: "unretire"}); err != nil {
		s.Error(err)
	}
	if got, err = s.Service.Ramp(s.ctx(), admin.Ramp{}); err != nil || len(got.Percent) > 0 {
		s.Errorf("no distribution: got %+v, %v", got, err)
	}
}

func refusesDeploys(s *Scene) {
	own, leave := s.builds()
	defer leave()
	input := func(what string, err error) {
		s.Helper()
		problem(s, what, err, http.StatusBadRequest, admin.CodeInput)
	}
	for what, percent := range map[string]map[string]int{
		"a sum of 99": {own: 50, otherBuild: 49}, "a sum of 101": {own: 50, otherBuild: 51}, "a percentage of 101": {own: 101}, "a negative percentage": {own: -1},
	} {
		_, err := s.Service.Ramp(s.ctx(), admin.Ramp{Percent: percent})
		input(what, err)
	}
	_, err := s.Service.Ramp(s.ctx(), admin.Ramp{Percent: map[string]int{own: 50, "unknown": 50}})
	problem(s, "ramp to an unknown build", err, http.StatusNotFound, admin.CodeNotFound)
	for what, a := range map[string]admin.DeployAction{
		"no such action": {Verb: "explode"}, "to itself": {Verb: "retire", To: own}, "unretire to a build": {Verb: "unretire", To: otherBuild},
	} {
		_, err := s.Service.ActOnDeploy(s.ctx(), own, a)
		input(what, err)
	}
	_, err = s.Service.ActOnDeploy(s.ctx(), "unknown", admin.DeployAction{Verb: "retire"})
	problem(s, "retire an unknown build", err, http.StatusNotFound, admin.CodeNotFound)
	_, err = s.Service.ActOnDeploy(s.ctx(), own, admin.DeployAction{Verb: "retire", To: "unknown"})
	problem(s, "retire to an unknown build", err, http.StatusNotFound, admin.CodeNotFound)
	if d := s.deploy(own); d.Percent != 0 || !d.Retired.IsZero() {
		s.Errorf("after refused requests: got %+v, want no change", d)
	}
}
