package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	noteDown = flowtest.AStep[int, int]("note-down", shim.Policy{})
	// drains receives messages until none is left and then executes a step. It repeats this as
	// often as its input specifies.
	drains = flowtest.Flow[int, int]("drains")
	drain  = drainAnd(func(int) {})
	noted  = noteDown.As(func(_ context.Context, n int) (int, error) { return n, nil })
)

// drainAnd returns the code of drains. The code calls tell with the number of messages received so
// far, including during replay.
func drainAnd(tell func(taken int)) flowtest.Binding {
	return flowtest.As(drains, func(ctx workflow.Context, times int) (taken int, err error) {
		for range times {
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return taken, err
			}
			for more := true; more; taken++ {
				if _, more, err = flowtest.Numbers.TryReceive(ctx); err != nil {
					return taken, err
				}
				tell(taken)
			}
			if _, err := noteDown.Call(ctx, taken); err != nil {
				return taken, err
			}
		}
		return taken, nil
	})
}

func TestFLOW5_ACommitTakesABoundedPartOfTheInbox(t *testing.T) {
	const sent, bound = 2500, 1000
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, drains, 1)
		first := w.Work(worker.Config{}, drain, noted)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		var senders sync.WaitGroup
		for range 4 {
			senders.Go(func() {
				for n := range sent / 4 {
					if err := flowtest.Numbers.Send(w.Ctx, run, n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		senders.Wait()
		w.Work(worker.Config{}, drain, noted)
		flowtest.Result(w, run)
		before, after, unread := 0, 0, 0
		stepped := false
		for _, e := range w.Log(run) {
			switch {
			case e.Type == event.StepStarted:
				stepped = true
			case e.Type == event.MessageReceived && stepped:
				after++
			case e.Type == event.MessageReceived:
				before++
			}
			unread += len(e.Unread)
		}
		if before > bound {
			t.Errorf("the step started after %d messages, want at most %d", before, bound)
		}
		if taken := before; taken+max(after, unread) < sent {
			t.Errorf("%d messages before the step, %d after it and %d never taken: want %d in all", before, after, unread, sent)
		}
	})
}

// TestFLOW5_ARunBeginsGoesOnAndEndsWhileMessagesNeverCease proves that a run whose inbox is never
// empty begins, executes its steps and ends, and that its log contains all accepted messages.
// Senders that are far ahead of the run slow down, so the test does not depend on relative speed.
func TestFLOW5_ARunBeginsGoesOnAndEndsWhileMessagesNeverCease(t *testing.T) {
	const ahead = 2000 // twice the number of items in a commit, so that the inbox stays full
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, drains, 3)
		var senders sync.WaitGroup
		var accepted, received atomic.Int64
		begun := make(chan struct{}, 4)
		for range 4 {
			senders.Go(func() {
				for n := 0; ; n++ {
					err := flowtest.Numbers.Send(w.Ctx, run, n)
					if err != nil {
						if !errors.Is(err, workflow.ErrRunTerminal) {
							t.Errorf("send: %v", err)
						}
						return
					}
					if accepted.Add(1); n == 0 {
						begun <- struct{}{}
					}
					if accepted.Load()-received.Load() > ahead {
						_ = pause(w.Ctx, 10*time.Millisecond) // if the context has ended, the next send returns the error
					}
				}
			})
		}
		for range 4 {
			<-begun
		}
		w.Work(worker.Config{MaxLogEvents: 1 << 30, MaxLogBytes: 1 << 30}, noted,
			drainAnd(func(taken int) { received.Store(int64(taken)) }))
		flowtest.Result(w, run)
		senders.Wait()
		found := map[event.ItemID]bool{}
		for _, e := range w.Log(run) {
			if e.Type == event.MessageReceived {
				found[e.Item] = true
			}
			for _, id := range e.Unread {
				found[id] = true
			}
		}
		if got, want := int64(len(found)), accepted.Load(); got != want {
			t.Errorf("the log names %d messages, %d were accepted", got, want)
		}
	})
}
