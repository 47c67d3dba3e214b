package check_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func init() {
	maps.Copy(crimes, map[string]crime{
		"more is under way than a limit has": {func(s *scene) {
			s.Changes = []check.Change{{Limit: flows.Big.Name(), AtOnce: 1, Settled: time.Unix(1, 0)}}
		}, []check.Kind{check.Above}, sound},
		"more is under way beside a run that holds a limit to its end": {func(s *scene) {
			s.twoForBig()
		}, []check.Kind{check.Above}, sound},
		"a step goes on under a fence that becomes void too late": {func(s *scene) {
			x, run := s.twoForBig()
			s.takenAway(run, x.Ended.Add(-time.Second))
		}, []check.Kind{check.Above}, sound},
		"two attempts of a step are under way": {func(s *scene) {
			x := s.retried()
			x.Ended = x.Ended.Add(time.Hour)
		}, []check.Kind{check.Together}, sound},
		"an attempt is under way beside that of a worker that is killed later": {func(s *scene) {
			x := s.retried()
			x.Outcome = record.Unknown
			s.Deaths = map[string]time.Time{"w": x.Ended.Add(time.Hour)}
		}, []check.Kind{check.Together}, sound},
		"a permit is left": {func(s *scene) {
			id := store.LimitID{Name: flows.Small.Name()}
			l := s.Snapshot.Limits[id]
			l.Held++
			s.Snapshot.Limits = map[store.LimitID]store.LimitState{id: l}
		}, []check.Kind{check.Broken}, sound},
	})
}

// twoForBig extends a step that uses Big, and a run that holds Big until its end, by an hour after
// all other executions. The capacity of Big allows only one of them. twoForBig returns the
// execution and the run of the step.
func (s *scene) twoForBig() (*record.Execution, event.RunID) {
	s.t.Helper()
	x, held := s.returned(aCrowd, "takeBig"), s.returned(aHoarder, "hoarder")
	later := time.Now().Add(time.Minute)
	begun := time.Unix(1, 0)
	s.Changes = []check.Change{
		{Limit: flows.Big.Name(), AtOnce: 100, Asked: begun, Settled: begun}, // These times enclose the original executions.
		{Limit: flows.Big.Name(), AtOnce: 2, Asked: later, Settled: later},
	}
	x.Ended, held.Ended = later.Add(time.Hour), later.Add(time.Hour)
	for id, r := range s.Snapshot.Runs {
		f, err := event.DecodeFrame(r.Frames[0])
		if err != nil {
			s.t.Fatal(err)
		}
		if spec := f.Events[0].Spec; spec.Parent == x.Run && spec.ParentKey == x.Key {
			return x, id
		}
	}
	s.t.Fatalf("no run has executed %s", x.Key)
	return nil, ""
}

// returned returns a successful execution of the step with the given key in a job's run.
func (s *scene) returned(job int, key string) *record.Execution {
	s.t.Helper()
	i := slices.IndexFunc(s.Executions, func(x record.Execution) bool {
		return x.Run == s.runs[job] && strings.Contains(x.Key, key) && x.Outcome == record.Done
	})
	if i < 0 {
		s.t.Fatalf("no step %s has returned", key)
	}
	return &s.Executions[i]
}

// takenAway records that another worker claimed a run at the given time.
func (s *scene) takenAway(run event.RunID, at time.Time) {
	s.t.Helper()
	s.Snapshot.Audit = append(slices.Clone(s.Snapshot.Audit), store.AuditEntry{
		Time: at, Run: run, Reason: store.ReasonExpiredClaim, Epoch: s.Snapshot.Runs[run].Fence.Epoch,
	})
}

// The test proves that an attempt under a void fence does not count as a use of a limit. A worker
// that was suspended for longer than its claims last continues its work when it resumes, while
// others hold its permits.
func TestCheck_WhatHasLostItsFenceHasNoPermits(t *testing.T) {
	s := newScene(t)
	x, run := s.twoForBig()
	s.takenAway(run, x.Began.Add(time.Millisecond))
	v := check.Check(s.Evidence)
	if !v.Sound() || v.Void != 1 || v.VoidAwake != 1 {
		t.Errorf("got %v and %d of %d void attempts of workers that were awake, want nothing, and 1 of 1", v.Violations, v.VoidAwake, v.Void)
	}
	s.Stalls = []check.Stall{{Worker: x.Worker, From: x.Began, To: x.Ended}}
	if v := check.Check(s.Evidence); v.Void != 1 || v.VoidAwake != 0 {
		t.Errorf("%d of %d void attempts are of workers that were awake, want 0 of 1", v.VoidAwake, v.Void)
	}
	big := v.Limits[slices.IndexFunc(v.Limits, func(l check.Limit) bool { return l.Name == flows.Big.Name() })]
	if big.Most < 2 || big.Beside < 4 || big.Attempts == 0 || big.Whole != 1 || big.Changes != 2 {
		t.Errorf("%+v, want 4 beside each other at some time, and twice 2 of them with permits", big)
	}
}

// The test proves that use may continue after a capacity is lowered. The lower capacity applies
// after the store has reported that the held permits fit it.
func TestCheck_ALoweredCapacityHoldsFromWhenNoMoreIsHeld(t *testing.T) {
	s := newScene(t)
	for settled, sound := range map[time.Time]bool{{}: true, time.Now().Add(time.Hour): true, time.Unix(1, 0): false} {
		s.Changes = []check.Change{{Limit: flows.Big.Name(), AtOnce: 1, Settled: settled}, {Limit: flows.Small.Name(), AtOnce: 4, Settled: time.Unix(1, 0)}}
		if v := check.Check(s.Evidence); v.Sound() != sound {
			t.Errorf("settled at %v: sound %t, want %t", settled, v.Sound(), sound)
		}
	}
}
