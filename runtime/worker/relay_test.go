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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRelay_MessagesToARunThatNeverWasAreRefusedAll proves that all messages to a run that never
// existed are refused. If one message caused another to be sent again, the messages would be sent
// forever.
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

// outboxReads is a store that counts the relay's reads of the outbox.
type outboxReads struct {
	store.Store
	reads, deliveries atomic.Int64
}

func (s *outboxReads) Unwrap() store.Store { return s.Store }

func (s *outboxReads) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	s.reads.Add(1)
	return s.Store.Outbox(ctx, partition, limit)
}

func (s *outboxReads) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	s.deliveries.Add(1)
	return s.Store.Deliver(ctx, d)
}

// TestREC5_WhatRunsSendIsDeliveredWithoutReadingTheOutbox proves that records in the answers to
// commits are delivered without a read of the outbox. A run starts children one after the other,
// and each child notifies the run of its end.
func TestREC5_WhatRunsSendIsDeliveredWithoutReadingTheOutbox(t *testing.T) {
	const children = 30
	parents := flowtest.Flow[int, int]("delivers")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		st := &outboxReads{Store: w.Store}
		w.WorkOn(st, worker.Config{}, flowtest.Double, flowtest.As(parents, func(ctx workflow.Context, n int) (sum int, err error) {
			for range n {
				one, err := flowtest.Doubles.Child(ctx, 1)
				if err != nil {
					return 0, err
				}
				sum += one
			}
			return sum, nil
		}))
		for _, n := range []int{1, children} { // in the first iteration the relay starts and reads the records of others
			st.reads.Store(0)
			st.deliveries.Store(0)
			if got := flowtest.Result(w, flowtest.Start(w, parents, n)); got != 2*n {
				t.Errorf("got %d, want %d", got, 2*n)
			}
		}
		if reads, deliveries := st.reads.Load(), st.deliveries.Load(); deliveries < children || reads > children/3 {
			t.Errorf("%d deliveries of what %d children have sent, and the outbox was read %d times, want hardly ever", deliveries, children, reads)
		}
	})
}
