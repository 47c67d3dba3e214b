package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var versioned = flow[int, []int]("versioned")

// noting notes which steps were executed.
func noting(got *seen[int]) binding {
	return work1.as(func(_ context.Context, n int) (int, error) { got.add(n); return n, nil })
}

func TestVER3_RunsThatAreUnderWayFinishTheOldWay(t *testing.T) {
	oldCode := func(ctx workflow.Context, _ int) ([]int, error) {
		if _, err := work1.Call(ctx, 1); err != nil {
			return nil, err
		}
		if _, err := wake.Receive(ctx); err != nil {
			return nil, err
		}
		n, err := work1.Call(ctx, 2)
		return []int{n}, err
	}
	newCode := func(ctx workflow.Context, _ int) ([]int, error) {
		if workflow.Version(ctx, "check", 1) >= 1 {
			if _, err := work1.Call(ctx, 7); err != nil {
				return nil, err
			}
		}
		if _, err := work1.Call(ctx, 1); err != nil {
			return nil, err
		}
		if _, err := wake.Receive(ctx); err != nil {
			return nil, err
		}
		second := 2
		if workflow.Version(ctx, "second", 3) == 3 { // the run has not come to this place
			second = 3
		}
		n, err := work1.Call(ctx, second)
		return []int{workflow.Version(ctx, "check", 1), n}, err
	}
	onEveryStore(t, func(t *testing.T, w *world) {
		var got seen[int]
		first := w.work(worker.Config{}, noting(&got), as(versioned, oldCode))
		before := start(w, versioned, 0)
		w.reach(before, event.WaitCreated, 1)
		first.stop()
		w.work(worker.Config{}, noting(&got), as(versioned, newCode))
		after := start(w, versioned, 0)
		w.reach(after, event.WaitCreated, 1)
		for _, run := range []*workflow.Run[[]int]{before, after} {
			if err := wake.Send(w.ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{0, 3}, result(w, before)); diff != "" {
			t.Errorf("the run of before the change (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 3}, result(w, after)); diff != "" {
			t.Errorf("the run of after the change (-want +got):\n%s", diff)
		}
		if n := len(filter(w.log(before), event.VersionRecorded)); n != 1 {
			t.Errorf("the old run has recorded %d versions, want that of the place it had not come to", n)
		}
		recorded := filter(w.log(after), event.VersionRecorded)
		if len(recorded) != 2 || recorded[0].Name != "check" || string(recorded[0].Payload) != "1" {
			t.Errorf("the new run has recorded %+v", recorded)
		}
	})
}

func TestVER3_TheFirstCallDecidesAlsoInLoops(t *testing.T) {
	loops := flow[int, []int]("loops")
	code := func(latest int) binding {
		return as(loops, func(ctx workflow.Context, _ int) ([]int, error) {
			var all []int
			for range 3 {
				all = append(all, workflow.Version(ctx, "loop", latest))
				if _, err := wake.Receive(ctx); err != nil {
					return nil, err
				}
			}
			return all, nil
		})
	}
	onEachStore(t, func(t *testing.T, w *world) {
		first := w.work(worker.Config{}, code(1))
		run := start(w, loops, 0)
		w.reach(run, event.WaitCreated, 1)
		if err := wake.Send(w.ctx, run, "1"); err != nil {
			t.Fatal(err)
		}
		w.reach(run, event.WaitCreated, 2)
		first.stop()
		w.work(worker.Config{}, code(2)) // a later change
		for range 2 {
			if err := wake.Send(w.ctx, run, "2"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{1, 1, 1}, result(w, run)); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
		if n := len(filter(w.log(run), event.VersionRecorded)); n != 1 {
			t.Errorf("recorded %d times", n)
		}
	})
}

func TestVER3_ARunOfAVersionThatTheCodeDoesNotHaveIsBlockedAndGoesOn(t *testing.T) {
	tests := map[string]struct{ recorded, min, latest int }{
		"too old":     {1, 2, 2},
		"rolled back": {2, 0, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code := func(oldest, latest int) binding {
				return as(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
					v := workflow.Version(ctx, "change", latest, workflow.AtLeast(oldest))
					_, err := wake.Receive(ctx)
					return []int{v}, err
				})
			}
			w := newMemory(t)
			first := w.work(worker.Config{}, code(0, tt.recorded))
			run := start(w, versioned, 0)
			w.reach(run, event.WaitCreated, 1)
			first.stop()
			second := w.work(worker.Config{}, code(tt.min, tt.latest))
			if err := wake.Send(w.ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			var info workflow.RunInfo
			w.eventually("the run is blocked", func() bool {
				var err error
				info, err = run.Info(w.ctx)
				return err != nil || info.Status == workflow.StatusBlocked
			})
			if !strings.Contains(info.Blocked, `change "change"`) {
				t.Errorf("blocked because of %q", info.Blocked)
			}
			second.stop()
			// Another function: another fingerprint.
			w.work(worker.Config{}, as(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
				v := workflow.Version(ctx, "change", 5)
				_, err := wake.Receive(ctx)
				return []int{v}, err
			}))
			if diff := cmp.Diff([]int{tt.recorded}, result(w, run)); diff != "" {
				t.Errorf("version (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVER3_AVersionOfTheOldWayThatIsGoneBlocks(t *testing.T) {
	w := newMemory(t)
	first := w.work(worker.Config{}, as(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
		return nil, workflow.Sleep(ctx, time.Hour)
	}))
	run := start(w, versioned, 0)
	w.reach(run, event.WaitCreated, 1)
	first.stop()
	w.work(worker.Config{}, as(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
		workflow.Version(ctx, "change", 1, workflow.AtLeast(1))
		return nil, workflow.Sleep(ctx, time.Hour)
	}))
	if err := wake.Send(w.ctx, run, "look"); err != nil {
		t.Fatal(err)
	}
	w.eventually("the run is blocked", func() bool {
		info, err := run.Info(w.ctx)
		return err != nil || strings.Contains(info.Blocked, "version 0 of change")
	})
}

func TestVER3_AMistakenCallFailsTheRunWithTheReason(t *testing.T) {
	mistakes := flow[int, int]("mistakes")
	w := newMemory(t)
	w.work(worker.Config{}, as(mistakes, func(ctx workflow.Context, n int) (int, error) {
		switch n {
		case 0:
			return workflow.Version(ctx, "", 1), nil
		case 1:
			return workflow.Version(ctx, "change", 0), nil
		}
		return workflow.Version(ctx, "change", 1, workflow.AtLeast(2)), nil
	}))
	for n, want := range []string{"the name of the change is empty", "the latest version is 1 or more", "not less than the oldest"} {
		if err := failure(w, start(w, mistakes, n)); !strings.Contains(err.Reason, want) {
			t.Errorf("%d: got %v, want %q", n, err, want)
		}
	}
}
