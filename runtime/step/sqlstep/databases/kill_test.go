package databases

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/step/sqlstep"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

const (
	roleVariable = "SQLSTEP_TEST_ROLE"
	batch        = 50 // number of effects that are committed in the database, but not in the log, when a process is killed
)

var waves = flag.Int("kills", 4, "how many processes are killed, each between the two commits of 50 effects")

// role is the configuration of a process that executes steps.
type role struct {
	Database database
	Flows    string
	Survive  bool
}

var (
	transfer = shim.NewStep("bank.transfer", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100, Initial: time.Millisecond}},
		func(f func(context.Context, string) (receipt, error)) shim.Handler { return shim.Handle(f) })
	bank = shim.NewWorkflow[string, receipt]("bank.bank", "what", shim.WorkflowPolicy{})
)

// victim executes steps in a process of its own. It kills the process when a batch of first
// attempts has committed to the database and not to the log.
func victim() {
	var r role
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(os.Getenv(roleVariable)), &r))
	db, err := sql.Open(r.Database.Driver, r.Database.DSN)
	fail(err)
	st, err := sqlitestore.Open(r.Flows)
	fail(err)
	w := worker.New(workflow.NewClient(st, workflow.ClientConfig{}), worker.Config{Concurrency: 3 * batch, Recoveries: 1000})
	var between atomic.Int32
	transfer.Bind(w, func(ctx context.Context, what string) (receipt, error) {
		got, err := sqlstep.Do(ctx, db, effect(what))
		if err != nil || r.Survive || step.Attempt(ctx) > 1 {
			return got, err
		}
		if between.Add(1) == batch {
			fail(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		select {} // block, so that the result never reaches the log
	})
	shim.BindWorkflow(w, bank, func(ctx workflow.Context, what string) (receipt, error) {
		return shim.Call[receipt](ctx, transfer, what)
	})
	fail(w.Run(context.Background()))
}

func (r role) start(t *testing.T) *exec.Cmd {
	t.Helper()
	told, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+string(told))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestSTEP12_KilledBetweenTheTwoCommitsEveryEffectHappensOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		db := withTable(t, d)
		r := role{Database: d, Flows: filepath.Join(t.TempDir(), "flows.db")}
		st, err := sqlitestore.Open(r.Flows)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		client := workflow.NewClient(st, workflow.ClientConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		var runs []*workflow.Run[receipt]
		for wave := range *waves {
			for n := range batch {
				run, err := bank.Start(ctx, client, fmt.Sprintf("effect-%d-%d", wave, n))
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, run)
			}
			cmd := r.start(t)
			_ = cmd.Wait()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				t.Fatalf("process %d ended as %v, want killed", wave, cmd.ProcessState)
			}
		}
		r.Survive = true
		last := r.start(t)
		defer func() { _ = last.Wait() }()
		defer func() { _ = last.Process.Kill() }()
		for n, run := range runs {
			got, err := run.Result(ctx)
			if want := fmt.Sprintf("effect-%d-%d", n/batch, n%batch); err != nil || got.What != want {
				t.Fatalf("run %d: got %+v, %v; want %s", n, got, err, want)
			}
			attempts := 0
			for _, err := range run.Events(ctx, workflow.Types(event.StepStarted)) {
				if err != nil {
					t.Fatal(err)
				}
				attempts++
			}
			if attempts < 2 {
				t.Errorf("run %d was not interrupted", n)
			}
		}
		counts := effects(t, db)
		for what, n := range counts {
			if n != 1 {
				t.Errorf("%s happened %d times", what, n)
			}
		}
		if len(counts) != *waves*batch {
			t.Errorf("%d effects, want %d", len(counts), *waves*batch)
		}
	})
}
