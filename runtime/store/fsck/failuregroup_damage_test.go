package fsck_test

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const group = "f1-0a"

// inFailureGroup returns a case that damages failure groups. It adds a failed and an open run to
// the groups and calls do.
func inFailureGroup(do func(s *state, failed, goesOn *store.RunState), want ...int) damage {
	return damage{want, func(s *state) {
		failed, goesOn := s.Runs[s.sender], s.Runs[s.parked]
		failed.Group, goesOn.Group = group, group
		s.FailureGroups = map[string]store.FailureGroupState{}
		s.AddFailureGroup(store.FailureGroupInfo{FailureGroup: store.FailureGroup{Group: group}}, []event.RunID{failed.Run, goesOn.Run})
		s.AddFailing([]event.RunID{failed.Run, goesOn.Run})
		do(s, failed, goesOn)
	}}
}

var failureGroupDamage = map[string]damage{
	"23 all is well":                      inFailureGroup(func(*state, *store.RunState, *store.RunState) {}),
	"23 a group has lost a run":           inFailureGroup(func(s *state, f, _ *store.RunState) { s.regroup(group, f.Run) }, 23),
	"23 a group is lost":                  inFailureGroup(func(s *state, _, _ *store.RunState) { s.FailureGroups = nil }, 23),
	"23 a run is in two groups":           inFailureGroup(func(s *state, f, _ *store.RunState) { s.regroup("f1-0b", f.Run) }, 23),
	"23 a run does not say that it is in": inFailureGroup(func(_ *state, f, _ *store.RunState) { f.Group = "" }, 23),
	"23 a run is not among all":           inFailureGroup(func(s *state, f, _ *store.RunState) { s.Failing = []event.RunID{f.Run} }, 23),
	"23 a run is twice among all":         inFailureGroup(func(s *state, f, _ *store.RunState) { s.AddFailing([]event.RunID{f.Run}) }, 23),
	"23 another run is among all":         inFailureGroup(func(s *state, _, _ *store.RunState) { s.AddFailing([]event.RunID{s.ready}) }, 23),
	"23 a deleted run is in a group": inFailureGroup(func(s *state, f, _ *store.RunState) {
		f.Hidden = true
		delete(s.Purges, f.Run) // another reason still holds back the purge
	}, 23),
	"23 a completed run is in a group": inFailureGroup(func(s *state, _, _ *store.RunState) {
		r := s.Runs[s.ended]
		r.Group = group
		s.regroup(group, append(s.FailureGroups[group].Runs, r.Run)...)
		s.AddFailing([]event.RunID{r.Run})
	}, 23),
	"23 a run does not say that it was tried again": inFailureGroup(func(s *state, f, _ *store.RunState) { s.retry(f) }, 23),
	"23 a run that was tried again is in a group":   inFailureGroup(func(s *state, f, _ *store.RunState) { f.Rerun = s.retry(f) }, 23),
	"23 a run that was tried again says so": inFailureGroup(func(s *state, f, o *store.RunState) {
		f.Group, f.Rerun = "", s.retry(f)
		s.regroup(group, o.Run)
		s.Failing = []event.RunID{o.Run}
	}),
	"23 a run that was forked before it failed": inFailureGroup(func(s *state, f, _ *store.RunState) {
		s.Runs[s.retry(f)].CreatedAt = f.EndedAt.Add(-time.Second)
	}),
	"16 a group has a run that does not exist": inFailureGroup(func(s *state, _, _ *store.RunState) {
		s.regroup(group, append(s.FailureGroups[group].Runs, "wrun_x")...)
	}, 16),
	"16 a run that does not exist is in trouble": inFailureGroup(func(s *state, _, _ *store.RunState) { s.AddFailing([]event.RunID{"wrun_x"}) }, 16),
}

// retry adds a rerun of a run.
func (s *state) retry(old *store.RunState) event.RunID {
	l, r := s.add(store.StateReady, event.Spec{RerunOf: old.Run})
	r.CreatedAt = old.EndedAt.Add(time.Second)
	s.Ready[route] = append(s.Ready[route], l.Run)
	return l.Run
}

// regroup replaces the runs of a group.
func (s *state) regroup(id string, runs ...event.RunID) {
	delete(s.FailureGroups, id)
	s.AddFailureGroup(store.FailureGroupInfo{FailureGroup: store.FailureGroup{Group: id}}, runs)
}
