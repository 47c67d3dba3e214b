package systemd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/health/systemd"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// isService is an environment variable for processes of this test. With it, the test binary is a
// service.
const isService = "FLOWTEST_IS_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(isService) != "" {
		if err := service(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// jamming is a store that the service can harm.
type jamming struct {
	store.Store
	away, jammed atomic.Bool
}

func (s *jamming) Unwrap() store.Store { return s.Store }

// Damage blocks the claim loop while jammed is set.
func (s *jamming) Damage() []*store.DamagedError {
	for s.jammed.Load() {
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (s *jamming) OpenSession(ctx context.Context, o store.Session) error {
	if s.away.Load() {
		return flowtest.ErrOutage
	}
	return s.Store.OpenSession(ctx, o)
}

// service executes a worker until SIGTERM. Lines of in harm it.
func service(in io.Reader) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st := &jamming{Store: memstore.New()}
	st.away.Store(true)
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			switch lines.Text() {
			case "store":
				st.away.Store(false)
			case "jam", "free":
				st.jammed.Store(lines.Text() == "jam")
			}
		}
	}()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{Heartbeat: 20 * time.Millisecond})
	flowtest.Echoes(w)
	flowtest.ProbeEvery(10 * time.Millisecond)(w)
	flowtest.StuckAfter(200 * time.Millisecond)(w)
	stopNotify, err := systemd.Notify(w)
	if err != nil {
		return err
	}
	err = w.Run(ctx)
	stopNotify()
	return errors.Join(err, client.Close(), st.Close())
}

// manager stands for systemd: it receives the notifications of a service.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &manager{t: t, path: filepath.Join(dir, "notify")}
	m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.conn.Close() })
	return m
}

// next returns the next notification within d, or "" if there is none.
func (m *manager) next(d time.Duration) string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		m.t.Fatal(err)
	}
	buffer := make([]byte, 256)
	n, err := m.conn.Read(buffer)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		m.t.Fatal(err)
	}
	return string(buffer[:n])
}

// await waits for a notification, and fails the test if another one than those in between arrives.
func (m *manager) await(want string, between ...string) {
	m.t.Helper()
	for {
		switch got := m.next(flowtest.Patience); {
		case got == want:
			return
		case !slices.Contains(between, got):
			m.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// silence waits until no notification has arrived for d.
func (m *manager) silence(d time.Duration) {
	m.t.Helper()
	for until := time.Now().Add(flowtest.Patience); m.next(d) != ""; {
		if time.Now().After(until) {
			m.t.Fatal("the notifications do not end")
		}
	}
}

const watchdogTimeout = 100 * time.Millisecond

// start starts a service, as systemd does for Type=notify with WatchdogSec.
func (m *manager) start() (p *exec.Cmd, in io.Writer) {
	m.t.Helper()
	program, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	p = exec.Command(program)
	p.Env = append(os.Environ(), isService+"=1", "NOTIFY_SOCKET="+m.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdogTimeout.Microseconds()))
	p.Stderr = os.Stderr
	in, err = p.StdinPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait() // Wait returns an error because the process was killed.
		}
	})
	return p, in
}

func (m *manager) say(in io.Writer, line string) {
	m.t.Helper()
	if _, err := fmt.Fprintln(in, line); err != nil {
		m.t.Fatal(err)
	}
}

func (m *manager) signal(p *exec.Cmd, s syscall.Signal) {
	m.t.Helper()
	if err := p.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

const (
	isReady = "READY=1"
	pings   = "WATCHDOG=1"
	stops   = "STOPPING=1"
)

// TestOPS7_SystemdFollowsAService proves which notifications a process sends from its start to its
// end: it is ready once its session is open, and its watchdog is served while it waits for the
// store, but not while a loop of the worker is stuck or the process is stopped.
func TestOPS7_SystemdFollowsAService(t *testing.T) {
	m := newManager(t)
	p, in := m.start()
	for range 5 {
		m.await(pings) // it is live without its store, and is not ready
	}
	m.say(in, "store")
	m.await(isReady, pings)
	m.await(pings)

	m.signal(p, syscall.SIGSTOP)
	m.silence(10 * watchdogTimeout)
	m.signal(p, syscall.SIGCONT)
	m.await(pings)

	m.say(in, "jam")
	m.silence(10 * watchdogTimeout)
	m.say(in, "free")
	m.await(pings)

	m.signal(p, syscall.SIGTERM)
	m.await(stops, pings)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	m.silence(10 * watchdogTimeout)
}

// TestOPS7_SystemdMissesAProcessThatIsKilled proves that a killed process sends nothing more.
func TestOPS7_SystemdMissesAProcessThatIsKilled(t *testing.T) {
	m := newManager(t)
	p, in := m.start()
	m.say(in, "store")
	m.await(isReady, pings)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // Wait returns an error because the process was killed.
	for got := m.next(10 * watchdogTimeout); got != ""; got = m.next(10 * watchdogTimeout) {
		if got == stops {
			t.Error("a killed process has announced its end")
		}
	}
}

// TestOPS7_SystemdWaitsForAllWorkersOfAProcess proves that a process is ready when all its workers
// are, and that it is stopping when the first one is. Without WatchdogSec there are no pings.
func TestOPS7_SystemdWaitsForAllWorkersOfAProcess(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "")
	w := flowtest.NewMemory(t)
	second := worker.New(w.Client, worker.Config{NoLocalStart: true})
	flowtest.Echoes(second)
	first := w.Work(worker.Config{}, flowtest.Echoes)
	stop, err := systemd.Notify(first.Worker, second)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	w.Eventually("the first is ready", func() bool { h := first.Health(); return len(h.NotReady()) == 0 })
	if got := m.next(500 * time.Millisecond); got != "" {
		t.Errorf("with one of two workers: got %q", got)
	}
	ctx, end := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- second.Run(ctx) }()
	m.await(isReady)
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	m.await(stops)
	stop()
	stop() // may be called again
	if got := m.next(300 * time.Millisecond); got != "" {
		t.Errorf("got %q twice", got)
	}
}

// TestOPS7_SystemdVariables proves what Notify does with the variables that systemd sets: nothing
// without a socket, no pings for the watchdog of another process, and errors that name the variable.
func TestOPS7_SystemdVariables(t *testing.T) {
	m := newManager(t)
	w := flowtest.NewMemory(t)
	r := w.Work(worker.Config{}, flowtest.Echoes)
	for name, tt := range map[string]struct {
		socket, timeout, pid string
		want                 []string // notifications
		err                  string
	}{
		"not started by systemd":      {"", "100000", "", nil, ""},
		"no watchdog":                 {m.path, "", "", []string{isReady, stops}, ""},
		"watchdog of another process": {m.path, "100000", "1", []string{isReady, stops}, ""},
		"watchdog":                    {m.path, "3600000000", fmt.Sprint(os.Getpid()), []string{isReady, pings, stops}, ""},
		"bad timeout":                 {m.path, "soon", "", nil, "WATCHDOG_USEC"},
		"no such socket":              {m.path + "x", "", "", nil, "NOTIFY_SOCKET"},
	} {
		t.Run(name, func(t *testing.T) {
			m.t = t
			w.Eventually("the worker is ready", func() bool { h := r.Health(); return len(h.NotReady()) == 0 })
			t.Setenv("NOTIFY_SOCKET", tt.socket)
			t.Setenv("WATCHDOG_USEC", tt.timeout)
			t.Setenv("WATCHDOG_PID", tt.pid)
			stop, err := systemd.Notify(r.Worker)
			if tt.err != "" {
				if err == nil || !flowtest.ContainsAll(err.Error(), tt.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stop()
			for _, want := range tt.want {
				m.await(want)
			}
			if got := m.next(50 * time.Millisecond); got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}
