package questions_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW6_NoAcceptedPayloadIsLostWhenItRacesWithTheEndOfTheHook proves that a run has received
// each accepted payload, or its last event lists the payload as unread. The test sends payloads
// while hooks are closed and runs end.
func TestFLOW6_NoAcceptedPayloadIsLostWhenItRacesWithTheEndOfTheHook(t *testing.T) {
	racing := flowtest.Flow[int, int]("racing-hook")
	const interleavings = 1500
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(racing, func(ctx workflow.Context, n int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		flowtest.Token.Set(ctx, hook.Token())
		got := 0
		for range 1 + n%2 {
			if _, err := hook.Receive(ctx, workflow.Timeout(2*time.Millisecond)); err == nil {
				got++
			} else if !errors.Is(err, workflow.ErrTimeout) {
				return got, err
			}
		}
		if n%3 > 0 {
			hook.Dispose(ctx)
		}
		if n%4 > 1 {
			err = workflow.Sleep(ctx, time.Millisecond)
		}
		return got, err
	}))
	var racers sync.WaitGroup
	var unread, refused atomic.Int64
	for n := range interleavings {
		run := flowtest.Start(w, racing, n)
		racers.Go(func() {
			tok := w.TokenOf(run)
			var accepted atomic.Int64
			var senders sync.WaitGroup
			for i := range 2 + n%3 {
				senders.Go(func() {
					switch err := flowtest.Paid.Send(w.Ctx, w.Client, tok, i); {
					case err == nil:
						accepted.Add(1)
					case errors.Is(err, workflow.ErrHookDisposed):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			senders.Wait()
			got := flowtest.Result(w, run)
			log := w.Log(run)
			last := log[len(log)-1]
			unread.Add(int64(len(last.Unread)))
			if want := int(accepted.Load()); got+len(last.Unread) != want {
				t.Errorf("run %d: %d payloads were accepted, %d received, %d are listed as unread", n, want, got, len(last.Unread))
			}
		})
		if n%50 == 0 {
			racers.Wait()
		}
	}
	racers.Wait()
	if unread.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d unread, %d refused: the race was none", unread.Load(), refused.Load())
	}
}
