package flows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var versioned = flowtest.Flow[int, []int]("versioned")

func TestVER3_RunsThatAreUnderWayFinishTheOldWay(t *testing.T) {
	oldCode := func(ctx workflow.Context, _ int) ([]int, error) {
		if _, err := flowtest.Work1.Call(ctx, 1); err != nil {
			return nil, err
		}
		if _, err := flowtest.Wake.Receive(ctx); err != nil {
			return nil, err
		}
		n, err := flowtest.Work1.Call(ctx, 2)
		return []int{n}, err
	}
	newCode := func(ctx workflow.Context, _ int) ([]int, error) {
		if workflow.Version(ctx, "check", 1) >= 1 {
			if _, err := flowtest.Work1.Call(ctx, 7); err != nil {
				return nil, err
			}
		}
		if _, err := flowtest.Work1.Call(ctx, 1); err != nil {
			return nil, err
		}
		if _, err := flowtest.Wake.Receive(ctx); err != nil {
			return nil, err
		}
		second := 2
		if workflow.Version(ctx, "second", 3) == 3 { // the run has not reached this version, so it may get the new value
			second = 3
		}
		n, err := flowtest.Work1.Call(ctx, second)
		return []int{workflow.Version(ctx, "check", 1), n}, err
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var got flowtest.Seen[int]
		first := w.Work(worker.Config{}, flowtest.Noting(&got), flowtest.As(versioned, oldCode))
		before := flowtest.Start(w, versioned, 0)
		w.Reach(before, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, flowtest.Noting(&got), flowtest.As(versioned, newCode))
		after := flowtest.Start(w, versioned, 0)
		w.Reach(after, event.WaitCreated, 1)
		for _, run := range []*workflow.Run[[]int]{before, after} {
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{0, 3}, flowtest.Result(w, before)); diff != "" {
			t.Errorf("the run of before the change (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{1, 3}, flowtest.Result(w, after)); diff != "" {
			t.Errorf("the run of after the change (-want +got):\n%s", diff)
		}
		if n := len(flowtest.Filter(w.Log(before), event.VersionRecorded)); n != 1 {
			t.Errorf("the old run has recorded %d versions, want that of the place it had not come to", n)
		}
		recorded := flowtest.Filter(w.Log(after), event.VersionRecorded)
		if len(recorded) != 2 || recorded[0].Name != "check" || string(recorded[0].Payload) != "1" {
			t.Errorf("the new run has recorded %+v", recorded)
		}
	})
}

func TestVER3_TheFirstCallDecidesAlsoInLoops(t *testing.T) {
	loops := flowtest.Flow[int, []int]("loops")
	code := func(latest int) flowtest.Binding {
		return flowtest.As(loops, func(ctx workflow.Context, _ int) ([]int, error) {
			var all []int
			for range 3 {
				all = append(all, workflow.Version(ctx, "loop", latest))
				if _, err := flowtest.Wake.Receive(ctx); err != nil {
					return nil, err
				}
			}
			return all, nil
		})
	}
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, code(1))
		run := flowtest.Start(w, loops, 0)
		w.Reach(run, event.WaitCreated, 1)
		if err := flowtest.Wake.Send(w.Ctx, run, "1"); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.WaitCreated, 2)
		first.Stop()
		w.Work(worker.Config{}, code(2)) // code of a later version
		for range 2 {
			if err := flowtest.Wake.Send(w.Ctx, run, "2"); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{1, 1, 1}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
		if n := len(flowtest.Filter(w.Log(run), event.VersionRecorded)); n != 1 {
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
			code := func(oldest, latest int) flowtest.Binding {
				return flowtest.As(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
					v := workflow.Version(ctx, "change", latest, workflow.AtLeast(oldest))
					_, err := flowtest.Wake.Receive(ctx)
					return []int{v}, err
				})
			}
			w := flowtest.NewMemory(t)
			first := w.Work(worker.Config{}, code(0, tt.recorded))
			run := flowtest.Start(w, versioned, 0)
			w.Reach(run, event.WaitCreated, 1)
			first.Stop()
			second := w.Work(worker.Config{}, code(tt.min, tt.latest))
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			var info workflow.RunInfo
			w.Eventually("the run is blocked", func() bool {
				var err error
				info, err = run.Info(w.Ctx)
				return err != nil || info.Status == workflow.StatusBlocked
			})
			if !strings.Contains(info.Blocked, `change "change"`) {
				t.Errorf("blocked because of %q", info.Blocked)
			}
			second.Stop()
			// Another function has another fingerprint.
			w.Work(worker.Config{}, flowtest.As(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
				v := workflow.Version(ctx, "change", 5)
				_, err := flowtest.Wake.Receive(ctx)
				return []int{v}, err
			}))
			if diff := cmp.Diff([]int{tt.recorded}, flowtest.Result(w, run)); diff != "" {
				t.Errorf("version (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVER3_AVersionOfTheOldWayThatIsGoneBlocks(t *testing.T) {
	w := flowtest.NewMemory(t)
	first := w.Work(worker.Config{}, flowtest.As(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
		return nil, workflow.Sleep(ctx, time.Hour)
	}))
	run := flowtest.Start(w, versioned, 0)
	w.Reach(run, event.WaitCreated, 1)
	first.Stop()
	w.Work(worker.Config{}, flowtest.As(versioned, func(ctx workflow.Context, _ int) ([]int, error) {
		workflow.Version(ctx, "change", 1, workflow.AtLeast(1))
		return nil, workflow.Sleep(ctx, time.Hour)
	}))
	if err := flowtest.Wake.Send(w.Ctx, run, "look"); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the run is blocked", func() bool {
		info, err := run.Info(w.Ctx)
		return err != nil || strings.Contains(info.Blocked, "version 0 of change")
	})
}

func TestVER3_AMistakenCallFailsTheRunWithTheReason(t *testing.T) {
	mistakes := flowtest.Flow[int, int]("mistakes")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(mistakes, func(ctx workflow.Context, n int) (int, error) {
		switch n {
		case 0:
			return workflow.Version(ctx, "", 1), nil
		case 1:
			return workflow.Version(ctx, "change", 0), nil
		}
		return workflow.Version(ctx, "change", 1, workflow.AtLeast(2)), nil
	}))
	for n, want := range []string{"the name of the change is empty", "the latest version is 1 or more", "not less than the oldest"} {
		if err := flowtest.Failure(w, flowtest.Start(w, mistakes, n)); !strings.Contains(err.Reason, want) {
			t.Errorf("%d: got %v, want %q", n, err, want)
		}
	}
}
