package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// spoilt is a store that damages the outbox records of one run: either reading or marking them
// fails.
type spoilt struct {
	store.Store
	unreadable bool

	mu    sync.Mutex
	run   event.RunID
	reads atomic.Int64
	calls atomic.Int64 // number of failed requests to mark a record
}

func (s *spoilt) Unwrap() store.Store { return s.Store }

func (s *spoilt) bad(run event.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run == s.run
}

// Commit removes the sent records from the answers. So the relay must read the damaged records from
// the outbox, like the relay of another worker.
func (s *spoilt) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := s.Store.Commit(ctx, commits)
	for i := range answers {
		answers[i].Sent = nil
	}
	return answers, err
}

func (s *spoilt) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	records, next, err := s.Store.Outbox(ctx, partition, limit)
	for i := range records {
		if s.unreadable && s.bad(records[i].From) {
			s.reads.Add(1)
			records[i].Body = []byte("\xff spoilt")
		}
	}
	return records, next, err
}

func (s *spoilt) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	for _, m := range marks {
		if !s.unreadable && s.bad(m.From) {
			s.calls.Add(1)
			return errors.New("the key of the record is of another kind")
		}
	}
	return s.Store.Mark(ctx, partition, marks)
}

// TestREC10_ADamagedRecordOfTheOutboxKeepsNoOther proves that a damaged outbox record is held
// alone. It causes only a few log lines and does not delay records of other runs.
func TestREC10_ADamagedRecordOfTheOutboxKeepsNoOther(t *testing.T) {
	parents := flowtest.Flow[int, int]("parents")
	for _, unreadable := range []bool{true, false} {
		name := "it cannot be moved on"
		if unreadable {
			name = "it cannot be read"
		}
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				st := &spoilt{Store: w.Store, unreadable: unreadable}
				bad := flowtest.Start(w, parents, 4)
				st.run = bad.ID()
				w.WorkOn(st, worker.Config{}, flowtest.As(parents, flowtest.AttackOnce.Child), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(twice))
				w.Eventually("the damaged record is met", func() bool { return st.reads.Load()+st.calls.Load() > 0 })
				var all []*workflow.Run[int]
				for range 20 {
					all = append(all, flowtest.Start(w, parents, 4))
				}
				for _, run := range all {
					if got := flowtest.Result(w, run); got != 8 {
						t.Errorf("result: got %d, want 8", got)
					}
				}
				if n := strings.Count(w.Logs.String(), "set aside"); n == 0 || n > 10 {
					t.Errorf("the damage is told of %d times, want a few lines", n)
				}
				for range 20 { // the damaged record stays held while other records are delivered
					flowtest.Result(w, flowtest.Start(w, parents, 4))
				}
				if n := strings.Count(w.Logs.String(), "set aside"); n > 12 {
					t.Errorf("the damage is told of %d times, want a few lines", n)
				}
			})
		})
	}
}
