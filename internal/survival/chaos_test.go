package survival

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestChaos; 0: another one each time")
	chaosRuns = flag.Int("chaos.runs", 120, "number of runs of TestChaos")
)

// Chain runs steps in sequence and in branches, sleeps, and receives a message for each of them.
var Chain = shim.NewWorkflow[int, int]("survival.chain", "n", shim.WorkflowPolicy{})

var chainTopic = workflow.NewTopic[int]("add")

type addArgs struct {
	N int `json:"n"`
}

var add = shim.NewStep("survival.add", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond}},
	func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a addArgs) (int, error) { return f(ctx, a.N) })
	})

const chainMessages = 3

func chain(ctx workflow.Context, n int) (int, error) {
	total := 0
	call := func(ctx workflow.Context, n int) (int, error) { return shim.Call[int](ctx, add, addArgs{n}) }
	for range chainMessages {
		got, err := call(ctx, n)
		if err != nil {
			return 0, err
		}
		total += got
		if err := workflow.Sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		more, err := chainTopic.Receive(ctx)
		if err != nil {
			return 0, err
		}
		parts, err := workflow.Map(ctx, []int{more, more, more}, call, workflow.Limit(2))
		if err != nil {
			return 0, err
		}
		for _, p := range parts {
			total += p
		}
	}
	return total, nil
}

func chainResult(n int) int { return chainMessages * (n + 3) }

// registerChain binds the chain. Each execution of a step appends a line with the run, the key and
// the attempt to a file.
func registerChain(w *worker.Worker, record string) {
	add.Bind(w, func(ctx context.Context, n int) (int, error) {
		call, _ := step.Current(ctx)
		f, err := os.OpenFile(record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		defer func() { _ = f.Close() }()
		_, err = fmt.Fprintf(f, "%s %s %d\n", call.RunID, call.Key, call.Attempt)
		return n, err
	})
	shim.BindWorkflow(w, Chain, chain)
	shim.BindWorkflow(w, Pair, pair)
}

// Workers are killed, stopped for longer than their claims last, and stopped gracefully at random,
// while runs execute and messages arrive. In the end every run has its result, and no step was
// executed after its completion.
func TestChaos_RunsSurviveWorkersThatAreKilledAndStalled(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { chaos(t, newSite(t), 8**chaosRuns, 150*time.Millisecond) })
	// On Redis the death of a worker is detected only when its claim expires, so another worker
	// must live for longer than that.
	t.Run("redis", func(t *testing.T) { chaos(t, newRedisSite(t), 8**chaosRuns, 800*time.Millisecond) })
}

func chaos(t *testing.T, s *site, count int, every time.Duration) {
	t.Helper()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./internal/survival -run Chaos -chaos.seed=%d", seed)
	record := filepath.Join(t.TempDir(), "record")
	env := []string{"SURVIVAL_RECORD=" + record, "SURVIVAL_HARMED=1"}
	fleet := []*process{s.worker(env...), s.worker(env...), s.worker(env...)}

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	runs := make([]*workflow.Run[int], count)
	for i := range runs {
		run, err := Chain.Start(ctx, s.c, i, workflow.WithID(fmt.Sprintf("chain-%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = run
	}
	sent := make(chan error, 1)
	go func() { sent <- sendAll(ctx, runs) }()
	done := make(chan error, 1)
	go func() {
		var first error
		for i, run := range runs {
			got, err := run.Result(ctx)
			if err == nil && got != chainResult(i) {
				err = fmt.Errorf("run %d has result %d, want %d", i, got, chainResult(i))
			}
			if err != nil && first == nil {
				first = err
			}
		}
		done <- first
	}()
	h := &harmer{s: s, fleet: fleet, env: env, record: record, chance: rand.New(rand.NewPCG(seed, 1))}
	h.harm(every, done)
	if err := <-sent; err != nil {
		t.Error(err)
	}
	checkRecord(t, s, runs, record)
	s.sound()
}

// sendAll sends each message twice. The run must receive it once.
func sendAll(ctx context.Context, runs []*workflow.Run[int]) error {
	for m := range chainMessages {
		for _, run := range runs {
			for range 2 {
				if err := chainTopic.Send(ctx, run, 1, workflow.IdempotencyKey(fmt.Sprint(m))); err != nil {
					return fmt.Errorf("send to run %s: %w", run.ID(), err)
				}
			}
		}
	}
	return nil
}

// harmer disturbs the workers of a fleet.
type harmer struct {
	s      *site
	fleet  []*process
	env    []string // environment of each worker
	record string   // file with the executed steps
	seen   int64    // size of the record at the last disturbance
	chance *rand.Rand

	kills, stalls, stops int
}

// harm disturbs one worker after the other until all runs are done. It waits if no step was
// executed since the last disturbance, because on a busy machine permanent disturbance would
// prevent all progress.
func (h *harmer) harm(every time.Duration, done <-chan error) {
	h.s.t.Helper()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			h.s.t.Logf("%d killed, %d stalled, %d stopped", h.kills, h.stalls, h.stops)
			if err != nil {
				h.s.t.Error(err)
			}
			if h.kills+h.stalls+h.stops == 0 {
				h.s.t.Error("nobody was harmed: the test proves nothing")
			}
			for _, p := range h.fleet {
				p.signal(syscall.SIGCONT)
			}
			return
		case <-tick.C:
		}
		if h.moved() {
			h.disturb(h.chance.IntN(len(h.fleet)))
		}
	}
}

// moved reports whether a step was executed since the last true result.
func (h *harmer) moved() bool {
	f, err := os.Stat(h.record)
	if err != nil || f.Size() == h.seen {
		return false
	}
	h.seen = f.Size()
	return true
}

// disturb kills, stops or stalls a worker.
func (h *harmer) disturb(i int) {
	h.s.t.Helper()
	switch h.chance.IntN(4) {
	case 0, 1:
		h.kills++
		h.fleet[i].signal(syscall.SIGKILL)
		_ = h.fleet[i].exited()
		h.fleet[i] = h.s.worker(h.env...)
	case 2:
		h.stops++
		h.fleet[i].signal(syscall.SIGCONT)
		h.fleet[i].signal(syscall.SIGTERM)
		if err := h.fleet[i].exited(); err != nil {
			h.s.t.Errorf("a worker that was stopped ended with %v", err)
		}
		h.fleet[i] = h.s.worker(h.env...)
	case 3:
		h.stalls++
		h.fleet[i].signal(syscall.SIGSTOP)
		stalled := h.fleet[i]
		time.AfterFunc(1500*time.Millisecond, func() { _ = stalled.cmd.Process.Signal(syscall.SIGCONT) })
	}
}

// checkRecord compares the executions of steps with the logs. No attempt may execute after the
// completed one.
func checkRecord(t *testing.T, s *site, runs []*workflow.Run[int], record string) {
	t.Helper()
	completed := map[string]int{} // attempt by run and key
	for _, run := range runs {
		keys := map[uint64]string{}
		for e, err := range run.Events(s.ctx()) {
			if err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case event.StepCreated:
				keys[e.Seq] = e.Key
			case event.StepCompleted:
				completed[string(run.ID())+" "+keys[e.Ref]] = e.Attempt
			}
		}
	}
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	executions := map[string]int{}
	for line := range strings.Lines(string(b)) {
		executions[line]++
		cut := strings.LastIndexByte(line, ' ')
		var attempt int
		if _, err := fmt.Sscan(line[cut+1:], &attempt); err != nil {
			t.Fatal(err)
		}
		if last, ok := completed[line[:cut]]; !ok || attempt > last {
			t.Errorf("attempt %d of %s was executed, but attempt %d had completed it", attempt, line[:cut], last)
		}
	}
	for line, n := range executions {
		if n > 1 {
			t.Errorf("attempt %swas executed %d times", line, n)
		}
	}
	t.Logf("%d steps, %d executions", len(completed), len(executions))
}
