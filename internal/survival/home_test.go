package survival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type addArgs struct {
	N int `json:"n"`
}

// add is a step that returns its argument.
var add = shim.NewStep("survival.add", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond}},
	func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a addArgs) (int, error) { return f(ctx, a.N) })
	})

// Pair is a workflow that executes the step add twice.
var Pair = shim.NewWorkflow[int, int]("survival.pair", "n", shim.WorkflowPolicy{})

func pair(ctx workflow.Context, n int) (total int, err error) {
	for range 2 {
		got, err := shim.Call[int](ctx, add, addArgs{n})
		if err != nil {
			return 0, err
		}
		total += got
	}
	return total, nil
}

// registerPair binds [Pair] and its step. Each execution of the step appends a line with the run,
// the key and the attempt to the file record.
func registerPair(w *worker.Worker, record string) {
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
	shim.BindWorkflow(w, Pair, pair)
}

// homeProcess starts runs of [Pair] from several goroutines and executes them as local starts until
// it is killed. It prints each run whose start was confirmed.
func homeProcess() error {
	st, c, err := openClient(os.Getenv("SURVIVAL_STORE"))
	if err != nil {
		return err
	}
	w := worker.New(c, worker.Config{Heartbeat: 200 * time.Millisecond, ClaimExpiry: time.Second, Recoveries: unlimited})
	registerPair(w, os.Getenv("SURVIVAL_RECORD"))
	worked := make(chan error, 1)
	go func() { worked <- w.Run(context.Background()) }()
	var starting sync.WaitGroup
	for g := range 4 {
		starting.Go(func() {
			for n := g; ; n += 4 {
				run, err := Pair.Start(context.Background(), c, n)
				if err != nil {
					fmt.Println("start", err)
					return
				}
				fmt.Println("started", run.ID(), n)
				if got, err := run.Result(context.Background()); err != nil || got != 2*n {
					fmt.Println("wrong", run.ID(), got, err)
				}
			}
		})
	}
	starting.Wait()
	return errors.Join(<-worked, st.Close())
}

// TestREC1_RunsOutliveTheProcessThatStartsAndBeginsThem proves that runs survive a process that
// starts and executes them itself. The test kills such processes at arbitrary times. Each run whose
// start was confirmed must exist and complete, and no step may be executed after its completion.
func TestREC1_RunsOutliveTheProcessThatStartsAndBeginsThem(t *testing.T) {
	t.Parallel()
	for name, site := range map[string]func(*testing.T) *site{"sqlite": newSite, "redis": newRedisSite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site(t)
			record := "SURVIVAL_RECORD=" + filepath.Join(t.TempDir(), "record")
			started := map[workflow.RunID]int{}
			for life := range 8 {
				p := spawn(t, "home", record, "SURVIVAL_STORE="+s.url)
				p.wait(fmt.Sprint(" ", 5+17*life%40)) // each process is killed at another point
				p.kill()
				for line := range strings.Lines(p.printed()) {
					var id string
					var n int
					if strings.HasPrefix(line, "wrong") {
						t.Error(line)
					}
					if _, err := fmt.Sscanf(line, "started %s %d", &id, &n); err == nil {
						started[workflow.RunID(id)] = n
					}
				}
			}
			s.worker(record)
			all := map[workflow.RunID]bool{} // also contains runs whose process died before it printed them
			for info, err := range s.c.List(s.ctx(), workflow.Filter{Internal: true}) {
				if err != nil {
					t.Fatal(err)
				}
				all[info.ID] = true
			}
			for id := range started {
				if !all[id] {
					t.Errorf("run %s was started and is gone", id)
				}
			}
			var runs []*workflow.Run[int]
			local := 0
			for id := range all {
				run := Pair.Get(s.c, id)
				n, told := started[id]
				if got, err := run.Result(s.ctx()); err != nil || told && got != 2*n {
					t.Errorf("result of %s: got %d, %v, want %d", id, got, err, 2*n)
				}
				if l, err := s.st.Load(s.ctx(), []store.Load{{Run: id, Limit: -1}}); err != nil || l[0].Record.N <= 3 {
					local++ // a local start writes the first step in the first frame; other runs have at least four frames
				}
				runs = append(runs, run)
			}
			if local == 0 || len(runs) < 50 {
				t.Errorf("%d runs were started, %d of them handed over: the test proves nothing", len(runs), local)
			}
			checkRecord(t, s, runs, strings.TrimPrefix(record, "SURVIVAL_RECORD="))
			s.sound()
		})
	}
}

// checkRecord fails the test if a step was executed after the attempt that completed it. It
// compares the file record with the logs of the runs.
func checkRecord(t *testing.T, s *site, runs []*workflow.Run[int], record string) {
	t.Helper()
	completed := map[string]int{} // the completing attempt, by run and key
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
