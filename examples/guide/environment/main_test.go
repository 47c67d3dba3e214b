package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// isProgram is the environment variable that makes the test binary execute the program.
const isProgram = "FLOWTEST_IS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(isProgram) != "" {
		main()
		return
	}
	redistest.Main(m)
}

// program returns the program as a process that has no other FLOWGEN_* variables than vars.
func program(t *testing.T, vars ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd, stderr = exec.CommandContext(ctx, os.Args[0]), &bytes.Buffer{}
	cmd.Stderr = stderr
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "FLOWGEN_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(append(cmd.Env, isProgram+"=1"), vars...)
	return cmd, stderr
}

// works proves that a process with these variables executes a run on the store, under the name and
// on the queues in the variables, and ends without an error after SIGTERM.
func works(t *testing.T, st store.Store, vars ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, stderr := program(t, append(vars, "FLOWGEN_WORKER_NAME=from-environment", "FLOWGEN_WORKER_QUEUES=default, extra", "FLOWGEN_WORKER_HEARTBEAT=200ms",
		"FLOWGEN_SERVICE_HOST=10.0.0.1", "FLOWGEN_PORT=tcp://10.0.0.1:7070", "FLOWGEN_WORKER_GRACE=")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	run, err := flows.Fastest.Start(ctx, client, flows.FastestInput{A: "dhl", B: "ups"})
	if err == nil {
		_, err = run.Result(ctx)
	}
	fleet, fleetErr := ops.New(client).Fleet(ctx)
	if err := errors.Join(err, fleetErr); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("%v\n%s", err, stderr)
	}
	served := map[string]bool{}
	for _, w := range fleet.Workers {
		if w.Name == "from-environment" {
			for _, route := range w.Serves {
				served[route.Queue] = true
			}
		}
	}
	if !served["default"] || !served["extra"] {
		t.Errorf("the worker from-environment serves %v, want default and extra", served)
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
		t.Errorf("the program ended with %v\n%s", err, stderr)
	}
}

func TestOPS6_AWorkerIsConfiguredByTheEnvironmentAlone(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "orders.db")
		st, err := sqlitestore.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		works(t, st, "FLOWGEN_STORE=sqlite:"+file)
	})
	t.Run("redis with a password in a file", func(t *testing.T) {
		const password = "a b/c@d"
		server := redistest.Start(t)
		if err := server.Client(t).ConfigSet(t.Context(), "requirepass", password).Err(); err != nil {
			t.Fatal(err)
		}
		st, err := redisstore.Open("redis://:a%20b%2Fc%40d@" + server.Addr + "?prefix=orders")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		works(t, st, "FLOWGEN_STORE="+server.URL()+"?prefix=orders", "FLOWGEN_STORE_PASSWORD_FILE="+file)
	})
}

func TestOPS6_AProgramWithAWrongVariableEndsWithItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.db")
	for _, tt := range []struct{ variable, want string }{
		{"FLOWGEN_WORKER_CONCURENCY=8", "FLOWGEN_WORKER_CONCURENCY is unknown: did you mean FLOWGEN_WORKER_CONCURRENCY?"},
		{"FLOWGEN_WORKER_CONCURRENCY=eight", `FLOWGEN_WORKER_CONCURRENCY is "eight": want a whole number`},
		{"FLOWGEN_STORE=", "FLOWGEN_STORE is not set"},
	} {
		cmd, stderr := program(t, "FLOWGEN_STORE=sqlite:"+file, tt.variable)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: %v, want exit code 1 and %q:\n%s", tt.variable, err, tt.want, stderr)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the program has created the store", tt.variable)
		}
	}
}
