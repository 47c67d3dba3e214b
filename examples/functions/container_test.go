package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const secret = "a secret of the tests, at least 32 bytes"

// container is a process of the function, which is started as Cloud Run starts a container: it gets
// its port in PORT and no other address.
type container struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  bytes.Buffer // complete when ended was received
	done chan error
}

func start(t *testing.T, url, effects string) *container {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, cmd: exec.Command(os.Args[0]), url: "http://127.0.0.1:" + port + "/", done: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), "FUNCTIONS_MAIN=1", "FUNCTIONS_ROLE=function", "FUNCTIONS_CRASH_AFTER=0", "PORT="+port,
		"FLOWGEN_STORE="+url, "FUNCTIONS_SECRET="+secret, "FUNCTIONS_EFFECTS="+effects)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !listens(ctx, "127.0.0.1:"+port) {
		t.Fatal("the container does not listen on its port")
	}
	return c
}

// signal sends a signal to the container.
func (c *container) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end of the container, which must be successful. It returns how long that took.
func (c *container) ends() time.Duration {
	c.t.Helper()
	began := time.Now()
	select {
	case err := <-c.done:
		if err != nil {
			c.t.Errorf("the container ended with %v:\n%s", err, &c.log)
		}
	case <-time.After(patience):
		c.t.Fatal("the container does not end")
	}
	return time.Since(began)
}

// invoke requests the execution of a run, as a dispatcher does.
func (c *container) invoke(run workflow.RunID) (invoke.Answer, error) {
	body := fmt.Appendf(nil, `{"run":%q}`, run)
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return invoke.Answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	invoke.Sign(req.Header, []byte(secret), time.Now(), string(run), body)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(req)
	if err != nil {
		return invoke.Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	var got struct {
		invoke.Answer
		Error *invoke.Error
	}
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		return invoke.Answer{}, fmt.Errorf("status %s: %w", res.Status, err)
	}
	if got.Error != nil {
		return invoke.Answer{}, got.Error
	}
	return got.Answer, nil
}

func startOrder(t *testing.T, client *workflow.Client) *workflow.Run[orders.Receipt] {
	t.Helper()
	run, err := orders.Fulfil.Start(t.Context(), client, orders.Order{ID: "order-1001", Cents: 4990, Items: []string{"lamp", "desk", "chair"}}, workflow.WithID("order-1001"))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestOPS7_ContainersWorkOnlyDuringRequests freezes the container between its requests, as Cloud Run
// does with the processor of a container that has no request. It checks that no session is left when
// a request is answered, and that the run progresses in each request.
func TestOPS7_ContainersWorkOnlyDuringRequests(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "f.db"),
		"redis":  redistest.Start(t).URL(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effects := filepath.Join(t.TempDir(), "effects")
			client := open(t, url)
			run := startOrder(t, client)
			c := start(t, url, effects)
			status := ""
			for deadline := time.Now().Add(patience); status != invoke.StatusDone && time.Now().Before(deadline); {
				got, err := c.invoke(run.ID())
				c.signal(syscall.SIGSTOP)
				if err != nil {
					t.Fatal(err)
				}
				status = got.Status
				checkIdle(t, client)
				if status == invoke.StatusParked {
					wake(t, run, got.Due)
				}
				c.signal(syscall.SIGCONT)
			}
			if receipt, err := run.Result(t.Context()); err != nil || receipt.Approved != "ann" {
				t.Errorf("the result is %+v, %v; want an order that ann approved", receipt, err)
			}
			checkLog(t, client, effects)
			c.signal(syscall.SIGTERM)
			c.ends()
		})
	}
}

// checkIdle checks that no session exists and no run is owned.
func checkIdle(t *testing.T, client *workflow.Client) {
	t.Helper()
	teller, _ := store.As[store.FleetTeller](client.Store())
	fleet, err := teller.Fleet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(fleet.Sessions) > 0 {
		t.Errorf("sessions %+v are open without a request", fleet.Sessions)
	}
	for _, r := range fleet.Routes {
		if r.Owned > 0 {
			t.Errorf("%d runs of %s are owned without a request", r.Owned, r.Workflow)
		}
	}
}

// wake approves the order if it waits for that, and otherwise waits for the time at which it
// continues.
func wake(t *testing.T, run *workflow.Run[orders.Receipt], due *time.Time) {
	t.Helper()
	if due != nil && time.Until(*due) < time.Minute {
		timer := time.NewTimer(time.Until(*due) + 20*time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return
	}
	if err := orders.Approval.Send(t.Context(), run, "ann"); err != nil {
		t.Fatal(err)
	}
}

// TestOPS7_ContainersEndWithinTenSecondsOfSIGTERM stops a container while a step of an order hangs
// and ignores its context. The interrupted attempt does not count, and another container continues
// at once.
func TestOPS7_ContainersEndWithinTenSecondsOfSIGTERM(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "f.db")
	client := open(t, url)
	run := startOrder(t, client)
	// A step that records its execution in a pipe hangs until the pipe is read.
	pipe := filepath.Join(t.TempDir(), "effects")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, url, pipe)
	answered := make(chan error, 1)
	go func() {
		_, err := c.invoke(run.ID())
		answered <- err
	}()
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.StepStarted {
			break
		}
	}
	c.signal(syscall.SIGTERM)
	if took := c.ends(); took > 10*time.Second {
		t.Errorf("the container ended %v after SIGTERM, want at most 10 s:\n%s", took, &c.log)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	checkIdle(t, client)
	next := start(t, url, filepath.Join(t.TempDir(), "effects"))
	if got, err := next.invoke(run.ID()); err != nil || got.Status != invoke.StatusParked {
		t.Errorf("another container answers %+v, %v; want the run to continue", got, err)
	}
	var attempts []int
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.StepStarted {
			attempts = append(attempts, e.Attempt)
		}
		if e.Type == event.StepRetrying && e.Failure.Code != event.CodeStopped {
			t.Errorf("the interrupted attempt has the failure %+v, want code %s", e.Failure, event.CodeStopped)
		}
		if e.Type == event.StepCompleted {
			break
		}
	}
	if len(attempts) != 2 {
		t.Errorf("the step had the attempts %v, want two", attempts)
	}
	next.signal(syscall.SIGTERM)
	next.ends()
}
