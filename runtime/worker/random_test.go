package worker_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	attackSeed  = flag.Uint64("attack.seed", 0, "seed of the first random attack; 0: by the clock")
	attackSeeds = flag.Int("attack.seeds", 3, "number of random attacks of each kind")
)

// plan is the input of a run of the random attacks.
type plan struct {
	Steps    int
	Parallel int
	Messages int
	Once     bool // whether the run calls a step that is not idempotent
	Fails    int  // number of attempts that fail before one succeeds
	SleepMS  int
}

// done is the result of a run of the random attacks.
type done struct {
	Sum         int
	Messages    []int
	Interrupted bool
}

var (
	manyRetries = workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond, Max: 3 * time.Millisecond}
	randomStep  = flowtest.AStep[int, int]("random.step", shim.Policy{Retry: manyRetries, Timeout: 4 * time.Millisecond})
	randomWait  = flowtest.AStep[int, int]("random.wait", shim.Policy{Retry: manyRetries})
	randomOnce  = flowtest.AStep[int, int]("random.once", shim.Policy{Retry: manyRetries, NonIdempotent: true})
	randomFull  = flowtest.AStep[int, int]("random.full", shim.Policy{Retry: manyRetries})
	randomFlow  = flowtest.Flow[plan, done]("random.flow")
	fullFlow    = flowtest.Flow[int, int]("random.fullflow")
	randomTopic = workflow.NewTopic[int]("random")
)

func randomCode(ctx workflow.Context, p plan) (done, error) {
	var d done
	for i := range p.Steps {
		n, err := randomStep.Call(ctx, i+100*p.Fails)
		if err != nil {
			return d, err
		}
		d.Sum += n
	}
	if err := workflow.Sleep(ctx, time.Duration(p.SleepMS)*time.Millisecond); err != nil {
		return d, err
	}
	if p.Once {
		n, err := randomOnce.Call(ctx, 1)
		var failed *workflow.StepError
		switch {
		case errors.As(err, &failed) && failed.Code == event.CodeInterrupted:
			d.Interrupted = true
		case err != nil:
			return d, err
		default:
			d.Sum += n
		}
	}
	for len(d.Messages) < p.Messages {
		m, err := randomTopic.Receive(ctx, workflow.Timeout(5*time.Millisecond))
		switch {
		case errors.Is(err, workflow.ErrTimeout):
		case err != nil:
			return d, err
		default:
			d.Messages = append(d.Messages, m)
		}
	}
	all, err := workflow.Map(ctx, make([]int, p.Parallel), randomWait.Call, workflow.Limit(3))
	for _, n := range all {
		d.Sum += n + 1
	}
	return d, err
}

func (p plan) want(got done) done {
	d := done{Interrupted: got.Interrupted && p.Once, Sum: p.Parallel}
	for i := range p.Steps {
		d.Sum += i
	}
	if p.Once && !got.Interrupted {
		d.Sum++
	}
	for i := range p.Messages {
		d.Messages = append(d.Messages, i)
	}
	return d
}

// attack is a test of the engine with random runs, faults and workers, which are derived from a
// seed.
type attack struct {
	*flowtest.World
	seed    uint64
	faults  *faults
	witness *witness
	inside  atomic.Int64 // number of running attempts of randomFull
	full    chan struct{}

	homes      []*workflow.Client // clients of the workers on which runs are started; empty if runs are started elsewhere
	recoveries int                // number of recoveries after which a run is poisoned
	expiry     time.Duration      // expiry of claims
	extra      int                // number of slots for runs in addition to the default
}

func newAttack(t *testing.T, seed uint64) *attack {
	t.Helper()
	mem := memstore.NewWith(memstore.Config{Clock: &impatient{}})
	w := flowtest.NewWorld(t, mem, workflow.ClientConfig{})
	a := &attack{World: w, seed: seed, faults: newFaults(mem, seed), witness: newWitness(mem), full: make(chan struct{}), recoveries: 1000, expiry: 400 * time.Millisecond}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -attack.seed=%d", seed)
		}
	})
	return a
}

const attackSlots = 3

func (a *attack) begin(ctx context.Context) (attempt int) {
	c, _ := step.Current(ctx)
	n := a.witness.begin(c.RunID, c.Key, c.Attempt)
	if strings.Contains(c.Step, "once") && n > 1 {
		a.witness.complain("executed %d times: %s %s", n, c.RunID, c.Key)
	}
	return c.Attempt
}

func (a *attack) bindings() []flowtest.Binding {
	return []flowtest.Binding{
		flowtest.As(randomFlow, randomCode),
		flowtest.As(fullFlow, func(ctx workflow.Context, n int) (int, error) {
			all, err := workflow.Map(ctx, make([]int, n), randomFull.Call)
			return len(all), err
		}),
		randomStep.As(func(ctx context.Context, n int) (int, error) {
			if a.begin(ctx) <= n/100 {
				return 0, errNotYet
			}
			return n % 100, pause(ctx, time.Duration(a.faults.number(5000))*time.Microsecond) // may time out, even at the moment it returns
		}),
		randomWait.As(func(ctx context.Context, n int) (int, error) {
			a.begin(ctx)
			return n, pause(ctx, time.Duration(a.faults.number(2000))*time.Microsecond)
		}),
		randomOnce.As(func(ctx context.Context, n int) (int, error) {
			a.begin(ctx)
			return n, nil
		}),
		randomFull.As(func(ctx context.Context, n int) (int, error) {
			if a.inside.Add(1) == attackSlots {
				close(a.full)
			}
			select {
			case <-a.full:
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}),
	}
}

func (a *attack) worker() *flowtest.Running {
	return a.WorkOn(a.faults.store(), worker.Config{
		Concurrency: attackSlots, Runs: a.extra + 2 + a.faults.number(6), Parked: 1 + a.faults.number(20), Recoveries: a.recoveries,
		Heartbeat: 20 * time.Millisecond, ClaimExpiry: a.expiry, Grace: time.Duration(a.faults.number(10)) * time.Millisecond,
		RunBudget: time.Duration(1+a.faults.number(20)) * time.Millisecond,
	}, a.bindings()...)
}

// usable checks that all slots of a worker are free.
func (a *attack) usable(r *flowtest.Running) {
	a.faults.calm.Store(true)
	run, err := fullFlow.Start(a.Ctx, a.Client, attackSlots)
	if err != nil {
		a.T.Fatal(err)
	}
	if n, err := run.Result(a.Ctx); err != nil || n != attackSlots {
		a.T.Errorf("%d steps at once: got %d, %v, with %d inside", attackSlots, n, err, a.inside.Load())
	}
	r.Stop()
	a.Healthy()
	for _, text := range a.witness.wrong {
		a.T.Error(text)
	}
}

// eachSeed executes a random attack with several seeds.
func eachSeed(t *testing.T, f func(a *attack)) {
	first := *attackSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range *attackSeeds {
		seed := first + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { f(newAttack(t, seed)) })
	}
}

// TestREC1_RunsEndRightAlthoughRequestsAndAnswersAreLost proves that every run ends with the
// correct result, and that no step is executed more often than permitted, although requests and
// answers are lost, repeated and delayed.
func TestREC1_RunsEndRightAlthoughRequestsAndAnswersAreLost(t *testing.T) {
	eachSeed(t, func(a *attack) {
		workers := []*flowtest.Running{a.worker(), a.worker(), a.worker()}
		for _, s := range a.startRuns(40, rand.New(rand.NewPCG(a.seed, 2))) {
			a.verify(s)
		}
		for _, r := range workers[1:] {
			r.Stop()
		}
		a.usable(workers[0])
	})
}

// TestREC1_RunsThatWorkersStartLocallyEndRight proves that locally started runs, which begin in the
// action that creates them, end correctly. Lost requests and answers, ended sessions and stopped
// workers have the same consequences as for claimed runs.
func TestREC1_RunsThatWorkersStartLocallyEndRight(t *testing.T) {
	eachSeed(t, func(a *attack) {
		a.Near, a.extra, a.witness.late = true, 100, true // answers are late with so many runs
		stay := a.worker()
		var all []*sent
		for range 4 {
			r := a.worker()
			a.homes = []*workflow.Client{r.Client, stay.Client}
			for _, s := range a.startRuns(2, rand.New(rand.NewPCG(a.seed, 1))) {
				a.verify(s) // once a run has ended, the worker is executing runs
			}
			all = append(all, a.startRuns(10, rand.New(rand.NewPCG(a.seed, uint64(len(all)))))...)
			r.Stop()
		}
		for _, s := range all {
			a.verify(s)
		}
		if a.created(all) == 0 {
			a.T.Error("no run was handed over: the test proves nothing")
		}
		a.homes = nil
		a.usable(stay)
	})
}

// created returns how many of the runs began in the action that created them.
func (a *attack) created(all []*sent) (n int) {
	for _, s := range all {
		loaded, err := a.Store.Load(a.Ctx, []store.Load{{Run: s.run.ID(), Limit: 1}})
		if err != nil || loaded[0].Err != nil {
			a.T.Fatal(err, loaded[0].Err)
		}
		f, err := event.DecodeFrame(loaded[0].Frames[0])
		if err != nil {
			a.T.Fatal(err)
		}
		if len(f.Events) > 1 {
			n++
		}
	}
	return n
}

// TestF4_RunsThatMoveBetweenWorkersMeetNoConflict proves that no commit is refused for its fence or
// position while the store loses nothing. A run in memory is resumed only if its log has not
// changed.
func TestF4_RunsThatMoveBetweenWorkersMeetNoConflict(t *testing.T) {
	eachSeed(t, func(a *attack) {
		a.faults.calm.Store(true)
		var refused atomic.Int64
		view := a.faults.store()
		view.Answers = func(_ []store.Commit, results []store.Committed) {
			for _, r := range results {
				if r.Err != nil && !errors.Is(r.Err, store.ErrUnread) {
					refused.Add(1)
				}
			}
		}
		cfg := worker.Config{Concurrency: attackSlots, Runs: 4, RunBudget: time.Millisecond, ClaimExpiry: time.Minute}
		first, second := a.WorkOn(view, cfg, a.bindings()...), a.WorkOn(view, cfg, a.bindings()...)
		for _, s := range a.startRuns(30, rand.New(rand.NewPCG(a.seed, 2))) {
			a.verify(s)
		}
		second.Stop()
		a.usable(first)
		if n := refused.Load(); n != 0 {
			a.T.Errorf("%d commits were refused", n)
		}
	})
}

// TestREC4_QuarantinedRunsEndRightAlthoughTheyAreTakenAway proves that runs end correctly although
// sessions end so often that runs are quarantined, wait for turns, are claimed by other workers
// meanwhile, and are set aside.
func TestREC4_QuarantinedRunsEndRightAlthoughTheyAreTakenAway(t *testing.T) {
	eachSeed(t, func(a *attack) {
		a.recoveries = 3
		workers := []*flowtest.Running{a.worker(), a.worker()}
		for _, s := range a.startRuns(30, rand.New(rand.NewPCG(a.seed, 2))) {
			a.verify(s)
		}
		workers[1].Stop()
		a.usable(workers[0])
	})
}

// TestREC7_RunsEndRightAlthoughWorkersComeAndGo proves that all runs end correctly although workers
// start and stop at random times. The last worker finishes the runs.
func TestREC7_RunsEndRightAlthoughWorkersComeAndGo(t *testing.T) {
	eachSeed(t, func(a *attack) {
		var all []*sent
		var coming sync.WaitGroup
		rng := rand.New(rand.NewPCG(a.seed, 2))
		coming.Go(func() {
			for range 12 {
				r := a.worker()
				if pause(a.Ctx, time.Duration(a.faults.number(25))*time.Millisecond) != nil {
					return
				}
				r.Stop()
			}
		})
		all = a.startRuns(30, rng)
		coming.Wait()
		last := a.worker()
		for _, s := range all {
			a.verify(s)
		}
		a.usable(last)
	})
}

// TestREC6_RunsEndRightAlthoughTheClockIsSet proves that runs end correctly although the clock is
// set forward and back while they sleep, retry and time out.
func TestREC6_RunsEndRightAlthoughTheClockIsSet(t *testing.T) {
	eachSeed(t, func(a *attack) {
		clock := a.Store.Clock().(*impatient)
		a.expiry = time.Hour // so long that no claim expires when the clock is set, which the engine would not notice
		workers := []*flowtest.Running{a.worker(), a.worker()}
		stop := make(chan struct{})
		var jumping sync.WaitGroup
		jumping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				clock.jump(time.Duration(a.faults.number(1200)-500) * time.Millisecond)
				if pause(a.Ctx, 5*time.Millisecond) != nil {
					return
				}
			}
		})
		for _, s := range a.startRuns(30, rand.New(rand.NewPCG(a.seed, 2))) {
			a.verify(s)
		}
		close(stop)
		jumping.Wait()
		workers[1].Stop()
		a.usable(workers[0])
	})
}
