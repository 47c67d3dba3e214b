package pins_test

import (
	"context"
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var inFlight = flag.Int("ramped", 100, "number of runs of the test of a ramp")

// ledger knows which build each open run needs: the build whose code has executed it. The code of
// the workflow keeps it, so it is independent of the runtime.
type ledger struct {
	mu    sync.Mutex
	needs map[workflow.RunID]string
	done  map[workflow.RunID]bool
	by    map[string]int // number of executed steps by build
	mixed []workflow.RunID
}

func (l *ledger) executes(run workflow.RunID, build string, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was := l.needs[run]; was != "" && was != build {
		l.mixed = append(l.mixed, run)
	}
	l.needs[run], l.by[build] = build, l.by[build]+1
	if last {
		l.done[run] = true
	}
}

func (l *ledger) needing(build string) (open []workflow.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for run, needs := range l.needs {
		if needs == build && !l.done[run] {
			open = append(open, run)
		}
	}
	return open
}

var ramped = pinnedFlow[int, string]("pins.ramped")

// rampWorker starts a worker whose code matches only the logs of its own build.
func rampWorker(w *flowtest.World, l *ledger, build, name string) *flowtest.Running {
	mark := flowtest.AStep[int, string]("pins.mark-"+build, shim.Policy{})
	code := func(ctx workflow.Context, n int) (string, error) {
		for i := range 3 {
			if _, err := mark.Call(ctx, i); err != nil {
				return "", err
			}
			if i < 2 {
				if err := workflow.Sleep(ctx, time.Duration(300+n%700)*time.Millisecond); err != nil {
					return "", err
				}
			}
		}
		return build, nil
	}
	return w.WorkOn(w.Store, worker.Config{Build: build, Name: name, Heartbeat: time.Second, Parked: 1}, flowtest.MovesEvery(300*time.Millisecond), flowtest.ProbeEvery(300*time.Millisecond),
		flowtest.As(ramped, code),
		mark.As(func(ctx context.Context, i int) (string, error) {
			call, _ := step.Current(ctx)
			l.executes(call.RunID, build, i == 2)
			return build, nil
		}))
}

// The runs of both builds are started while new runs are distributed 0, 5, 50 and 100 percent to
// build b, and then again to build a.
func TestOPS10_ARampAndARollbackBlockNoPinnedRun(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		ramping(w, false)
		if n := w.Logs.Count("run is blocked"); n > 0 {
			t.Errorf("runs were blocked %d times", n)
		}
	})
}

// Build b is retired while its runs are open, and only its code matches their logs.
func TestOPS10_ABuildIsNotDrainedBeforeTheRunsThatNeedItHaveEnded(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) { ramping(w, true) })
}

// ramping ramps build b and rolls it back. If retiring is set, it retires build b at once, otherwise
// after the runs have ended. Meanwhile it polls whether build b is drained.
func ramping(w *flowtest.World, retiring bool) {
	t := w.T
	t.Helper()
	l := &ledger{needs: map[workflow.RunID]string{}, done: map[workflow.RunID]bool{}, by: map[string]int{}}
	var workers []*flowtest.Running
	for i := range 6 {
		workers = append(workers, rampWorker(w, l, []string{"a", "b"}[i%2], []string{"w0", "w1", "w2", "w3", "w4", "w5"}[i]))
	}
	serving(w, ramped, "a", "b")
	client := ops.New(w.Client)
	early, asked, stop := make(chan string, 1), 0, make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() { // polls whether build b is drained
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond): // the workers need the store as well
			}
			before := l.needing("b")
			d, err := client.Drained(w.Ctx, "b")
			if err != nil {
				continue
			}
			asked++
			if d.Answer != ops.DrainedYes {
				continue
			}
			for _, run := range l.needing("b") {
				for _, was := range before {
					if run == was {
						select {
						case early <- string(run):
						default:
						}
					}
				}
			}
		}
	})
	var runs []*workflow.Run[string]
	for _, percent := range []int{0, 5, 50, 100, 0} {
		_, err := client.Ramp(w.Ctx, map[string]int{"a": 100 - percent, "b": percent})
		flowtest.Order(t, err)
		for _, r := range workers { // the clients use the new percentages at once
			_, err := (*flow.Client)(r.Client).Engine().Pins().Read(w.Ctx)
			flowtest.Order(t, err)
		}
		for range *inFlight / 5 {
			run, err := ramped.Start(w.Ctx, workers[len(runs)%6].Client, len(runs))
			flowtest.Order(t, err)
			runs = append(runs, run)
		}
	}
	if retiring {
		flowtest.Order(t, client.Retire(w.Ctx, "b", ""))
	}
	for _, run := range runs {
		flowtest.Result(w, run)
	}
	if !retiring {
		flowtest.Order(t, client.Retire(w.Ctx, "b", ""))
	}
	w.Eventually("build b is drained", func() bool {
		d, err := client.Drained(w.Ctx, "b")
		return err == nil && d.Answer == ops.DrainedYes
	})
	close(stop)
	polling.Wait()
	select {
	case run := <-early:
		t.Errorf("build b was reported as drained while run %s needed it", run)
	default:
	}
	if len(l.mixed) > 0 {
		t.Errorf("%d runs were executed by both builds", len(l.mixed))
	}
	if l.by["a"] == 0 || l.by["b"] == 0 || asked == 0 {
		t.Errorf("executed steps: %v; drained was asked %d times", l.by, asked)
	}
	t.Logf("%d runs, steps by build %v, blocked %d times, drained was asked %d times", len(runs), l.by, w.Logs.Count("run is blocked"), asked)
	w.Healthy()
}
