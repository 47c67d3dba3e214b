package runs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// holed is a store that has lost some frames of each log. It returns the other frames.
type holed struct {
	store.Store
	from, to uint64 // first and last lost frame
	loads    int
}

func (s *holed) Unwrap() store.Store { return s.Store }

func (s *holed) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	s.loads++
	answers := make([]store.Loaded, len(loads))
	for i, l := range loads {
		whole := l
		whole.Limit = 0
		got, err := s.Store.Load(ctx, []store.Load{whole})
		if err != nil {
			return nil, err
		}
		a := got[0]
		var left [][]byte
		for j, f := range a.Frames {
			if n := l.After + uint64(j) + 1; n < s.from || n > s.to {
				left = append(left, f)
			}
		}
		if a.Frames = left; l.Limit < 0 {
			a.Frames = nil
		} else if l.Limit > 0 {
			a.Frames = left[:min(l.Limit, len(left))]
		}
		answers[i] = a
	}
	return answers, nil
}

// TestRUN6_AReaderOfALogWithAHoleIsToldSo proves that a reader of a log with a hole gets an error
// that names the run and the first lost frame. Before the error, it gets each event before the hole
// once. It gets no event after the hole.
func TestRUN6_AReaderOfALogWithAHoleIsToldSo(t *testing.T) {
	for _, hole := range []struct{ from, to uint64 }{{1, 1000}, {1, 1}, {2, 2}, {5, 7}, {8, 1000}} {
		t.Run(fmt.Sprintf("frames %d to %d", hole.from, hole.to), func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
				run := flowtest.Start(w, flowtest.Steps, 12)
				flowtest.Result(w, run)
				var whole []uint64
				for _, e := range w.Log(run) {
					whole = append(whole, e.Seq)
				}
				st := &holed{Store: w.Store, from: hole.from, to: hole.to}
				client := flowtest.NewClient(st, workflow.ClientConfig{})
				var got []uint64
				var failed error
				for e, err := range client.Run(run.ID()).Events(w.Ctx) {
					if failed = err; err == nil {
						got = append(got, e.Seq)
					}
				}
				var at *workflow.EventError
				if !errors.As(failed, &at) || !errors.Is(failed, event.ErrCorrupt) || at.Run != run.ID() || at.Frame != hole.from {
					t.Errorf("got error %v, want one that names run %s and frame %d", failed, run.ID(), hole.from)
				}
				if diff := cmp.Diff(whole[:min(len(got), len(whole))], got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("events (-written +delivered):\n%s", diff)
				}
				if len(got) == len(whole) || hole.from > 1 && len(got) == 0 {
					t.Errorf("%d of %d events were delivered, want those before the hole", len(got), len(whole))
				}
				if st.loads > 4 {
					t.Errorf("the store was asked %d times", st.loads)
				}
				if _, err := client.Run(run.ID()).Retry(w.Ctx); !errors.Is(err, event.ErrCorrupt) {
					t.Errorf("retry: got error %v, want %v", err, event.ErrCorrupt)
				}
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
