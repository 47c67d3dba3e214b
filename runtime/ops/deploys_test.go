package ops_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// record changes the record of deployments.
func (y *yard) record(change func(*deploy.State)) {
	y.Helper()
	entries, _ := store.As[store.Entries](y.st)
	_, err := deploy.Update(y.Context(), entries, func(s *deploy.State) error { change(s); return nil })
	y.check(err)
}

// seen records builds, the oldest first.
func (y *yard) seen(builds ...string) {
	y.Helper()
	y.record(func(s *deploy.State) {
		for i, build := range builds {
			b := s.Add(build)
			b.First = y.clock.Now().Add(time.Duration(i) * time.Second)
			b.Last = b.First
		}
	})
}

// executed makes a run wait after the session of a worker of the build has executed it.
func (y *yard) executed(l *storetest.Log, session store.SessionID, build string, effect store.Effect, status event.Status) {
	y.Helper()
	fence := y.claim(0, session, l.Route())
	events := l.Sleep(time.Time{})
	events[0].Build = build
	c := l.Commit(fence, events...)
	c.Effect, c.Status = effect, status
	y.commit(l, c)
}

func TestOPS10_Drained_JudgesEachKindOfRun(t *testing.T) {
	const a, b, c = "a", "b", "c"
	tests := map[string]struct {
		run  func(y *yard, session func(build string, routes ...store.Route) store.SessionID)
		want ops.DrainedAnswer
	}{
		"no run": {func(*yard, func(string, ...store.Route) store.SessionID) {}, ops.DrainedYes},
		"a run that has not begun": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			y.start(0, packing)
		}, ops.DrainedYes},
		"a run that no worker serves": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			y.start(0, invoices)
		}, ops.DrainedUnknown},
		"a run that a worker of the build owns": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			y.start(0, packing)
			y.claim(0, session(b), packing) // a worker that announces no routes has stopped claiming
		}, ops.DrainedNo},
		"a run that the build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), b, store.EffectPark, event.StatusWaiting)
		}, ops.DrainedNo},
		"a sleeping run that the build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), b, store.EffectPark, event.StatusSleeping)
		}, ops.DrainedNo},
		"a run that another live build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), a, store.EffectPark, event.StatusWaiting)
		}, ops.DrainedYes},
		"a run that a dead build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), c, store.EffectPark, event.StatusWaiting)
		}, ops.DrainedUnknown},
		"a run that a retired build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			y.executed(y.start(0, packing), session(c, packing), c, store.EffectPark, event.StatusWaiting)
			y.record(func(s *deploy.State) { s.Build(c).Retired = y.clock.Now() })
		}, ops.DrainedUnknown},
		"a run that a release without builds has executed": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), "", store.EffectPark, event.StatusWaiting)
		}, ops.DrainedUnknown},
		"a blocked run that the build has executed last": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), b, store.EffectBlock, event.StatusBlocked)
		}, ops.DrainedNo},
		"a blocked run of another build": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			y.executed(y.start(0, packing), session(a, packing), a, store.EffectBlock, event.StatusBlocked)
		}, ops.DrainedUnknown},
		"an internal run": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			hooks := store.Route{Queue: "default", Workflow: event.HookRun}
			y.executed(y.start(0, hooks), session(a, hooks), b, store.EffectPark, event.StatusWaiting)
		}, ops.DrainedYes},
		"a run pinned to the build": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			y.start(0, store.Route{Queue: event.PinnedQueue(packing.Queue, b), Workflow: packing.Workflow})
		}, ops.DrainedNo},
		"a run pinned to the build that another one executes": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			pinned := store.Route{Queue: event.PinnedQueue(packing.Queue, b), Workflow: packing.Workflow}
			y.executed(y.start(0, pinned), session(a, packing, pinned), a, store.EffectPark, event.StatusWaiting)
		}, ops.DrainedYes},
		"a worker of the build claims": {func(_ *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			session(b, packing)
		}, ops.DrainedNo},
		"a retired build whose worker still claims": {func(y *yard, session func(string, ...store.Route) store.SessionID) {
			session(a, packing)
			session(b, packing)
			y.record(func(s *deploy.State) { s.Build(b).Retired = y.clock.Now() })
		}, ops.DrainedNo},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.seen(a, b, c)
			tt.run(y, func(build string, routes ...store.Route) store.SessionID {
				return y.session(0, build+"/1", build, routes...)
			})
			d, err := ops.New(y.client).Drained(t.Context(), b)
			if d.Answer != tt.want || err != nil || (d.Reason == "") != (tt.want == ops.DrainedYes) {
				t.Errorf("got %+v, %v, want %s", d, err, tt.want)
			}
		})
	}
}

func TestOPS10_Drained_IsUnknownForABuildThatRecordsNothing(t *testing.T) {
	y := newYard(t)
	s := y.session(0, "a/1", "a", packing)
	y.session(0, "b/1", "b") // a worker of an earlier release that does not claim
	if d, err := ops.New(y.client).Drained(t.Context(), "b"); d.Answer != ops.DrainedYes || err != nil {
		t.Errorf("without runs: %+v, %v, want drained", d, err)
	}
	y.executed(y.start(0, packing), s, "a", store.EffectPark, event.StatusWaiting)
	if d, err := ops.New(y.client).Drained(t.Context(), "b"); d.Answer != ops.DrainedUnknown || err != nil {
		t.Errorf("with a run: %+v, %v, want unknown", d, err)
	}
}

func TestOPS10_Drained_ReadsLogsOfAnyLength(t *testing.T) {
	y := newYard(t)
	y.seen("a", "b")
	s, l := y.session(0, "a/1", "a", packing), y.start(0, packing)
	fence := y.claim(0, s, packing)
	for i := range 450 {
		events := l.Work()
		switch i {
		case 0:
			events[0].Build = "a"
		case 430:
			events[0].Build = "b"
		}
		c := l.Commit(fence, events...)
		c.Status = event.StatusRunning
		y.commit(l, c)
	}
	if d, err := ops.New(y.client).Drained(t.Context(), "b"); d.Needs != 1 || err != nil {
		t.Errorf("got %+v, %v, want one run that needs the build", d, err)
	}
}

// percentages returns the percentages that are not 0.
func (y *yard) percentages() map[string]int {
	y.Helper()
	d, err := ops.New(y.client).Deploys(y.Context())
	y.check(err)
	all := map[string]int{}
	for _, b := range d.Builds {
		if b.Percent > 0 {
			all[b.Build] = b.Percent
		}
	}
	return all
}

func TestOPS10_Ramp_SetsPercentages(t *testing.T) {
	type set = map[string]int
	tests := map[string]struct {
		before, ramp, want set
		fails              string // a part of the error; nothing is changed
	}{
		"the whole set":                       {nil, set{"a": 70, "b": 30}, set{"a": 70, "b": 30}, ""},
		"others get nothing":                  {set{"a": 50, "c": 50}, set{"a": 10, "b": 90}, set{"a": 10, "b": 90}, ""},
		"one build, the other live one":       {nil, set{"b": 5}, set{"a": 95, "b": 5}, ""},
		"one build, others in proportion":     {set{"a": 60, "c": 40}, set{"b": 50}, set{"a": 30, "b": 50, "c": 20}, ""},
		"in whole numbers":                    {set{"a": 50, "c": 50}, set{"b": 5}, set{"a": 48, "b": 5, "c": 47}, ""},
		"everything":                          {set{"a": 95, "b": 5}, set{"b": 100}, set{"b": 100}, ""},
		"back":                                {set{"a": 95, "b": 5}, set{"b": 0}, set{"a": 100}, ""},
		"no distribution":                     {set{"a": 95, "b": 5}, nil, set{}, ""},
		"more than 100":                       {set{"a": 100}, set{"a": 70, "b": 31}, nil, `101" is not 100`},
		"less than 100":                       {set{"a": 100}, set{"a": 70, "b": 20}, nil, `90" is not 100`},
		"one build beyond the range":          {set{"a": 100}, set{"b": 101}, nil, `101" is not from 0 to 100`},
		"a negative percentage":               {set{"a": 100}, set{"a": 110, "b": -10}, nil, "is not from 0 to 100"},
		"an unknown build":                    {set{"a": 100}, set{"a": 50, "x": 50}, nil, `build "x" is unknown: the known builds are c, b, a`},
		"a retired build":                     {set{"a": 100}, set{"a": 50, "c": 50}, nil, `"c" is retired`},
		"the rest of the only one that lives": {nil, set{"a": 40}, set{"a": 40, "b": 60}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.seen("a", "b", "c")
			y.session(0, "a/1", "a", packing)
			y.session(0, "b/1", "b", packing)
			y.record(func(s *deploy.State) {
				for build, n := range tt.before {
					s.Build(build).Percent = n
				}
				if strings.Contains(tt.fails, "retired") {
					s.Build("c").Retired = y.clock.Now()
				}
			})
			got, err := ops.New(y.client).Ramp(t.Context(), tt.ramp)
			want := tt.want
			if tt.fails != "" {
				want = tt.before
			}
			if tt.fails == "" && err != nil || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("got error %v, want %q", err, tt.fails)
			}
			if diff := cmp.Diff(want, y.percentages()); diff != "" || err == nil && !cmp.Equal(got, want) {
				t.Errorf("returned %v (-want +got):\n%s", got, diff)
			}
		})
	}
}

// ramp sets percentages.
func (y *yard) ramp(percent map[string]int) {
	y.Helper()
	_, err := ops.New(y.client).Ramp(y.Context(), percent)
	y.check(err)
}

func TestOPS10_Ramp_RefusesAPartWithoutBuildsForTheRest(t *testing.T) {
	y := newYard(t)
	for _, build := range []string{"a", "b", "c"} {
		y.session(0, build+"/1", build, packing)
	}
	_, err := ops.New(y.client).Ramp(t.Context(), map[string]int{"b": 5})
	if bad, ok := errors.AsType[*store.InvalidError](err); !ok || !strings.Contains(bad.Error(), "the other 95: the live ones are a, c") {
		t.Errorf("got %v, want an *InvalidError that names the other live builds", err)
	}
}

func TestOPS10_Retire_MovesTheShareAndRefusesTheOnlyBuild(t *testing.T) {
	y := newYard(t)
	operator := ops.New(y.client)
	y.seen("a", "b", "gone")
	y.session(0, "a/1", "a", packing)
	refused := func(build, to, part string) {
		t.Helper()
		if err := operator.Retire(t.Context(), build, to); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("retire %s to %q: got %v, want an error with %q", build, to, err, part)
		}
	}
	refused("a", "", "is the only build with live workers")
	refused("a", "b", "has no live workers")
	y.session(0, "b/1", "b", packing)
	refused("a", "a", "cannot receive its own runs")
	refused("a", "x", `build "x" is unknown: the known builds are gone, b, a`)
	refused("x", "", `build "x" is unknown`)

	y.ramp(map[string]int{"a": 80, "b": 20})
	y.check(operator.Retire(t.Context(), "a", "b"))
	y.check(operator.Retire(t.Context(), "gone", "")) // prevents its workers from coming back
	refused("b", "", "is the only build with live workers")
	refused("b", "a", "is retired")
	if diff := cmp.Diff(map[string]int{"b": 100}, y.percentages()); diff != "" {
		t.Errorf("percentages (-want +got):\n%s", diff)
	}
	retired := y.clock.Now()
	y.clock.Advance(time.Second)
	y.check(operator.Retire(t.Context(), "a", ""))
	d, err := operator.Deploys(t.Context())
	y.check(err)
	if a := d.Builds[len(d.Builds)-1]; a.Build != "a" || !a.Retired.Equal(retired) || a.To != "" {
		t.Errorf("got %+v, want build a, retired at %v to any build", a, retired)
	}
	y.check(operator.Unretire(t.Context(), "a"))
	y.ramp(map[string]int{"a": 100})
}

func TestOPS10_Ramp_KeepsTheSumWhenTwoOperatorsChangeIt(t *testing.T) {
	y := newYard(t)
	y.seen("a", "b", "c")
	operator := ops.New(y.client)
	y.ramp(map[string]int{"a": 40, "b": 30, "c": 30})
	var all sync.WaitGroup
	for _, build := range []string{"a", "b", "c"} {
		all.Go(func() {
			for n := range 20 {
				if _, err := operator.Ramp(context.Background(), map[string]int{build: 10 + n}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for n := range maps.Values(y.percentages()) {
		sum += n
	}
	if sum != 100 {
		t.Errorf("got %v, want the sum 100", y.percentages())
	}
}

// After a rollback by the retirement of the build that gets all new runs, a canary at 0 percent must
// not get them because it is the newest build.
func TestOPS10_Retire_GivesAllNewRunsOnlyToANamedBuild(t *testing.T) {
	y := newYard(t)
	operator := ops.New(y.client)
	y.seen("a", "b", "canary")
	y.session(0, "a/1", "a", packing)
	y.session(0, "b/1", "b", packing)
	y.ramp(map[string]int{"b": 100})
	canary := y.session(0, "canary/1", "canary", packing)
	err := operator.Retire(t.Context(), "b", "")
	if state, ok := errors.AsType[*ops.BuildStateError](err); !ok || !strings.Contains(state.Error(), "the live ones are a, canary") || !cmp.Equal(y.percentages(), map[string]int{"b": 100}) {
		t.Errorf("got %v and %v, want a *BuildStateError, and nothing changed", err, y.percentages())
	}
	y.check(y.st.CloseSession(t.Context(), 0, canary))
	y.check(operator.Retire(t.Context(), "b", ""))
	if got := y.percentages(); !cmp.Equal(got, map[string]int{"a": 100}) {
		t.Errorf("with one other live build: got %v, want a", got)
	}
}

// plain is a store without optional capabilities.
type plain struct{ store.Store }

func TestOPS10_Deploys_NeedsAStoreThatKeepsEntries(t *testing.T) {
	st := memstore.New()
	client := workflow.NewClient(plain{st}, workflow.ClientConfig{})
	t.Cleanup(func() { _ = errors.Join(client.Close(), st.Close()) })
	operator := ops.New(client)
	_, listed := operator.Deploys(t.Context())
	_, drained := operator.Drained(t.Context(), "a")
	_, ramped := operator.Ramp(t.Context(), map[string]int{"a": 100})
	for what, err := range map[string]error{
		"list": listed, "drained": drained, "ramp": ramped,
		"retire": operator.Retire(t.Context(), "a", ""), "unretire": operator.Unretire(t.Context(), "a"),
	} {
		if !errors.Is(err, workflow.ErrNotSupported) {
			t.Errorf("%s: got %v, want ErrNotSupported", what, err)
		}
	}
}

// A worker that was suspended, or whose store did not answer, returns with its next heartbeat unless
// its session was recovered before.
func TestOPS10_Drained_IsUnknownWhileAnExpiredSessionMayReturn(t *testing.T) {
	y := newYard(t)
	y.seen("a", "b")
	slow := y.session(0, "b/1", "b", packing)
	answers := func(when string, want ops.DrainedAnswer) {
		t.Helper()
		if d, err := ops.New(y.client).Drained(t.Context(), "b"); d.Answer != want || err != nil {
			t.Errorf("%s: got %+v, %v, want %s", when, d, err, want)
		}
	}
	l := y.start(0, packing)
	y.claim(0, slow, packing)
	y.clock.Advance(2 * time.Minute)
	s := y.session(0, "a/1", "a", packing)
	answers("a run of the expired session", ops.DrainedNo)
	_, err := y.st.Heartbeat(t.Context(), 0, slow)
	y.check(err)
	answers("after the heartbeat", ops.DrainedNo)
	y.check(y.st.CloseSession(t.Context(), 0, slow))
	end := l.Commit(y.claim(0, s, packing), l.End(event.StatusCompleted)...)
	end.Effect, end.Status = store.EffectFinish, event.StatusCompleted
	y.commit(l, end)

	y.session(0, "b/2", "b", packing)
	y.clock.Advance(2 * time.Minute)
	y.session(0, "a/2", "a", packing)
	answers("an expired session without runs", ops.DrainedUnknown)
}

// TestOPS10_Ramp_IgnoresWorkersWithoutWorkflowsOfAProgram uses the routes of the worker of flowctl
// serve, which executes bulk actions, and of a worker that executes only steps.
func TestOPS10_Ramp_IgnoresWorkersWithoutWorkflowsOfAProgram(t *testing.T) {
	y := newYard(t)
	operator := ops.New(y.client)
	y.seen("a", "steps")
	y.session(0, "a/1", "a", packing)
	y.session(0, "steps/1", "steps", store.Route{Queue: "gpu", Workflow: event.StepRun("shop.print")})
	y.session(0, "flowctl/1", "f10c71", store.Route{Queue: "admin", Workflow: event.BulkRun},
		store.Route{Queue: "admin", Workflow: event.ScheduleRun}, store.Route{Queue: "admin", Workflow: event.StepRun("flowgen.bulk.act")})

	d, err := operator.Deploys(t.Context())
	y.check(err)
	var listed []string
	for i := range d.Builds {
		listed = append(listed, d.Builds[i].Build)
	}
	if diff := cmp.Diff([]string{"steps", "a"}, listed); diff != "" {
		t.Errorf("listed builds (-want +got):\n%s", diff)
	}
	for _, to := range []string{"", "steps"} {
		if err := operator.Retire(t.Context(), "a", to); !errors.As(err, new(*ops.BuildStateError)) {
			t.Errorf("retire the only build with workflows to %q: got %v, want a *BuildStateError", to, err)
		}
	}
	y.seen("b")
	y.session(0, "b/1", "b", packing)
	y.ramp(map[string]int{"b": 5})
	if diff := cmp.Diff(map[string]int{"a": 95, "b": 5}, y.percentages()); diff != "" {
		t.Errorf("percentages (-want +got):\n%s", diff)
	}
}
