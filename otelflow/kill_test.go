package otelflow_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

// patience is the maximum duration of a wait. It suffices on a busy machine.
const patience = time.Minute

// TestMain runs a worker if the environment requests it, and otherwise the tests.
func TestMain(m *testing.M) {
	if os.Getenv("OTELFLOW_STORE") == "" {
		os.Exit(m.Run())
	}
	if err := workerProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// workerProcess runs a worker until it receives SIGTERM, or until it kills itself after the commit
// with the number that the environment requests.
func workerProcess() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := store.Open(ctx, os.Getenv("OTELFLOW_STORE"))
	if err != nil {
		return err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Getenv("OTELFLOW_RECEIVER")))
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(os.Getenv("OTELFLOW_KILL"))
	if err != nil {
		return err
	}
	telemetry := otelflow.New(otelflow.Config{TracerProvider: otelflow.NewTracerProvider(exporter)}.Quick())
	w := worker.New(workflow.NewClient(st, workflow.ClientConfig{}), worker.Config{
		Observers: []observe.Observer{&killer{last: int64(last)}, telemetry}, Heartbeat: 200 * time.Millisecond, ClaimExpiry: time.Second,
	})
	register(w)
	return errors.Join(w.Run(ctx), st.Close())
}

// killer is an observer that kills the process at a commit. No observer after it receives that
// commit, and spans that wait for their export are lost.
type killer struct {
	last    int64 // 0: it does not kill
	commits atomic.Int64
}

func (k *killer) Run(observe.Run) observe.RunObserver { return k }

func (k *killer) Committed(observe.Commit) {
	fmt.Println("commit")
	if k.commits.Add(1) == k.last {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may arrive later
	}
}

// process is a worker process.
type process struct {
	cmd     *exec.Cmd
	log     bytes.Buffer // standard error; complete when done was received
	done    chan error
	commits atomic.Int64
}

func spawn(t *testing.T, url, receiver string, kill int) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "OTELFLOW_STORE="+url, "OTELFLOW_RECEIVER="+receiver, fmt.Sprint("OTELFLOW_KILL=", kill))
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.commits.Add(1)
		}
		p.done <- p.cmd.Wait()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// ends waits until the process has been killed. It reports false if the condition holds before.
func (p *process) ends(t *testing.T, before func() bool) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; {
		select {
		case <-p.done:
			return true
		case <-tick.C:
			if before() {
				return false
			}
			if time.Now().After(deadline) {
				_ = p.cmd.Process.Kill()
				<-p.done
				t.Fatalf("the process has neither been killed nor exported all spans:\n%s", &p.log)
			}
		}
	}
}

// TestOPS4_NoSpanIsMissingWhereverWorkersAreKilled kills two of three worker processes with SIGKILL
// at each commit of a run, before the commit is exported. It compares the received spans with the
// logs of the run and its child.
func TestOPS4_NoSpanIsMissingWhereverWorkersAreKilled(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killEverywhere(t, 1, func() string { return "sqlite:" + filepath.Join(t.TempDir(), "flows.db") })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		killEverywhere(t, depth.Stride(3), func() string { return redistest.Start(t).URL() })
	})
}

func killEverywhere(t *testing.T, every int, newStore func() string) {
	t.Helper()
	const most = 40
	t.Log("killed at commit | commits of the workers | spans in the logs | missing | duplicated | repeated exports")
	for kill := 1; ; kill += every {
		if kill > most {
			t.Fatalf("the run has more than %d commits", most)
		}
		row := killAt(t, newStore(), kill, newReceiver(t))
		t.Logf("%16d | %22s | %17d | %7d | %10d | %16d", kill, row.commits, row.want, row.missing, row.duplicated, row.repeated)
		if row.missing+row.duplicated > 0 {
			t.Errorf("%d spans are missing and %d are duplicated if workers are killed at commit %d", row.missing, row.duplicated, kill)
		}
		if !row.killed {
			break // the first worker has executed the whole run
		}
	}
}

// TestOPS4_TheWorkerThatEndsARunExportsWhatOthersCommitted proves that no span is missing if a worker
// has given a run back and was killed before it exported its spans. Nothing then shows that it has
// died.
func TestOPS4_TheWorkerThatEndsARunExportsWhatOthersCommitted(t *testing.T) {
	r := newReceiver(t)
	s := newSite(t) // exports nothing
	run, err := order.Start(t.Context(), s.client, 1)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.WaitCreated && e.Wait == event.WaitMessage {
			break
		}
	}
	s.stop()
	s.work(worker.Config{Observers: []observe.Observer{otelflow.New(otelflow.Config{TracerProvider: r.provider()})}})
	if err := paid.Send(t.Context(), run, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop()
	want := spansOf(t, s.client)
	for name := range want { // the child has ended on the other worker
		if !strings.HasPrefix(name, string(run.ID())) {
			delete(want, name)
		}
	}
	if missing, duplicated, _ := compare(r, want); missing+duplicated > 0 || len(want) < 5 {
		all, _ := r.spans()
		t.Errorf("of the spans %v, %d are missing and %d duplicated:\n%s", want, missing, duplicated, tree(all))
	}
}

type outcome struct {
	commits                             string
	want, missing, duplicated, repeated int
	killed                              bool
}

// killAt kills two workers at their commit with this number, and exports to r.
func killAt(t *testing.T, url string, kill int, r *receiver) (row outcome) {
	t.Helper()
	st, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	defer c.Close()
	run, err := order.Start(t.Context(), c, 1)
	if err == nil {
		err = paid.Send(t.Context(), run, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := func() bool {
		info, err := run.Info(t.Context())
		return err == nil && info.Status.Terminal()
	}
	var want map[string]int
	complete := func() bool {
		if !ended() {
			return false
		}
		if want == nil {
			want = spansOf(t, c)
		}
		missing, _, _ := compare(r, want)
		return missing == 0
	}
	var commits []string
	for n := range 3 {
		limit := kill
		if n == 2 {
			limit = 0
		}
		p := spawn(t, url, r.url, limit)
		if p.ends(t, complete) {
			row.killed = true
			commits = append(commits, fmt.Sprint(p.commits.Load()))
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		if err := <-p.done; err != nil {
			t.Errorf("worker %d ended with %v", n+1, err)
		}
		commits = append(commits, fmt.Sprint(p.commits.Load()))
		break
	}
	row.commits, row.want = strings.Join(commits, " + "), 0
	for _, n := range want {
		row.want += n
	}
	row.missing, row.duplicated, row.repeated = compare(r, want)
	return row
}

// spansOf returns the numbers of spans that the logs of all runs require, by run and name.
func spansOf(t *testing.T, c *workflow.Client) map[string]int {
	t.Helper()
	want := map[string]int{}
	for info, err := range c.List(t.Context(), workflow.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names := map[uint64]string{}
		for e, err := range c.Run(info.ID).Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			id := string(info.ID) + " "
			switch e.Type {
			case event.RunCreated:
				want[id+"start "+info.Workflow]++
			case event.StepCreated:
				names[e.Seq] = e.Name
			case event.StepStarted:
				want[id+"attempt "+names[e.Ref]]++
			case event.WaitCreated:
				name := "wait " + e.Wait.String()
				if e.Name != "" {
					name += " " + e.Name
				}
				want[id+name]++
			case event.RunCompleted, event.RunFailed:
				want[id+"run "+info.Workflow]++
			}
		}
	}
	return want
}

func compare(r *receiver, want map[string]int) (missing, duplicated, repeated int) {
	var all []*tracepb.Span
	all, repeated = r.spans()
	got := map[string]int{}
	for _, s := range all {
		got[attribute(s, "flowgen.run")+" "+s.Name]++
	}
	for name, n := range want {
		missing += max(n-got[name], 0)
	}
	for name, n := range got {
		duplicated += max(n-want[name], 0)
	}
	return missing, duplicated, repeated
}
