package flows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW11_AFailureOrCancelUndoesInReverseOrder(t *testing.T) {
	tests := map[string]struct {
		end    string
		status workflow.Status
		undone []int
	}{
		"failure":   {"badly", workflow.StatusFailed, []int{2, 1, 0}},
		"panic":     {"panic", workflow.StatusFailed, []int{2, 1, 0}},
		"cancel":    {"wait", workflow.StatusCanceled, []int{2, 1, 0}},
		"withdrawn": {"withdraw", workflow.StatusFailed, []int{2, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
				var undone flowtest.Seen[int]
				w.Work(worker.Config{}, append(flowtest.Office(&undone, nil), flowtest.As(flowtest.Trips, flowtest.Travel))...)
				run := flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 3, End: tt.end})
				if tt.end == "wait" {
					w.Reach(run, event.WaitCreated, 1)
					if err := run.Cancel(w.Ctx, "rain"); err != nil {
						t.Fatal(err)
					}
				}
				err := flowtest.Failure(w, run)
				var want []string
				for _, n := range tt.undone {
					want = append(want, fmt.Sprintf("trips/undo#%d: test.unbook", n+1))
				}
				if diff := cmp.Diff(want, err.Undone); diff != "" || err.Status != tt.status || len(err.NotUndone) > 0 {
					t.Errorf("%v, undone (-want +got):\n%s", err, diff)
				}
				if diff := cmp.Diff(tt.undone, undone.Get()); diff != "" {
					t.Errorf("executed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFLOW11_ARunThatCompletesOrContinuesUndoesNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	var undone flowtest.Seen[int]
	w.Work(worker.Config{}, append(flowtest.Office(&undone, nil), flowtest.As(flowtest.Trips, flowtest.Travel))...)
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 3, End: "well"})); got != 3 {
		t.Errorf("got %d", got)
	}
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 2, End: "continue"})); got != 0 {
		t.Errorf("got %d", got)
	}
	if got := undone.Get(); len(got) > 0 {
		t.Errorf("undone: %v", got)
	}
}

func TestFLOW11_AnUndoHasItsOwnRetriesAndItsFailureIsReported(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var undone, tries flowtest.Seen[int]
		fails := func(n int) error {
			tries.Add(n)
			first := len(slices.DeleteFunc(tries.Get(), func(m int) bool { return m != n })) == 1
			if n == 1 || n == 2 && first {
				return flowtest.ErrBusy
			}
			return nil
		}
		w.Work(worker.Config{}, append(flowtest.Office(&undone, fails), flowtest.As(flowtest.Trips, flowtest.Travel))...)
		err := flowtest.Failure(w, flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 3, End: "badly"}))
		if diff := cmp.Diff([]int{2, 0}, undone.Get()); diff != "" {
			t.Errorf("undone (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2, 2, 1, 1, 1, 1, 0}, tries.Get()); diff != "" {
			t.Errorf("tried (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"trips/undo#3: test.unbook", "trips/undo#1: test.unbook"}, err.Undone); diff != "" {
			t.Errorf("reported as undone (-want +got):\n%s", diff)
		}
		if len(err.NotUndone) != 1 || !flowtest.ContainsAll(err.NotUndone[0], "trips/undo#2: test.unbook: ", "after 4 attempts", flowtest.ErrBusy.Error()) {
			t.Errorf("reported as not undone: %q", err.NotUndone)
		}
		if err.Reason != "no seat" || !flowtest.ContainsAll(err.Error(), "not undone", "undo#2") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestFLOW11_KilledAnywhereEachUndoRunsAndNoneTwice proves that a run whose worker dies after any
// event executes each compensation exactly once. It cuts the log of a run after each event and
// continues from there.
func TestFLOW11_KilledAnywhereEachUndoRunsAndNoneTwice(t *testing.T) {
	for _, end := range []string{"badly", "panic", "wait"} {
		t.Run(end, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			var undone flowtest.Seen[int]
			first := w.Work(worker.Config{}, append(flowtest.Office(&undone, nil), flowtest.As(flowtest.Trips, flowtest.Travel))...)
			run := flowtest.Start(w, flowtest.Trips, flowtest.Trip{Things: 3, End: end})
			if end == "wait" {
				w.Reach(run, event.WaitCreated, 1)
				if err := run.Cancel(w.Ctx, "rain"); err != nil {
					t.Fatal(err)
				}
			}
			want := flowtest.Failure(w, run)
			log := w.Log(run)
			first.Stop()
			from := slices.IndexFunc(log, func(e event.Event) bool { return e.Name == "test.unbook" })
			for cut := from; cut < len(log); cut++ {
				var again flowtest.Seen[int]
				second := w.Work(worker.Config{}, append(flowtest.Office(&again, nil), flowtest.As(flowtest.Trips, flowtest.Travel))...)
				got := flowtest.Failure(w, flowtest.AfterCrash(w, flowtest.Trips, log[:cut]))
				if diff := cmp.Diff(want.Undone, got.Undone); diff != "" || got.Status != want.Status || got.Code != want.Code {
					t.Errorf("cut behind event %d: %v, undone (-want +got):\n%s", cut, got, diff)
				}
				left := []int{2, 1, 0}[len(flowtest.Filter(log[:cut], event.StepCompleted))-3:]
				if diff := cmp.Diff(left, again.Get(), cmp.Transformer("empty", func(s []int) []int { return append([]int{}, s...) })); diff != "" {
					t.Errorf("cut behind event %d: executed (-want +got):\n%s", cut, diff)
				}
				second.Stop()
			}
		})
	}
}

func TestFLOW11_WhatABranchStillBooksIsUndoneToo(t *testing.T) {
	w := flowtest.NewMemory(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var undone flowtest.Seen[int]
	w.Work(worker.Config{}, flowtest.As(flowtest.Trips, func(ctx workflow.Context, _ flowtest.Trip) (int, error) {
		late := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			n, err := flowtest.Book.Call(ctx, 1)
			if err == nil {
				workflow.Compensate(ctx, flowtest.Undoing(n))
			}
			return n, err
		})
		_ = late
		if _, err := flowtest.Book.Call(ctx, 0); err != nil {
			return 0, err
		}
		workflow.Compensate(ctx, flowtest.Undoing(0))
		return 0, errors.New("no seat")
	}), flowtest.Unbook.As(func(_ context.Context, n int) (int, error) { undone.Add(n); return n, nil }),
		flowtest.Book.As(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				close(begun)
				<-ctx.Done() // the step is canceled, but succeeds after the release
				<-release
			} else {
				<-begun
			}
			return n, nil
		}))
	run := flowtest.Start(w, flowtest.Trips, flowtest.Trip{})
	w.Reach(run, event.StepCompleted, 1)
	close(release)
	err := flowtest.Failure(w, run)
	if diff := cmp.Diff([]int{1, 0}, undone.Get()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"trips/go#1/undo#1: test.unbook", "trips/undo#1: test.unbook"}, err.Undone); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestFLOW11_PanicsOfBranchesAndOfUndosKeepNobodyFromBeingUndone(t *testing.T) {
	w := flowtest.NewMemory(t)
	var undone flowtest.Seen[int]
	w.Work(worker.Config{}, append(flowtest.Office(&undone, nil), flowtest.As(flowtest.Trips, func(ctx workflow.Context, _ flowtest.Trip) (int, error) {
		workflow.Compensate(ctx, flowtest.Undoing(0))
		workflow.Compensate(ctx, func(workflow.Context) error { panic("first") })
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := workflow.Go(ctx, func(workflow.Context) (int, error) { panic("second") }).Get(ctx)
			return err
		})
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			workflow.Compensate(ctx, flowtest.Undoing(7))
			return nil
		})
		dead := workflow.Go(ctx, func(workflow.Context) (int, error) { panic("of a branch") })
		return dead.Get(ctx) // the panic must end this wait
	}))...)
	err := flowtest.Failure(w, flowtest.Start(w, flowtest.Trips, flowtest.Trip{}))
	if diff := cmp.Diff([]int{0}, undone.Get()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if err.Code != event.CodePanic || !flowtest.ContainsAll(err.Reason, "of a branch") || len(err.NotUndone) != 3 ||
		!flowtest.ContainsAll(err.NotUndone[0], "Compensate was called by a compensation") ||
		!flowtest.ContainsAll(err.NotUndone[1], "second") || !flowtest.ContainsAll(err.NotUndone[2], "first") {
		t.Errorf("got %v", err)
	}
}

func TestFLOW11_TheParentLearnsWhatItsChildHasUndone(t *testing.T) {
	parents := flowtest.Flow[int, []string]("parents")
	w := flowtest.NewMemory(t)
	var undone flowtest.Seen[int]
	w.Work(worker.Config{}, append(flowtest.Office(&undone, func(n int) error {
		if n == 0 {
			return flowtest.ErrBusy
		}
		return nil
	}), flowtest.As(flowtest.Trips, flowtest.Travel), flowtest.As(parents, func(ctx workflow.Context, _ int) ([]string, error) {
		_, err := flowtest.Trips.Child(ctx, flowtest.Trip{Things: 2, End: "badly"})
		var child *workflow.RunError
		if !errors.As(err, &child) || len(child.Undone) != 1 || len(child.NotUndone) != 1 {
			return nil, fmt.Errorf("the child's error is %w", err)
		}
		return append(child.Undone, child.NotUndone[0][:len("trips/undo#1")]), nil
	}))...)
	if diff := cmp.Diff([]string{"trips/undo#2: test.unbook", "trips/undo#1"}, flowtest.Result(w, flowtest.Start(w, parents, 0))); diff != "" {
		t.Errorf("undone and not undone (-want +got):\n%s", diff)
	}
}

// TestFLOW11_WhatTheEndSaysOfManyUndosIsBounded proves that the end event of a run has a bounded
// size. A run may register thousands of compensations that fail.
func TestFLOW11_WhatTheEndSaysOfManyUndosIsBounded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const many = 300
		books := flowtest.Flow[int, int]("books")
		w.Work(worker.Config{}, flowtest.As(books, func(ctx workflow.Context, _ int) (int, error) {
			for n := range many {
				workflow.Compensate(ctx, func(workflow.Context) error { return fmt.Errorf("%d %s", n, strings.Repeat("x", 2000)) })
			}
			return 0, errors.New("no seat")
		}))
		err := flowtest.Failure(w, flowtest.Start(w, books, 0))
		told, bytes := err.NotUndone, len(strings.Join(err.NotUndone, ""))
		if len(told) < 2 || bytes > 66<<10 {
			t.Fatalf("the end says %d bytes of %d compensations", bytes, len(told))
		}
		if want := fmt.Sprintf("… and %d more", many-len(told)+1); told[len(told)-1] != want {
			t.Errorf("it ends with %q, want %q", told[len(told)-1], want)
		}
		if !flowtest.ContainsAll(told[0], "undo#300", ": 299 x") {
			t.Errorf("it begins with %.100q, want the newest", told[0])
		}
	})
}
