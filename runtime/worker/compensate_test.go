package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// trip books n things, each with its undo, and then ends as it is told.
type trip struct {
	Things int    `json:"things"`
	End    string `json:"end"`
}

var (
	trips  = flow[trip, int]("trips")
	book   = aStep[int, int]("book", shim.Policy{Retry: quick})
	unbook = aStep[int, int]("unbook", shim.Policy{Retry: quick})
)

func undoing(n int) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		_, err := unbook.Call(ctx, n)
		return err
	}
}

func travel(ctx workflow.Context, t trip) (int, error) {
	for n := range t.Things {
		if _, err := book.Call(ctx, n); err != nil {
			return 0, err
		}
		withdraw := workflow.Compensate(ctx, undoing(n))
		if t.End == "withdraw" && n == 1 {
			withdraw()
			withdraw()
		}
	}
	switch t.End {
	case "wait":
		return 0, workflow.Sleep(ctx, time.Hour)
	case "panic":
		panic("lost the tickets")
	case "continue":
		return 0, trips.ContinueAsNew(ctx, trip{End: "well"})
	case "well":
		return t.Things, nil
	}
	return 0, errors.New("no seat")
}

// office executes the steps of trips and notes what was undone.
func office(undone *seen[int], fails func(n int) error) []binding {
	return []binding{
		book.as(func(_ context.Context, n int) (int, error) { return n, nil }),
		unbook.as(func(_ context.Context, n int) (int, error) {
			if fails != nil {
				if err := fails(n); err != nil {
					return 0, err
				}
			}
			undone.add(n)
			return n, nil
		}),
	}
}

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
			onEachStore(t, func(t *testing.T, w *world) {
				var undone seen[int]
				w.work(worker.Config{}, append(office(&undone, nil), as(trips, travel))...)
				run := start(w, trips, trip{3, tt.end})
				if tt.end == "wait" {
					w.reach(run, event.WaitCreated, 1)
					if err := run.Cancel(w.ctx, "rain"); err != nil {
						t.Fatal(err)
					}
				}
				err := failure(w, run)
				var want []string
				for _, n := range tt.undone {
					want = append(want, fmt.Sprintf("trips/undo#%d: test.unbook", n+1))
				}
				if diff := cmp.Diff(want, err.Undone); diff != "" || err.Status != tt.status || len(err.NotUndone) > 0 {
					t.Errorf("%v, undone (-want +got):\n%s", err, diff)
				}
				if diff := cmp.Diff(tt.undone, undone.get()); diff != "" {
					t.Errorf("executed (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestFLOW11_ARunThatCompletesOrContinuesUndoesNothing(t *testing.T) {
	w := newMemory(t)
	var undone seen[int]
	w.work(worker.Config{}, append(office(&undone, nil), as(trips, travel))...)
	if got := result(w, start(w, trips, trip{3, "well"})); got != 3 {
		t.Errorf("got %d", got)
	}
	if got := result(w, start(w, trips, trip{2, "continue"})); got != 0 {
		t.Errorf("got %d", got)
	}
	if got := undone.get(); len(got) > 0 {
		t.Errorf("undone: %v", got)
	}
}

func TestFLOW11_AnUndoHasItsOwnRetriesAndItsFailureIsReported(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		var undone, tries seen[int]
		fails := func(n int) error {
			tries.add(n)
			first := len(slices.DeleteFunc(tries.get(), func(m int) bool { return m != n })) == 1
			if n == 1 || n == 2 && first {
				return errBusy
			}
			return nil
		}
		w.work(worker.Config{}, append(office(&undone, fails), as(trips, travel))...)
		err := failure(w, start(w, trips, trip{3, "badly"}))
		if diff := cmp.Diff([]int{2, 0}, undone.get()); diff != "" {
			t.Errorf("undone (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2, 2, 1, 1, 1, 1, 0}, tries.get()); diff != "" {
			t.Errorf("tried (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"trips/undo#3: test.unbook", "trips/undo#1: test.unbook"}, err.Undone); diff != "" {
			t.Errorf("reported as undone (-want +got):\n%s", diff)
		}
		if len(err.NotUndone) != 1 || !containsAll(err.NotUndone[0], "trips/undo#2: test.unbook: ", "after 4 attempts", errBusy.Error()) {
			t.Errorf("reported as not undone: %q", err.NotUndone)
		}
		if err.Reason != "no seat" || !containsAll(err.Error(), "not undone", "undo#2") {
			t.Errorf("the error is %v", err)
		}
	})
}

// The log of a whole trip is cut behind each of its events.
func TestFLOW11_KilledAnywhereEachUndoRunsAndNoneTwice(t *testing.T) {
	for _, end := range []string{"badly", "panic", "wait"} {
		t.Run(end, func(t *testing.T) {
			w := newMemory(t)
			var undone seen[int]
			first := w.work(worker.Config{}, append(office(&undone, nil), as(trips, travel))...)
			run := start(w, trips, trip{3, end})
			if end == "wait" {
				w.reach(run, event.WaitCreated, 1)
				if err := run.Cancel(w.ctx, "rain"); err != nil {
					t.Fatal(err)
				}
			}
			want := failure(w, run)
			log := w.log(run)
			first.stop()
			from := slices.IndexFunc(log, func(e event.Event) bool { return e.Name == "test.unbook" })
			for cut := from; cut < len(log); cut++ {
				var again seen[int]
				second := w.work(worker.Config{}, append(office(&again, nil), as(trips, travel))...)
				got := failure(w, afterCrash(w, trips, log[:cut]))
				if diff := cmp.Diff(want.Undone, got.Undone); diff != "" || got.Status != want.Status || got.Code != want.Code {
					t.Errorf("cut behind event %d: %v, undone (-want +got):\n%s", cut, got, diff)
				}
				left := []int{2, 1, 0}[len(filter(log[:cut], event.StepCompleted))-3:]
				if diff := cmp.Diff(left, again.get(), cmp.Transformer("empty", func(s []int) []int { return append([]int{}, s...) })); diff != "" {
					t.Errorf("cut behind event %d: executed (-want +got):\n%s", cut, diff)
				}
				second.stop()
			}
		})
	}
}

func TestFLOW11_WhatABranchStillBooksIsUndoneToo(t *testing.T) {
	w := newMemory(t)
	begun, release := make(chan struct{}), make(chan struct{})
	var undone seen[int]
	w.work(worker.Config{}, as(trips, func(ctx workflow.Context, _ trip) (int, error) {
		late := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			n, err := book.Call(ctx, 1)
			if err == nil {
				workflow.Compensate(ctx, undoing(n))
			}
			return n, err
		})
		_ = late
		if _, err := book.Call(ctx, 0); err != nil {
			return 0, err
		}
		workflow.Compensate(ctx, undoing(0))
		return 0, errors.New("no seat")
	}), unbook.as(func(_ context.Context, n int) (int, error) { undone.add(n); return n, nil }),
		book.as(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				close(begun)
				<-ctx.Done() // it was asked to stop, and succeeds all the same
				<-release
			} else {
				<-begun
			}
			return n, nil
		}))
	run := start(w, trips, trip{})
	w.reach(run, event.StepCompleted, 1)
	close(release)
	err := failure(w, run)
	if diff := cmp.Diff([]int{1, 0}, undone.get()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"trips/go#1/undo#1: test.unbook", "trips/undo#1: test.unbook"}, err.Undone); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestFLOW11_PanicsOfBranchesAndOfUndosKeepNobodyFromBeingUndone(t *testing.T) {
	w := newMemory(t)
	var undone seen[int]
	w.work(worker.Config{}, append(office(&undone, nil), as(trips, func(ctx workflow.Context, _ trip) (int, error) {
		workflow.Compensate(ctx, undoing(0))
		workflow.Compensate(ctx, func(workflow.Context) error { panic("first") })
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			_, err := workflow.Go(ctx, func(workflow.Context) (int, error) { panic("second") }).Get(ctx)
			return err
		})
		workflow.Compensate(ctx, func(ctx workflow.Context) error {
			workflow.Compensate(ctx, undoing(7))
			return nil
		})
		dead := workflow.Go(ctx, func(workflow.Context) (int, error) { panic("of a branch") })
		return dead.Get(ctx) // which would never come
	}))...)
	err := failure(w, start(w, trips, trip{}))
	if diff := cmp.Diff([]int{0}, undone.get()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
	if err.Code != event.CodePanic || !containsAll(err.Reason, "of a branch") || len(err.NotUndone) != 3 ||
		!containsAll(err.NotUndone[0], "Compensate was called by what undoes") ||
		!containsAll(err.NotUndone[1], "second") || !containsAll(err.NotUndone[2], "first") {
		t.Errorf("got %v", err)
	}
}

func TestFLOW11_TheParentLearnsWhatItsChildHasUndone(t *testing.T) {
	parents := flow[int, []string]("parents")
	w := newMemory(t)
	var undone seen[int]
	w.work(worker.Config{}, append(office(&undone, func(n int) error {
		if n == 0 {
			return errBusy
		}
		return nil
	}), as(trips, travel), as(parents, func(ctx workflow.Context, _ int) ([]string, error) {
		_, err := trips.Child(ctx, trip{2, "badly"})
		var child *workflow.RunError
		if !errors.As(err, &child) || len(child.Undone) != 1 || len(child.NotUndone) != 1 {
			return nil, fmt.Errorf("the child's error is %w", err)
		}
		return append(child.Undone, child.NotUndone[0][:len("trips/undo#1")]), nil
	}))...)
	if diff := cmp.Diff([]string{"trips/undo#2: test.unbook", "trips/undo#1"}, result(w, start(w, parents, 0))); diff != "" {
		t.Errorf("undone and not undone (-want +got):\n%s", diff)
	}
}

// A run may register thousands, and its end is one event.
func TestFLOW11_WhatTheEndSaysOfManyUndosIsBounded(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		const many = 300
		books := flow[int, int]("books")
		w.work(worker.Config{}, as(books, func(ctx workflow.Context, _ int) (int, error) {
			for n := range many {
				workflow.Compensate(ctx, func(workflow.Context) error { return fmt.Errorf("%d %s", n, strings.Repeat("x", 2000)) })
			}
			return 0, errors.New("no seat")
		}))
		err := failure(w, start(w, books, 0))
		told, bytes := err.NotUndone, len(strings.Join(err.NotUndone, ""))
		if len(told) < 2 || bytes > 66<<10 {
			t.Fatalf("the end says %d bytes of %d compensations", bytes, len(told))
		}
		if want := fmt.Sprintf("… and %d more", many-len(told)+1); told[len(told)-1] != want {
			t.Errorf("it ends with %q, want %q", told[len(told)-1], want)
		}
		if !containsAll(told[0], "undo#300", ": 299 x") {
			t.Errorf("it begins with %.100q, want the newest", told[0])
		}
	})
}
