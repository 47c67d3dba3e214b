package admintest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

var long = flag.Bool("long", false, "also act on 100,000 runs in the test of bulk actions")

// bulkStore is an environment variable for processes of this test that execute bulk actions. Its
// value is the URL of the store.
const bulkStore = "FLOWTEST_BULK_STORE"

func TestMain(m *testing.M) {
	if url := os.Getenv(bulkStore); url != "" {
		fmt.Fprintln(os.Stderr, bulkWorker(url))
		os.Exit(1)
	}
	redistest.Main(m)
}

// quiet is the configuration of clients of these tests.
var quiet = workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)}

// bulkHeartbeat is the heartbeat interval of processes that execute bulk actions.
const bulkHeartbeat = 200 * time.Millisecond

// bulkWorker executes bulk actions until it is killed.
func bulkWorker(url string) error {
	st, err := store.OpenExisting(context.Background(), url)
	if err != nil {
		return err
	}
	c := workflow.NewClient(st, quiet)
	w := worker.New(c, worker.Config{Queues: []string{admin.AdminQueue}, Heartbeat: bulkHeartbeat, ClaimExpiry: time.Second})
	admin.Register(w, admin.New(c))
	return w.Run(context.Background())
}

// bulkProcess starts a process that executes bulk actions. It returns a function that kills the
// process with SIGKILL.
func bulkProcess(t *testing.T, url string) (kill func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.Command(program)
	p.Env, p.Stderr = append(os.Environ(), bulkStore+"="+url), os.Stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = p.Process.Kill()
		_ = p.Wait() // the process was killed
	})
	t.Cleanup(kill)
	return kill
}

// stepwise executes ten operations. In debug mode, it executes one operation per request.
var stepwise = shim.NewWorkflow[workflow.None, int]("admintest.stepwise", "", shim.WorkflowPolicy{})

func doStepwise(ctx workflow.Context, _ workflow.None) (sum int, err error) {
	for i := range 10 {
		n, err := workflow.Record(ctx, func() (int, error) { return i, nil })
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// TestOPS1_BulkActsOnEachRunOnceAlthoughItsWorkerIsKilledTwice proves that each run accepts the
// action once, although the process that executes the bulk action is killed twice in the middle of
// a part. A second request to step would allow a second operation.
func TestOPS1_BulkActsOnEachRunOnceAlthoughItsWorkerIsKilledTwice(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "runs.db"),
		"redis":  redistest.Shared(t).URL() + "?prefix=" + redistest.Prefix(),
	} {
		t.Run(name, func(t *testing.T) { killTwice(t, url) })
	}
}

const bulkRuns = 300

func killTwice(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := openClient(t, url)
	w := worker.New(c, worker.Config{Queues: []string{"default"}})
	shim.BindWorkflow(w, stepwise, doStepwise)
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(working) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	var runs []*workflow.Handle
	for range bulkRuns {
		run, err := stepwise.Start(ctx, c, workflow.None{}, workflow.WithDebug())
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, c.Run(run.ID()))
	}
	for _, h := range runs {
		until(ctx, t, h, event.RunStarted)
	}
	direct := admin.New(c)
	n := bulkRuns
	b, err := direct.StartBulk(ctx, admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Workflow: stepwise.Name()}, Action: admin.Action{Verb: "step"}}, Expect: &n, Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{60, 270} { // in the middle of the first and of the second part of 250 runs
		kill := bulkProcess(t, url)
		until(ctx, t, runs[i], event.RunStepped)
		kill()
	}
	bulkProcess(t, url)
	got := bulkEnd(ctx, t, direct, b.ID)
	if got.Status != admin.BulkCompleted || got.Total != bulkRuns || got.Done != bulkRuns {
		t.Errorf("got %+v", got)
	}
	for i, h := range runs {
		until(ctx, t, h, event.RunStepped)
		steps := 0
		info, err := h.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range h.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == event.RunStepped {
				steps++
			}
			if e.Seq >= info.Events {
				break
			}
		}
		if steps != 1 {
			t.Errorf("run %d was stepped %d times", i, steps)
		}
	}
}

// TestOPS1_BulkOfManyRunsIsFastAndItsLogsAreShort proves that an action on 100,000 runs ends within
// a minute, although the process is killed twice, and that the logs of the action remain short.
func TestOPS1_BulkOfManyRunsIsFastAndItsLogsAreShort(t *testing.T) {
	n := 1_500
	if *long {
		n = 100_000
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	own := redistest.Start(t) // no other test uses this server, so that its scripts can be counted
	url := own.URL()
	c := openClient(t, url)
	var runs []workflow.RunID
	for len(runs) < n {
		batch := make([]workflow.StartRequest[workflow.None], min(1000, n-len(runs)))
		for i := range batch {
			batch[i].Options = []workflow.StartOption{workflow.WithHold()}
		}
		started, err := stepwise.StartMany(ctx, c, batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range started {
			runs = append(runs, one.Run.ID())
		}
	}
	direct := admin.New(c)
	server := own.Client(t)
	before := scripts(t, server)
	begun := time.Now()
	b, err := direct.StartBulk(ctx, admin.NewBulk{BulkRequest: admin.BulkRequest{Filter: admin.Filter{Workflow: stepwise.Name()}, Action: admin.Action{Verb: "cancel"}}, Expect: &n, Rate: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{n / 3, 2 * n / 3} {
		kill := bulkProcess(t, url)
		for range c.Run(runs[i]).Events(ctx) { // the iteration ends when the run has been canceled
		}
		kill()
	}
	bulkProcess(t, url)
	got := bulkEnd(ctx, t, direct, b.ID)
	took := time.Since(begun)
	executed := scripts(t, server) - before
	// The bulk action needs three scripts per run: the delivery, the claim and the commit. Parts
	// may be repeated after a kill. With a separate search and a separate end for each run it would
	// need 7. In addition, one worker at a time sends heartbeats to each partition, so that their
	// number is proportional to the duration.
	heard := int(took/bulkHeartbeat+1) * c.Store().Partitions()
	t.Logf("%d runs in %v: %d scripts, %.2f for each, and up to %d heartbeats", n, took, executed, float64(executed)/float64(n), heard)
	if most := n*9/2 + heard; executed > most {
		t.Errorf("%d scripts for %d runs and %d heartbeats, want at most %d", executed, n, heard, most)
	}
	if got.Status != admin.BulkCompleted || got.Done != n || *long && took > time.Minute {
		t.Errorf("after %v: got %+v", took, got)
	}
	counts, err := direct.Count(ctx, admin.Filter{Workflow: stepwise.Name(), Statuses: []string{"cancelled"}, Budget: 2 * n})
	if err != nil || counts.Total != n {
		t.Errorf("got %+v, %v", counts, err)
	}
	for info, err := range c.List(ctx, workflow.Filter{WorkflowID: b.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Events > 1000 {
			t.Errorf("run %s has a log of %d events", info.ID, info.Events)
		}
	}
}

// scripts returns the number of scripts that a server has executed.
func scripts(t *testing.T, server *redis.Client) (n int) {
	t.Helper()
	stats, err := server.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatalf("%v\n%s", err, stats)
	}
	return n
}

// until waits until the log of a run contains an event of a type.
func until(ctx context.Context, t *testing.T, h *workflow.Handle, typ event.Type) {
	t.Helper()
	for e, err := range h.Events(ctx) {
		if err != nil {
			t.Fatalf("no %s: %v", typ, err)
		}
		if e.Type == typ {
			return
		}
	}
	t.Fatalf("run %s has ended without %s", h.ID(), typ)
}

func openClient(t *testing.T, url string) *workflow.Client {
	t.Helper()
	var st store.Store
	var err error
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		st, err = sqlitestore.Open(path)
	} else {
		st, err = redisstore.Open(url)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := workflow.NewClient(st, quiet)
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// bulkEnd waits for the end of a bulk action.
func bulkEnd(ctx context.Context, t *testing.T, s *admin.Service, id string) admin.Bulk {
	t.Helper()
	if _, err := s.Wait(ctx, "id:"+id, 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	b, err := s.Bulk(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
