package survival

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sound fails the test if the store violates an invariant.
func (s *site) sound() {
	s.t.Helper()
	inspector, ok := store.As[store.Inspector](s.st)
	if !ok {
		s.t.Fatal("the store cannot be inspected")
	}
	snap, err := inspector.Inspect(s.ctx())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range fsck.Check(snap) {
		s.t.Errorf("fsck: %+v", f)
	}
}

// log returns the events of a run, each as its number and type.
func (s *site) log(run *workflow.Run[string]) []string {
	s.t.Helper()
	var all []string
	for e, err := range run.Events(s.ctx()) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Seq, " ", e.Type))
	}
	return all
}

func TestREC1_StoppedWorkerWritesNothingIntoRunThatWasTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stalled, run := s.underWay()
	s.stall(stalled)
	successor := s.worker()
	successor.wait("second 2") // begins when the claim of the stalled worker has expired
	s.open()
	s.result(run, "ab2")
	want := s.log(run)

	// The step of the stalled worker succeeds after SIGCONT. The worker tries to record the result,
	// which must have no effect.
	stalled.signal(syscall.SIGCONT)
	stalled.wait("session expired")
	stalled.signal(syscall.SIGTERM)
	if err := stalled.exited(); err != nil {
		t.Errorf("the stalled worker ended with %v", err)
	}
	if diff := cmp.Diff(want, s.log(run)); diff != "" {
		t.Errorf("the stalled worker changed the log (-before +after):\n%s", diff)
	}
	s.sound()
}

func TestREC1_StoppedWorkerGoesOnWithOtherRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stalled, run := s.underWay()
	s.stall(stalled)
	successor := s.worker()
	successor.wait("second 2")
	stalled.signal(syscall.SIGCONT)
	stalled.wait("session expired")
	s.open()
	s.result(run, "ab2")
	successor.signal(syscall.SIGTERM)
	if err := successor.exited(); err != nil {
		t.Fatal(err)
	}
	s.result(s.start(Plain), "a") // the stalled worker is the only one that is running
	s.sound()
}

func TestREC2_KilledWorkersRunIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	victim, run := s.underWay()
	victim.kill()
	s.open()
	successor := s.worker()
	s.result(run, "ab2")
	if strings.Contains(successor.printed(), "first") {
		t.Errorf("the completed step ran again: %q", successor.printed())
	}
	s.sound()
}

func TestREC4_RunThatKillsItsWorkersIsSetAside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start(Bomb)
	deaths := 0
	for ; deaths < 10; deaths++ {
		w := spawn(t, "worker", "SURVIVAL_STORE="+s.url, "SURVIVAL_GATE="+s.gate)
		if s.endsBefore(run, w) {
			break
		}
	}
	if deaths != 5 {
		t.Errorf("the run killed %d workers, want 5", deaths)
	}
	_, err := run.Result(s.ctx())
	var failed *workflow.RunError
	if !errors.As(err, &failed) || failed.Code != "poisoned" || !strings.Contains(failed.Reason, "5 times") {
		t.Errorf("result is %v, want a RunError with code poisoned", err)
	}
	s.result(s.start(Plain), "a") // the last worker is alive
	s.sound()
}

// endsBefore reports whether a run ends before a process does.
func (s *site) endsBefore(run *workflow.Run[string], p *process) bool {
	s.t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := run.Result(s.ctx())
		ended <- err
	}()
	select {
	case <-ended:
		return true
	case <-p.done:
		return false
	}
}

func TestREC7_GracefulStopLetsStepsEndAndHandsRunsOverAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leaving, run := s.underWay()
	leaving.signal(syscall.SIGTERM)
	s.open() // the step ends within the grace period
	if err := leaving.exited(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	s.worker()
	s.result(run, "ab1") // the first attempt has completed the step
	s.sound()
}

func TestREC7_HardStopGivesTheAttemptOfAStepBackThatObeysIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	leaving, run := s.underWay("SURVIVAL_GRACE_MS=100")
	leaving.signal(syscall.SIGTERM)
	leaving.wait("second stopped: worker is stopping")
	if err := leaving.exited(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if all := leaving.printed(); strings.Contains(all, "grace period is over") {
		t.Errorf("a step that returned is said to hang:\n%s", all)
	}
	s.open()
	s.worker()
	s.result(run, "ab2")
	s.sound()
}

func TestRUN2_TwoProcessesStartOneRunPerWorkflowID(t *testing.T) {
	t.Parallel()
	const ids = 1000
	s := newSite(t)
	env := []string{"SURVIVAL_STORE=" + s.url, fmt.Sprintf("SURVIVAL_IDS=%d", ids)}
	total := 0
	starters := []*process{spawn(t, "starter", env...), spawn(t, "starter", env...)}
	for _, p := range starters {
		var n int
		if _, err := fmt.Sscanf(p.wait("created"), "created %d", &n); err != nil {
			t.Fatal(err)
		}
		total += n
		if err := p.exited(); err != nil {
			t.Fatal(err)
		}
	}
	if total != ids {
		t.Errorf("%d starts said that they created a run, want %d", total, ids)
	}
	counts, err := s.c.Count(s.ctx(), workflow.Filter{Internal: true})
	if err != nil || counts.ByStatus()[workflow.StatusPending] != ids || counts.Total() != ids {
		t.Errorf("the store holds %v, %v, want %d pending runs", counts, err, ids)
	}
	s.sound()
}

func TestRUN2_SecondProcessStartingTheSameWorkflowIDFindsTheRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	run := s.start(Two, workflow.WithID("order-1"))
	other, c, err := openClient(s.url) // a second store and client for the same file
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	again, err := Two.Start(s.ctx(), c, workflow.None{}, workflow.WithID("order-1"))
	if err != nil || again.Created() || again.ID() != run.ID() {
		t.Errorf("second start gave %v, %v, want the run %s", again, err, run.ID())
	}
}

func TestVER1_RunWhoseCodeChangedIsBlockedAndCompletesWhenItIsPutBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	old, run := s.underWay()
	old.kill()

	changed := s.worker("SURVIVAL_SWAPPED=1")
	changed.wait("run is blocked")
	info := s.info(run, workflow.StatusBlocked)
	for _, want := range []string{
		"event 3 of its log is step_created survival.first (key two/survival.first#1)",
		"asks for step_created survival.second (key two/survival.second#1)",
		filepath.Join("internal", "survival", "flows_test.go") + ":",
		"Restore the old order of operations",
	} {
		if !strings.Contains(info.Blocked, want) {
			t.Errorf("the reason lacks %q:\n%s", want, info.Blocked)
		}
	}
	// A worker with the same code does not get the blocked run again. It executes other runs.
	s.result(s.start(Plain), "a")
	if n := strings.Count(changed.printed(), `msg="run is blocked"`); n != 1 {
		t.Errorf("the run was tried %d times by the same code, want once", n)
	}
	changed.signal(syscall.SIGTERM)
	_ = changed.exited()

	s.open()
	s.worker()
	s.result(run, "ab2")
	s.sound()
}

// info waits until a run has the status want, and returns its Info.
func (s *site) info(run *workflow.Run[string], want workflow.Status) workflow.RunInfo {
	s.t.Helper()
	for ctx := s.ctx(); ; {
		info, err := run.Info(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Status == want {
			return info
		}
	}
}

func TestVER2_WorkerDoesNotClaimWorkflowsItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stranger := s.start(Two, workflow.WithQueue("elsewhere"))
	s.worker()
	s.result(s.start(Plain), "a")
	info, err := stranger.Info(s.ctx())
	if err != nil || info.Status != workflow.StatusPending || info.Events != 1 {
		t.Errorf("run of a queue that nobody serves is %+v, %v, want pending and untouched", info, err)
	}
}

func TestSTORE1_SecondProcessListsAndFollowsWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t) // this process does not execute runs
	s.worker()
	run := s.start(Two)
	s.until(run, event.StepCompleted)
	found := false
	for info, err := range s.c.List(s.ctx(), workflow.Filter{Statuses: []workflow.Status{workflow.StatusRunning}}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || info.ID == run.ID()
	}
	if !found {
		t.Error("the running run is not listed")
	}
	s.open()
	s.until(run, event.RunCompleted)
}
