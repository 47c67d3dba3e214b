package check_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// crime is a violation that a test fabricates, with the expected findings.
type crime struct {
	commit func(s *scene)
	kinds  []check.Kind // expected kinds of violations
	line   string       // expected end of the report
}

const (
	sound    = "runs 10 completed 10 lost 0 repeated-after-commit 0 broken-logs 0"
	oneWrong = "runs 10 completed 9 lost 0 repeated-after-commit 0 broken-logs 0"
	oneLost  = "runs 10 completed 9 lost 1 repeated-after-commit 0 broken-logs 0"
	repeated = "runs 10 completed 10 lost 0 repeated-after-commit 1 broken-logs 0"
	damaged  = "runs 10 completed 9 lost 0 repeated-after-commit 0 broken-logs 1"
)

// stepOfChain is the key of a step of the chain that completes.
const stepOfChain = "chain/flows.echo#1"

var crimes = map[string]crime{
	"a run is gone": {func(s *scene) {
		run := s.runs[aLong]
		delete(s.Snapshot.Runs, run)
		delete(s.Snapshot.LastEnded, "job-6")
		delete(s.Snapshot.Purges, run)
		s.Executions = slices.DeleteFunc(s.Executions, func(x record.Execution) bool { return x.Run == run })
	}, []check.Kind{check.Lost}, oneLost},
	"a run was executed that is gone": {func(s *scene) {
		delete(s.Snapshot.Runs, s.runs[aLong])
		delete(s.Snapshot.LastEnded, "job-6")
		delete(s.Snapshot.Purges, s.runs[aLong])
	}, []check.Kind{check.Lost, check.Unrecorded}, oneLost},
	"a run has not ended": {func(s *scene) {
		r := s.state(aLong)
		r.Frames = r.Frames[:len(r.Frames)-1]
	}, []check.Kind{check.Lost, check.BrokenLog, check.Broken}, "runs 10 completed 9 lost 1 repeated-after-commit 0 broken-logs 1"},
	"a run was started twice": {func(s *scene) { s.Jobs[aLong].Input.ID, s.Jobs[aLong].WorkflowID = 99, "x" },
		[]check.Kind{check.Lost, check.Wrong}, oneLost},
	"a result is wrong": {func(s *scene) {
		s.result(aFan, func(r *flows.Result) { r.Sum++ })
	}, []check.Kind{check.Wrong}, oneWrong},
	"a step was interrupted and the result does not say so": {func(s *scene) {
		s.result(aChain, func(r *flows.Result) { r.Interrupted = true })
		s.Answers[s.runs[aChain]] = flows.Result{Sum: s.Answers[s.runs[aChain]].Sum, Interrupted: true}
	}, []check.Kind{check.Wrong}, oneWrong},
	"somebody was given another result": {func(s *scene) {
		s.Answers[s.runs[aChain]] = flows.Result{Sum: 1}
	}, []check.Kind{check.Wrong}, oneWrong},
	"a run that was canceled has completed": {func(s *scene) { s.Jobs[aLong].Fate = check.IsCanceled }, []check.Kind{check.Wrong}, oneWrong},
	"a run has failed":                      {func(s *scene) { s.Jobs[aDoomed].Fate = check.Completes }, []check.Kind{check.Wrong}, oneWrong},
	"a run has failed for another reason": {func(s *scene) {
		s.rewriteEvents(aDoomed, event.RunFailed, func(e *event.Event) { e.Failure.Code = event.CodePoisoned })
	}, []check.Kind{check.Wrong}, oneWrong},
	"a canceled run has not cleaned up": {func(s *scene) {
		s.rewriteEvents(anEndless, event.StepCreated, func(e *event.Event) { e.Name = strings.ReplaceAll(e.Name, "clean", "add") })
	}, []check.Kind{check.Wrong}, oneWrong},
	"a message is lost": {func(s *scene) {
		s.result(aMail, func(r *flows.Result) { r.Messages = r.Messages[:3] })
	}, []check.Kind{check.Message}, oneWrong},
	"a message came twice": {func(s *scene) {
		s.result(aMail, func(r *flows.Result) { r.Messages = append(r.Messages, r.Messages[3]) })
	}, []check.Kind{check.Message}, oneWrong},
	"messages came out of order": {func(s *scene) {
		s.result(aMail, func(r *flows.Result) { slices.Reverse(r.Messages) })
	}, []check.Kind{check.Message}, oneWrong},

	"a step was executed after its completion": {func(s *scene) {
		s.again(s.execution(aChain, stepOfChain), func(x *record.Execution) { x.Attempt++; x.Began = x.Began.Add(time.Minute) })
	}, []check.Kind{check.Repeated, check.Unrecorded}, repeated},
	"an attempt was executed again after its completion": {func(s *scene) {
		s.again(s.execution(aChain, stepOfChain), func(x *record.Execution) { x.Began = x.Began.Add(time.Minute) })
	}, []check.Kind{check.Repeated, check.Twice}, repeated},
	"an earlier attempt was begun after a later one had completed": {func(s *scene) {
		s.retried().Began = s.Ended[s.runs[aChain]].Add(time.Second)
	}, []check.Kind{check.Repeated}, repeated},
	"an earlier attempt was begun long after its worker woke": {func(s *scene) {
		s.stall()
		s.retried().Began = s.Stalls[0].To.Add(time.Second)
	}, []check.Kind{check.Repeated}, repeated},
	"a stall has caught two attempts": {func(s *scene) {
		s.stall()
		s.retried().Began = s.Stalls[0].To
		s.execution(aLong, "long/flows.grind#1").Began = s.Stalls[0].To
	}, []check.Kind{check.Repeated}, repeated},
	"a stall has caught more attempts than the worker executes goroutines": {func(s *scene) {
		s.stall()
		s.Procs = 2
		s.retried().Began = s.Stalls[0].To
		s.execution(aLong, "long/flows.grind#1").Began = s.Stalls[0].To
		s.execution(aDoomed, "doomed/flows.refuse#1").Began = s.Stalls[0].To
	}, []check.Kind{check.Late}, sound},
	"two of two stalls have caught an attempt": {func(s *scene) {
		s.stall()
		s.Stalls = append(s.Stalls, check.Stall{Worker: "w", From: s.Stalls[0].To.Add(time.Second), To: s.Stalls[0].To.Add(time.Minute)})
		s.retried().Began = s.Stalls[0].To
		s.execution(aLong, "long/flows.grind#1").Began = s.Stalls[1].To
	}, []check.Kind{check.Repeated}, repeated},
	"an attempt was executed twice at a time": {func(s *scene) {
		s.again(s.execution(aChain, stepOfChain), func(*record.Execution) {})
	}, []check.Kind{check.Twice}, sound},
	"a step that is not idempotent was executed twice": {func(s *scene) {
		s.again(s.execution(aChain, "chain/flows.once#1"), func(x *record.Execution) { x.Attempt = 0 })
	}, []check.Kind{check.Twice, check.Unrecorded}, sound},
	"a step was executed after it had failed": {func(s *scene) {
		s.again(s.execution(aDoomed, "doomed/flows.refuse#1"), func(x *record.Execution) { x.Attempt++; x.Began = x.Began.Add(time.Minute) })
	}, []check.Kind{check.Late, check.Unrecorded}, sound},
	"a step of a canceled run was begun after its end": {func(s *scene) {
		s.execution(anEndless, "endless/flows.clean#1").Began = s.Ended[s.runs[anEndless]].Add(time.Second)
	}, []check.Kind{check.Repeated}, repeated},
	"a step was begun that nobody knows": {func(s *scene) {
		s.again(s.execution(aChain, stepOfChain), func(x *record.Execution) { x.Key = "chain/flows.other#1" })
	}, []check.Kind{check.Unrecorded}, sound},
	"a step was executed by somebody else": {func(s *scene) {
		s.execution(aChain, stepOfChain).Worker = "thief"
	}, []check.Kind{check.Unrecorded}, sound},
	"a step has completed that was not executed": {func(s *scene) {
		s.Executions = slices.DeleteFunc(s.Executions, func(x record.Execution) bool { return x.Run == s.runs[aChain] && x.Key == stepOfChain })
	}, []check.Kind{check.Unrecorded}, sound},
	"a step has completed that has not returned": {func(s *scene) {
		s.execution(aChain, stepOfChain).Outcome = record.Unknown
	}, []check.Kind{check.Unrecorded}, sound},

	"a log has a hole": {func(s *scene) {
		r := s.state(aFan)
		r.Frames = slices.Delete(r.Frames, 2, 3)
	}, []check.Kind{check.BrokenLog}, damaged},
	"a log has a frame twice": {func(s *scene) {
		r := s.state(aFan)
		r.Frames = slices.Insert(r.Frames, 2, r.Frames[2])
	}, []check.Kind{check.BrokenLog}, damaged},
	"a log goes on after its end": {func(s *scene) {
		r := s.state(aFan)
		r.Frames = append(r.Frames, r.Frames[2])
	}, []check.Kind{check.BrokenLog}, damaged},
	"a frame is damaged": {func(s *scene) {
		r := s.state(aFan)
		r.Frames[2] = slices.Clone(r.Frames[2])
		r.Frames[2][9] ^= 1
	}, []check.Kind{check.BrokenLog}, damaged},
	"two epochs interleave": {func(s *scene) {
		s.rewrite(aFan, func(n int, f *event.Frame) { f.Epoch += uint64(n % 2) })
		s.state(aFan).Fence.Epoch++
	}, []check.Kind{check.BrokenLog}, damaged},
	"two owners share an epoch": {func(s *scene) {
		s.rewrite(aFan, func(n int, f *event.Frame) { f.Token[0] ^= byte(n) })
	}, []check.Kind{check.BrokenLog}, damaged},
	"a step has completed twice": {func(s *scene) {
		s.rewriteEvents(aDoomed, event.StepFailed, func(e *event.Event) { e.Ref = s.completed(aDoomed) })
	}, []check.Kind{check.BrokenLog}, damaged},

	"two runs of a workflow id are active": {func(s *scene) {
		s.rewriteEvents(replacing, event.RunStarted, func(e *event.Event) { e.Time = e.Time.Add(-time.Hour) })
	}, []check.Kind{check.Overlap}, sound},
	"a run that was replaced goes on": {func(s *scene) {
		s.execution(replaced, "endless/flows.add#1").Began = s.Ended[s.runs[replacing]].Add(time.Second)
	}, []check.Kind{check.Overlap, check.Repeated}, repeated},
	"a workflow id is used twice": {func(s *scene) {
		s.Jobs[replacing].Input.ID = replaced
		s.Jobs = slices.Delete(s.Jobs, replaced, replaced+1)
	},
		[]check.Kind{check.Wrong}, ""},
	"a status is wrong": {func(s *scene) { s.state(aFan).Status = event.StatusFailed }, []check.Kind{check.Broken}, sound},
	"a run is in two places": {func(s *scene) {
		s.Snapshot.Ready = map[store.Route][]event.RunID{s.state(aFan).Route: {s.runs[aFan]}}
	}, []check.Kind{check.Broken}, sound},
}

func TestCheck_FindsEveryViolation(t *testing.T) {
	scene := newScene(t)
	for name, c := range crimes {
		t.Run(name, func(t *testing.T) {
			s := scene.copy(t)
			c.commit(s)
			v := check.Check(s.Evidence)
			var kinds []check.Kind
			for _, f := range v.Violations {
				kinds = append(kinds, f.Kind)
			}
			slices.Sort(kinds)
			want := slices.Sorted(slices.Values(c.kinds))
			if diff := cmp.Diff(want, slices.Compact(kinds)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s%v", diff, v.Violations)
			}
			if c.line != "" && v.String() != c.line {
				t.Errorf("got %q, want %q", v, c.line)
			}
			if v.Sound() {
				t.Error("it is said to be sound")
			}
		})
	}
}

func TestCheck_FindsNothingWhereNothingIs(t *testing.T) {
	s := newScene(t)
	v := check.Check(s.Evidence)
	if !v.Sound() || v.String() != sound || v.Caught != 0 {
		t.Errorf("got %q with %d caught and %v, want %q", v, v.Caught, v.Violations, sound)
	}
	if v.Steps < 20 || v.Executions <= v.Steps {
		t.Errorf("%d steps in %d executions were looked at, want more", v.Steps, v.Executions)
	}
}

// The test proves that a late step is counted but is no violation if a stall excuses it. The worker
// was suspended between its last lease check and the first instruction of the step.
func TestCheck_CountsWhatAStallHasCaught(t *testing.T) {
	s := newScene(t)
	s.stall()
	s.retried().Began = s.Stalls[0].To
	v := check.Check(s.Evidence)
	if !v.Sound() || v.Caught != 1 {
		t.Errorf("%d were caught, and %v found, want 1 and nothing", v.Caught, v.Violations)
	}
	s.execution(aLong, "long/flows.grind#1").Began = s.Stalls[0].To
	s.Procs = 2 // the worker was executing both steps
	v = check.Check(s.Evidence)
	if !v.Sound() || v.Caught != 2 {
		t.Errorf("%d were caught on two processors, and %v found, want 2 and nothing", v.Caught, v.Violations)
	}
}

func TestDump_ShowsTheLogAndTheExecutions(t *testing.T) {
	s := newScene(t)
	var b strings.Builder
	if err := check.Dump(&b, &s.Evidence, s.runs[aChain]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{string(s.runs[aChain]), "frame 1:", "run_created", "step_completed", "w executes attempt 1 of " + stepOfChain, "its end was seen"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &b)
		}
	}
}

// result changes the result in the log of a job's run.
func (s *scene) result(job int, change func(*flows.Result)) {
	s.t.Helper()
	s.rewriteEvents(job, event.RunCompleted, func(e *event.Event) {
		var r flows.Result
		if err := json.Unmarshal(e.Payload, &r); err != nil {
			s.t.Fatal(err)
		}
		change(&r)
		var err error
		if e.Payload, err = json.Marshal(r); err != nil {
			s.t.Fatal(err)
		}
	})
}

// completed returns the event number of a completed step of a job's run.
func (s *scene) completed(job int) (ref uint64) {
	s.rewriteEvents(job, event.StepCompleted, func(e *event.Event) { ref = e.Ref })
	return ref
}

// stall records a suspension of the worker at a time after all its executions.
func (s *scene) stall() {
	from := time.Now().Add(time.Second)
	s.Stalls = []check.Stall{{Worker: "w", From: from, To: from.Add(time.Minute)}}
}
