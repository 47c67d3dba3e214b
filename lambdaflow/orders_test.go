package lambdaflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/steplog"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/sqlitestore"
)

const (
	secret = "a secret of the tests, at least 32 bytes"
	// patience is the maximum duration of a wait. It suffices on a busy machine.
	patience = 2 * time.Minute
)

// fleet is a store, the function that executes its runs on the emulated platform, and two dispatchers.
type fleet struct {
	t        *testing.T
	client   *workflow.Client
	platform *platform
	effects  string
	log      lockedBuffer // of the dispatchers
}

func newFleet(t *testing.T, url, effects string, timeout time.Duration) *fleet {
	t.Helper()
	st, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{t: t, client: client, effects: effects, platform: newPlatform(t, timeout, "LAMBDAFLOW_FUNCTION=orders", "FLOWGEN_STORE="+url, "ORDERS_SECRET="+secret, "ORDERS_EFFECTS="+effects)}
	at := httptest.NewServer(f.platform)
	t.Cleanup(at.Close)
	for range 2 {
		d, err := invoke.NewDispatcher(client, invoke.DispatcherConfig{
			Targets: []invoke.Target{{URL: at.URL + "/", Secret: []byte(secret)}}, Logger: slog.New(slog.NewTextHandler(&f.log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the dispatcher ended with %v", err)
			}
		})
	}
	return f
}

// start starts an order that is already approved.
func (f *fleet) start(id string) *workflow.Run[orders.Receipt] {
	f.t.Helper()
	run, err := orders.Fulfil.Start(f.t.Context(), f.client, orders.Order{ID: id, Cents: 4990, Items: []string{"lamp", "desk"}}, workflow.WithID(id))
	if err == nil {
		err = orders.Approval.Send(f.t.Context(), run, "ann")
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

// completes waits for the result of an order.
func (f *fleet) completes(run *workflow.Run[orders.Receipt], id string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	got, err := run.Result(ctx)
	want := orders.Receipt{Payment: "49.90 paid for " + id, Boxes: []string{"box with lamp", "box with desk"}, Tracking: "parcel " + id + "-2", Approved: "ann"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		f.t.Errorf("order %s: %v, receipt (-want +got):\n%s", id, err, diff)
	}
}

// repeated checks that the first step of a run was executed twice and completed once.
func (f *fleet) repeated(run workflow.RunID) {
	f.t.Helper()
	if a := steplog.Read(f.t, f.client, run); a.Began["quickstart.charge"] != 2 || a.Completed["quickstart.charge"] != 1 {
		f.t.Errorf("the step has begun %d times and completed %d times, want 2 and 1", a.Began["quickstart.charge"], a.Completed["quickstart.charge"])
	}
}

// TestOPS7_LambdaFulfilsOrders executes orders with instances that are frozen between invocations.
func TestOPS7_LambdaFulfilsOrders(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "f.db"),
		"redis":  redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, url, filepath.Join(t.TempDir(), "effects"), 30*time.Second)
			runs := map[string]*workflow.Run[orders.Receipt]{}
			for n := range 10 {
				id := fmt.Sprintf("order-%d", n)
				runs[id] = f.start(id)
			}
			began, returned := map[string]int{}, map[string]int{}
			for id, run := range runs {
				f.completes(run, id)
				a := steplog.Read(t, f.client, run.ID())
				if diff := cmp.Diff(map[string]int{"quickstart.charge": 1, "quickstart.pack": 2, "quickstart.ship": 1}, a.Completed); diff != "" {
					t.Errorf("completed steps of %s (-want +got):\n%s", id, diff)
				}
				for name, n := range a.Began {
					began[name] += n
					returned[name] += a.Returned[name]
				}
			}
			executed := steplog.Executions(t, f.effects)
			for _, name := range []string{"quickstart.charge", "quickstart.pack", "quickstart.ship"} {
				if n := executed[name]; n < returned[name] || n > began[name] {
					t.Errorf("step %s was executed %d times: %d attempts have begun, and %d have returned", name, n, began[name], returned[name])
				}
			}
			if t.Failed() {
				for id, run := range runs {
					for e, err := range run.Events(t.Context()) {
						t.Logf("%s: %+v, %v", id, e, err)
						if err != nil || e.Type.Terminal() {
							break
						}
					}
				}
			}
		})
	}
}

// hanging starts an order whose first step hangs until the returned pipe is read, and waits until the
// step is executed. It returns the instance that executes it.
func hanging(t *testing.T, url string) (f *fleet, run *workflow.Run[orders.Receipt], in *instance, pipe string) {
	t.Helper()
	pipe = filepath.Join(t.TempDir(), "effects")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f = newFleet(t, url, pipe, 30*time.Second)
	run = f.start("order-1")
	by := ""
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.RunStarted {
			by = e.By
		}
		if e.Type == event.StepStarted {
			break
		}
	}
	f.platform.mu.Lock()
	defer f.platform.mu.Unlock()
	for _, i := range f.platform.all {
		if strings.HasSuffix(by, fmt.Sprint("/", i.process.Process.Pid)) {
			return f, run, i, pipe
		}
	}
	t.Fatal("no instance executes the step")
	return nil, nil, nil, ""
}

// suspend stops a child process, and returns when all its threads are stopped.
func suspend(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process is not stopped: %v, %v", status, err)
	}
}

// drain reads a pipe until the end of the test.
func drain(t *testing.T, pipe string) *lockedBuffer {
	t.Helper()
	r, err := os.OpenFile(pipe, os.O_RDWR, 0) // Writers never wait for a reader.
	if err != nil {
		t.Fatal(err)
	}
	read := &lockedBuffer{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(read, r)
	}()
	t.Cleanup(func() { _ = r.Close(); <-ended })
	return read
}

// TestOPS7_LambdaKilledInAStepContinuesInAnotherInstance kills the process with SIGKILL while a step
// is executed.
func TestOPS7_LambdaKilledInAStepContinuesInAnotherInstance(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "f.db"),
		"redis":  redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, run, in, pipe := hanging(t, url)
			if err := in.process.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-in.exited
			drain(t, pipe)
			f.completes(run, "order-1")
			f.repeated(run.ID())
		})
	}
}

// TestOPS7_LambdaFrozenLongerThanItsLeaseChangesNothing stops the process while a step is executed,
// until another instance has completed the order. When the process continues, its result is refused.
func TestOPS7_LambdaFrozenLongerThanItsLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "f.db"),
		"redis":  redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, run, in, pipe := hanging(t, url)
			frozen := in.current.Load()
			suspend(t, in.process.Process.Pid)
			effects := drain(t, pipe)
			f.completes(run, "order-1")
			info, err := run.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := in.process.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			// The invocation of the frozen process ends: it answers, or it is killed at its deadline.
			select {
			case <-frozen.over:
			case <-in.exited:
			case <-time.After(patience):
				t.Fatal("the invocation of the frozen process does not end")
			}
			after, err := run.Info(t.Context())
			if err != nil || after.Events != info.Events {
				t.Errorf("the log has %d events, %v; had %d when the order was completed", after.Events, err, info.Events)
			}
			f.repeated(run.ID())
			// The call that was under way when the process was frozen may end. No other begins.
			executed := map[string]int{}
			effects.await(t, "quickstart.ship 3\n")
			for line := range strings.Lines(effects.String()) {
				executed[strings.TrimSuffix(line, "\n")]++
			}
			if executed["quickstart.charge 1"] <= 1 {
				delete(executed, "quickstart.charge 1")
			}
			want := map[string]int{"quickstart.charge 2": 1, "quickstart.pack 1": 2, "quickstart.ship 1": 1, "quickstart.ship 2": 1, "quickstart.ship 3": 1}
			if diff := cmp.Diff(want, executed); diff != "" {
				t.Errorf("executed attempts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOPS7_LambdaWithATooShortTimeoutExecutesNothing gives the function a timeout of 12 s, which is too
// short for its budget of 10 s. The dispatcher logs what to change.
func TestOPS7_LambdaWithATooShortTimeoutExecutesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sqlite:"+filepath.Join(t.TempDir(), "f.db"), filepath.Join(t.TempDir(), "effects"), 12*time.Second)
	run := f.start("order-1")
	f.log.await(t, "code="+invoke.CodeDeadline)
	if info, err := run.Info(t.Context()); err != nil || info.Status != workflow.StatusPending {
		t.Errorf("the run has status %v, %v; want pending", info.Status, err)
	}
}
