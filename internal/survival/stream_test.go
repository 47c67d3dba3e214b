package survival

import (
	"context"
	"strconv"
	"testing"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// poured is the number of chunks that an attempt of the step pour writes.
const poured = 300

var (
	drops = workflow.NewStream[int]("drops")
	pour  = declare("survival.pour", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 20}})
	// Pours is a workflow that writes a chunk and then executes the step pour, which writes to the
	// same stream.
	Pours = shim.NewWorkflow[workflow.None, string]("survival.pours", "", shim.WorkflowPolicy{})
)

func registerStreams(w *worker.Worker) {
	pour.Bind(w, func(ctx context.Context) (string, error) {
		for i := range poured {
			if err := step.Write(ctx, drops, i); err != nil {
				return "", err
			}
		}
		if step.Attempt(ctx) < 3 {
			<-ctx.Done() // the test kills the process
		}
		return strconv.Itoa(step.Attempt(ctx)), step.Close(ctx, drops)
	})
	shim.BindWorkflow(w, Pours, func(ctx workflow.Context, _ workflow.None) (string, error) {
		drops.Write(ctx, -1)
		return call(ctx, pour)
	})
}

// TestFLOW8_KilledWritersLeaveWhatTheyWroteAndTheNextAttemptWritesBehindIt proves that chunks of
// killed writers remain and that the next attempt writes behind them. Two workers are killed while
// their step writes. A reader must receive the chunks of each attempt from 0 on without a gap, and
// all chunks of the last attempt.
func TestFLOW8_KilledWritersLeaveWhatTheyWroteAndTheNextAttemptWritesBehindIt(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *site{"sqlite": newSite, "redis": newRedisSite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			run := s.start(Pours)
			victims := []*process{s.worker()}
			kills := []int{20, 150}
			var index uint64
			attempt, next := 0, 0
			for c, err := range drops.Read(s.ctx(), run) {
				switch {
				case err != nil:
					t.Fatal(err)
				case c.Index != index+1:
					t.Fatalf("chunk %d follows chunk %d", c.Index, index)
				case c.Index == 1:
					if c.Value != -1 || c.Step != "" || c.Attempt != 0 {
						t.Fatalf("the first chunk is %+v, want that of the run's code", c)
					}
				case c.Attempt > attempt:
					attempt, next = c.Attempt, 0
					fallthrough
				default:
					if c.Value != next || c.Attempt != attempt || c.Step != "pours/survival.pour#1" || c.Run != run.ID() {
						t.Fatalf("got %+v, want value %d of attempt %d", c, next, attempt)
					}
					next++
				}
				if index = c.Index; len(kills) > 0 && attempt == len(victims) && next == kills[0] {
					kills = kills[1:]
					victims[len(victims)-1].kill()
					victims = append(victims, s.worker())
				}
			}
			if len(kills) > 0 || attempt != 3 || next != poured {
				t.Errorf("%d kills are left, the last attempt was %d and wrote %d chunks, want 0, 3, %d", len(kills), attempt, next, poured)
			}
			s.result(run, "3")
			s.sound()
		})
	}
}
