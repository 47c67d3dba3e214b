package codecs_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// counting counts how often the user data of each field are sealed and opened.
type counting struct {
	*codec.Codec
	mu     sync.Mutex
	sealed map[string]int
	opened map[string]int
}

func (c *counting) count(in *map[string]int, at codec.Place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *in == nil {
		*in = map[string]int{}
	}
	event, field, _ := strings.Cut(at.Field, "/")
	(*in)[event+field[strings.LastIndexByte(field, '/'):]]++
}

func (c *counting) AppendSeal(ctx context.Context, b []byte, at codec.Place, plain []byte) ([]byte, error) {
	c.count(&c.sealed, at)
	return c.Codec.AppendSeal(ctx, b, at, plain)
}

func (c *counting) Open(ctx context.Context, at codec.Place, stored []byte) ([]byte, error) {
	c.count(&c.opened, at)
	return c.Codec.Open(ctx, at, stored)
}

// TestOPS5_AStepInMemoryIsSealedOnceAndNeverOpened proves that a worker seals the input and the result
// of a step once, and that it does not open what it has sealed while the run stays in memory. It opens
// only the input of the run, which it claims.
func TestOPS5_AStepInMemoryIsSealedOnceAndNeverOpened(t *testing.T) {
	const steps = 5
	chain := flowtest.Flow[string, string]("chain")
	link := flowtest.AStep[string, string]("link", shim.Policy{})
	flowtest.OnEveryStore(t, func(t *testing.T, reader *flowtest.World) {
		c, _ := flowtest.WithKeys(t, "k1")
		counts := &counting{Codec: c}
		w := reader.With(counts)
		w.Work(worker.Config{}, link.As(func(_ context.Context, s string) (string, error) { return s + "x", nil }),
			flowtest.As(chain, func(ctx workflow.Context, s string) (_ string, err error) {
				for i := 0; i < steps && err == nil; i++ {
					s, err = link.Call(ctx, s+strconv.Itoa(i))
				}
				return s, err
			}))
		run := flowtest.Start(w, chain, "input")
		flowtest.Result(reader, chain.Get(reader.Client, run.ID()))
		w.StopWorkers()
		sealed := map[string]int{"run_created/payload": 1, "step_created/payload": steps, "step_completed/payload": steps, "run_completed/payload": 1}
		if diff := cmp.Diff(sealed, counts.sealed); diff != "" {
			t.Errorf("sealed fields (-want +got):\n%s", diff)
		}
		opened := map[string]int{"run_created/payload": 1}
		if diff := cmp.Diff(opened, counts.opened); diff != "" {
			t.Errorf("opened fields (-want +got):\n%s", diff)
		}
	})
}
