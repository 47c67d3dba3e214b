package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Branches send to a run that never was. None must wait for another one: they would
// be sent for ever, one after the other.
func TestRelay_MessagesToARunThatNeverWasAreRefusedAll(t *testing.T) {
	const messages, many = 20, 10_000
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			st := &flowtest.Between{Store: open(t)}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			ctx, giveUp := context.WithCancelCause(w.Ctx)
			defer giveUp(nil)
			var requests atomic.Int64
			st.Around = func(_ context.Context, op string, _ any, do func() error) error {
				if op == "deliver" && requests.Add(1) > many {
					giveUp(fmt.Errorf("%d requests for %d messages", many, messages))
					return errors.New("no more")
				}
				return do()
			}
			lonely := flowtest.Flow[workflow.RunID, int]("lonely")
			w.Work(worker.Config{}, flowtest.As(lonely, func(ctx workflow.Context, to workflow.RunID) (int, error) {
				var all []*workflow.Future[workflow.None]
				for n := range messages {
					all = append(all, workflow.GoErr(ctx, func(ctx workflow.Context) error { return flowtest.Numbers.SendFrom(ctx, to, n) }))
				}
				refused := 0
				for _, o := range workflow.Settled(ctx, all...) {
					if !errors.Is(o.Err, workflow.ErrRunNotFound) {
						return refused, fmt.Errorf("got %w, want ErrRunNotFound", o.Err)
					}
					refused++
				}
				return refused, nil
			}))
			got, err := flowtest.Start(w, lonely, event.NewRunID(time.Now(), 3)).Result(ctx)
			if got != messages || err != nil {
				t.Errorf("%d were refused, want %d (%v; %v)", got, messages, err, context.Cause(ctx))
			}
			t.Logf("%d requests", requests.Load())
		})
	}
}
