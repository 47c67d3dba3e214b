package deploys_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	counts = flowtest.Flow[string, int]("counts")
	words  = workflow.NewTopic[string]("words")
)

// count receives words until one of them is "end". It executes no step.
func count(ctx workflow.Context, _ string) (int, error) {
	for n := 0; ; n++ {
		word, err := words.Receive(ctx)
		if err != nil || word == "end" {
			return n, err
		}
	}
}

// sleepFirst is other code of the same workflow, which the logs of count do not fit.
func sleepFirst(ctx workflow.Context, in string) (int, error) {
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return 0, err
	}
	return count(ctx, in)
}

// build starts a worker of a build.
func build(w *flowtest.World, id string, code func(workflow.Context, string) (int, error)) *flowtest.Running {
	return w.Work(worker.Config{Build: id, Name: "worker-" + id}, flowtest.As(counts, code))
}

// send sends a word to a run and waits until the run has received it.
func send(w *flowtest.World, run *workflow.Run[int], word string, n int) {
	w.T.Helper()
	flowtest.Order(w.T, words.Send(w.Ctx, run, word))
	w.Reach(run, event.MessageReceived, n)
	w.ReachWaiting(run)
}

func drained(w *flowtest.World, build string) ops.Drained {
	w.T.Helper()
	d, err := ops.New(w.Client).Drained(w.Ctx, build)
	flowtest.Order(w.T, err)
	return d
}

func answer(w *flowtest.World, build string, want ops.DrainedAnswer) {
	w.T.Helper()
	if d := drained(w, build); d.Answer != want {
		w.T.Errorf("build %s: got %+v, want %s", build, d, want)
	}
}

func TestOPS10_Drained_FollowsTheBuildThatHasExecutedARunLast(t *testing.T) {
	flowtest.OnEveryStore(t, follow)
	flowtest.OnVirtualTimeOnCluster(t, 3, follow)
}

// follow executes a run with three builds, one after the other, and checks which build needs it.
func follow(t *testing.T, w *flowtest.World) {
	a := build(w, "a", count)
	run := flowtest.Start(w, counts, "")
	send(w, run, "one", 1)
	if d := drained(w, "a"); d.Answer != ops.DrainedNo || !d.Claims || d.Workers != 1 || d.Needs != 1 {
		t.Errorf("while its worker lives: %+v, want one worker and one run", d)
	}
	a.Stop()
	want := []ops.NeedingRun{{Run: run.ID(), Workflow: "test.counts", Queue: "default", Status: workflow.StatusWaiting, Reason: "the build has executed it last"}}
	if d := drained(w, "a"); d.Answer != ops.DrainedNo || d.Claims || !cmp.Equal(d.Runs, want) {
		t.Errorf("without a worker: %+v, want %+v", d, want)
	}

	b := build(w, "b", count)
	w.Eventually("a worker of build b", func() bool { return len(deploys(w)["b"].Workers) == 1 })
	answer(w, "a", ops.DrainedNo) // b has not executed the run, and its code may not fit
	send(w, run, "two", 2)        // b executes no step
	answer(w, "a", ops.DrainedYes)
	answer(w, "b", ops.DrainedNo)
	b.Stop()
	if d := drained(w, "b"); d.Needs != 1 {
		t.Errorf("build b has executed the run last: %+v, want one run", d)
	}

	build(w, "c", count)
	send(w, run, "end", 3)
	if got := flowtest.Result(w, run); got != 2 {
		t.Errorf("got %d words, want 2", got)
	}
	answer(w, "b", ops.DrainedYes)
}

// deploys returns the builds by their IDs.
func deploys(w *flowtest.World) map[string]ops.Deploy {
	w.T.Helper()
	all, err := ops.New(w.Client).Deploys(w.Ctx)
	flowtest.Order(w.T, err)
	byID := map[string]ops.Deploy{}
	for _, d := range all.Builds {
		byID[d.Build] = d
	}
	return byID
}

func TestOPS10_Deploys_ListsBuildsWithTheirRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		began := w.Store.Clock().Now().Add(-time.Second)
		a := build(w, "a", count)
		first, second := flowtest.Start(w, counts, ""), flowtest.Start(w, counts, "")
		send(w, first, "one", 1)
		send(w, second, "one", 1)
		a.Stop()
		build(w, "b", sleepFirst)
		third := flowtest.Start(w, counts, "")
		send(w, third, "one", 1)
		flowtest.Order(t, words.Send(w.Ctx, first, "two"))
		w.Blocked(first)

		got := deploys(w)
		da, db := got["a"], got["b"]
		if len(got) != 2 || da.First.Before(began) || da.Last.Before(da.First) || db.Last.Before(db.First) || len(da.Blocked) != 1 {
			t.Fatalf("got %+v, want two builds with times, and a blocked run", got)
		}
		if reason := da.Blocked[0].Reason; reason == "" {
			t.Error("the reason of the blocked run is missing")
		}
		da.First, da.Last, db.First, db.Last, da.Blocked[0].Reason = time.Time{}, time.Time{}, time.Time{}, time.Time{}, ""
		want := map[string]ops.Deploy{
			"a": {Build: "a", Started: 2, Needs: 2, BlockedRuns: 1, Blocked: []ops.BlockedRun{{Run: first.ID(), Workflow: "test.counts", Queue: "default"}}},
			"b": {Build: "b", Workers: []string{"worker-b"}, Claims: true, Started: 1, Needs: 1},
		}
		if diff := cmp.Diff(want, map[string]ops.Deploy{"a": da, "b": db}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestOPS10_Drained_ReportsAnUnknownBuildWithTheKnownOnes(t *testing.T) {
	w := flowtest.NewMemory(t)
	build(w, "a", count)
	w.Eventually("build a", func() bool { return len(deploys(w)["a"].Workers) == 1 })
	_, err := ops.New(w.Client).Drained(w.Ctx, "x")
	unknown, ok := errors.AsType[*ops.UnknownBuildError](err)
	if !ok || unknown.Build != "x" || !cmp.Equal(unknown.Known, []string{"a"}) {
		t.Errorf("got %v, want an *UnknownBuildError that names build a", err)
	}
}
