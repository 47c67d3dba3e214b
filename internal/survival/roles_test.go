package survival

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

const (
	// patience is the maximum duration of a wait. It suffices on a busy machine.
	patience = 2 * time.Minute
	// unlimited is a limit of recoveries that no run reaches. It is for runs whose workers are
	// disturbed at random, because their number of recoveries before progress depends on the speed
	// of the machine.
	unlimited = 1_000_000
)

// TestMain executes the role that the environment selects. Without a role it executes the tests.
func TestMain(m *testing.M) {
	role := os.Getenv("SURVIVAL_ROLE")
	if role == "" {
		os.Exit(m.Run())
	}
	var err error
	switch role {
	case "worker":
		err = workerProcess()
	case "home":
		err = homeProcess()
	case "starter":
		err = starterProcess()
	default:
		err = errors.New("no such role: " + role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func openClient(url string) (store.Store, *workflow.Client, error) {
	st, err := store.Open(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return st, workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))}), nil
}

// workerProcess runs a worker until it receives SIGTERM.
func workerProcess() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, c, err := openClient(os.Getenv("SURVIVAL_STORE"))
	if err != nil {
		return err
	}
	cfg := worker.Config{Heartbeat: 200 * time.Millisecond, ClaimExpiry: time.Second}
	if ms, err := strconv.Atoi(os.Getenv("SURVIVAL_GRACE_MS")); err == nil {
		cfg.Grace = time.Duration(ms) * time.Millisecond
	}
	w := worker.New(c, cfg)
	register(w, os.Getenv("SURVIVAL_GATE"), os.Getenv("SURVIVAL_SWAPPED") != "")
	registerLends(w, os.Getenv("SURVIVAL_GATE"))
	registerPair(w, os.Getenv("SURVIVAL_RECORD"))
	registerStreams(w)
	registerKiller(w)
	fmt.Println("working")
	return errors.Join(w.Run(ctx), st.Close())
}

// starterProcess starts runs from ten goroutines, two for each workflow ID, and prints how many
// runs it has created. Other processes use the same workflow IDs.
func starterProcess() error {
	st, c, err := openClient(os.Getenv("SURVIVAL_STORE"))
	if err != nil {
		return err
	}
	ids, err := strconv.Atoi(os.Getenv("SURVIVAL_IDS"))
	if err != nil {
		return err
	}
	const goroutines = 10
	var mu sync.Mutex
	var all sync.WaitGroup
	created, failed := 0, error(nil)
	for g := range goroutines {
		all.Go(func() {
			for n := range 2 * ids / goroutines {
				id := fmt.Sprintf("id-%d", (n*goroutines+g*7)%ids)
				run, err := Plain.Start(context.Background(), c, workflow.None{}, workflow.WithID(id))
				mu.Lock()
				if err != nil {
					failed = errors.Join(failed, err)
				} else if run.Created() {
					created++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	fmt.Println("created", created)
	return errors.Join(failed, st.Close())
}

// process is a child process whose output is captured.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	more  chan struct{}
	done  chan struct{}
	err   error // error of the exit
}

// spawn starts the test binary in a role, with additional environment variables.
func spawn(t *testing.T, role string, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), more: make(chan struct{}, 1), done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "SURVIVAL_ROLE="+role), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s %d printed:\n%s", role, p.cmd.Process.Pid, p.printed())
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// printed returns the output of the process.
func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// wait waits for a line of output that contains text, and returns the line.
func (p *process) wait(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		for l := range strings.Lines(p.printed()) {
			if strings.Contains(l, text) {
				return l
			}
		}
		select {
		case <-p.more:
		case <-p.done:
			if all := p.printed(); !strings.Contains(all, text) {
				p.t.Fatalf("process ended (%v) and did not print %q, but:\n%s", p.err, text, all)
			}
		case <-deadline:
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // makes a process that hangs print its goroutines
			<-p.done
			p.t.Fatalf("process did not print %q in time, but:\n%s", text, p.printed())
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// kill kills the process with SIGKILL. The process flushes no data and executes no deferred calls.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	_ = p.exited()
}

// exited waits for the end of the process, and returns its error.
func (p *process) exited() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		p.t.Fatal("process did not end in time")
		return nil
	}
}

// site is a store that several processes use, with a client in this process, and the path of the
// gate file.
type site struct {
	t    *testing.T
	db   string // path of the database file; empty for Redis
	url  string
	gate string
	st   store.Store
	c    *workflow.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, db: filepath.Join(dir, "s.db"), gate: filepath.Join(dir, "gate")}
	return s.at("sqlite:" + s.db)
}

// newRedisSite returns a site with a new Redis server.
func newRedisSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, gate: filepath.Join(t.TempDir(), "gate")}
	return s.at(redistest.Start(t).URL())
}

// at opens the store of the site and a client.
func (s *site) at(url string) *site {
	s.t.Helper()
	s.url = url
	var err error
	if s.st, s.c, err = openClient(s.url); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.st.Close() })
	return s
}

func (s *site) worker(env ...string) *process {
	s.t.Helper()
	p := spawn(s.t, "worker", append(env, "SURVIVAL_STORE="+s.url, "SURVIVAL_GATE="+s.gate)...)
	p.wait("working")
	return p
}

func (s *site) open() {
	s.t.Helper()
	if err := os.WriteFile(s.gate, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *site) start(d workflow.Definition[workflow.None, string], opts ...workflow.StartOption) *workflow.Run[string] {
	s.t.Helper()
	run, err := d.Start(s.ctx(), s.c, workflow.None{}, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// underWay returns a worker and a run whose step second the worker is executing.
func (s *site) underWay(env ...string) (*process, *workflow.Run[string]) {
	s.t.Helper()
	p := s.worker(env...)
	run := s.start(Two)
	p.wait("second 1")
	return p, run
}

// result waits for the result of a run, and fails the test unless it is want.
func (s *site) result(run *workflow.Run[string], want string) {
	s.t.Helper()
	got, err := run.Result(s.ctx())
	if err != nil || got != want {
		s.t.Fatalf("result is %q, %v, want %q", got, err, want)
	}
}

// until follows the log of a run until it contains an event of the type typ.
func (s *site) until(run *workflow.Run[string], typ event.Type) {
	s.t.Helper()
	for _, err := range run.Events(s.ctx(), workflow.Types(typ)) {
		if err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("the run ended without %s", typ)
}
