package questions_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW16_EachQuestionIsAnsweredOrRefusedWhenItRacesWithTheEnd proves that each question is
// either answered and has an effect, or refused and has none. The test asks while runs end.
func TestFLOW16_EachQuestionIsAnsweredOrRefusedWhenItRacesWithTheEnd(t *testing.T) {
	raceAsks(t, 1500, func(ctx workflow.Context, n int, sum *int) (int, error) {
		if n%4 > 0 {
			if err := workflow.Sleep(ctx, time.Duration(n%4)*time.Millisecond); err != nil {
				return 0, err
			}
		}
		if n%5 == 0 {
			workflow.CloseAsks(ctx)
		}
		return *sum, nil
	})
}

// raceAsks asks questions of runs while the runs end. end ends a run: it gets the run's input and
// the number of additions, and returns the run's result. The test fails unless the log of each run
// contains exactly the answers that its callers have received.
func raceAsks(t *testing.T, interleavings int, end func(ctx workflow.Context, n int, sum *int) (int, error)) {
	t.Helper()
	racing := flowtest.Flow[int, int]("racing-asks")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(racing, func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		flowtest.Add.Handle(ctx, func(int) error { return nil }, func(ctx workflow.Context, k int) (int, error) {
			if k%2 == 0 {
				if err := workflow.Sleep(workflow.Detached(ctx), time.Millisecond); err != nil {
					return 0, err
				}
			}
			sum++
			flowtest.Level.Set(ctx, sum)
			return sum, nil
		})
		return end(ctx, n, &sum)
	}))
	var racers sync.WaitGroup
	var answered, refused atomic.Int64
	for n := range interleavings {
		run := flowtest.Start(w, racing, n)
		var got atomic.Int64
		var askers sync.WaitGroup
		for i := range 1 + n%3 {
			askers.Go(func() {
				_, err := flowtest.Add.Ask(w.Ctx, run, i)
				var no *workflow.RefusedError
				switch {
				case err == nil:
					got.Add(1)
					answered.Add(1)
				case errors.As(err, &no) && no.Ended:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		racers.Go(func() {
			askers.Wait()
			flowtest.Result(w, run)
			log := w.Log(run)
			if n := int64(len(flowtest.Filter(log, event.AskAnswered))); n != got.Load() {
				t.Errorf("run %s has answered %d questions, %d were told", run.ID(), n, got.Load())
			}
		})
		if n%50 == 0 {
			racers.Wait()
		}
	}
	racers.Wait()
	if answered.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d answered, %d refused: the race was none", answered.Load(), refused.Load())
	}
}

// TestFLOW16_NoQuestionIsLostWhenARunContinuesAsNew proves that no question is lost while a run
// continues as new again and again. Four callers ask. Each question is answered and counted once.
func TestFLOW16_NoQuestionIsLostWhenARunContinuesAsNew(t *testing.T) {
	type state struct{ Sum, Round int }
	counter := flowtest.Flow[state, state]("counter")
	stop := workflow.NewTopic[int]("stop")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const askers, each, perRun = 4, 50, 5
		w.Work(worker.Config{}, flowtest.Slowly, flowtest.As(counter, func(ctx workflow.Context, s state) (state, error) {
			answered := 0
			flowtest.Add.Handle(ctx, func(n int) error {
				if n < 0 {
					return &flowtest.LimitError{Limit: 0}
				}
				return nil
			}, func(ctx workflow.Context, n int) (int, error) {
				if n%3 == 0 {
					if _, err := flowtest.Slow.Call(ctx, n); err != nil {
						return 0, err
					}
				} else if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
					return 0, err
				}
				s.Sum++
				answered++
				return s.Sum, nil
			})
			end := stop.Case()
			for {
				won, err := workflow.Select(ctx, end, workflow.After(time.Millisecond))
				switch {
				case err != nil:
					return s, err
				case won == workflow.Case(end):
					return s, nil
				case answered >= perRun:
					workflow.CloseAsks(ctx)
					return s, counter.ContinueAsNew(ctx, state{s.Sum, s.Round + 1})
				}
			}
		}))
		run := flowtest.Start(w, counter, state{})
		var all sync.WaitGroup
		var told sync.Map
		for a := range askers {
			all.Go(func() {
				for i := range each {
					v, err := flowtest.Add.Ask(w.Ctx, run, a*each+i, workflow.IdempotencyKey(fmt.Sprint(a, i)))
					if err != nil {
						t.Errorf("asker %d, question %d: %v", a, i, err)
						return
					}
					if _, twice := told.LoadOrStore(v, true); twice {
						t.Errorf("two were told %d", v)
					}
					if i%10 == 0 {
						if _, err := flowtest.Add.Ask(w.Ctx, run, -1); !errors.As(err, new(*flowtest.LimitError)) {
							t.Errorf("a bad question: got %v", err)
						}
					}
				}
			})
		}
		all.Wait()
		if err := stop.Send(w.Ctx, run, 1); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got.Sum != askers*each || got.Round < 5 {
			t.Errorf("got %+v, want the sum %d after many rounds", got, askers*each)
		}
	})
}
