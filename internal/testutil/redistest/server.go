package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/install"
)

// Server is a redis-server process that belongs to the test.
type Server struct {
	Addr string // host and port

	binary string
	dir    string
	args   []string
	mu     sync.Mutex
	cmd    *exec.Cmd
	guard  *exec.Cmd
	leash  io.Closer // if closed, the guard process kills the server
}

// Start starts a server with additional settings, such as "--appendonly", "yes". The server is
// stopped at the end of the test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	return startFrom(t, Binary(t), t.TempDir(), settings...)
}

// StartBinary is like Start for a server program other than redis-server.
func StartBinary(t testing.TB, binary string, settings ...string) *Server {
	t.Helper()
	return startFrom(t, binary, t.TempDir(), settings...)
}

func startFrom(t testing.TB, binary, dir string, settings ...string) *Server {
	t.Helper()
	s, err := launch(binary, dir, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// launch starts a server in a directory. If another process takes the free port first, launch tries
// another port.
func launch(binary, dir string, settings []string) (*Server, error) {
	return launchConfigured(binary, dir, nil, append([]string{"--save", "", "--appendonly", "no"}, settings...))
}

// launchConfigured is like launch, but passes before as the first arguments, and no default
// settings.
func launchConfigured(binary, dir string, before, settings []string) (*Server, error) {
	var err error
	for range 10 {
		var port, bus int
		if port, bus, err = freePorts(); err != nil {
			return nil, err
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), binary: binary, dir: dir}
		s.args = slices.Concat(before, []string{
			"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(bus),
			"--dir", dir, "--daemonize", "no", "--logfile", filepath.Join(dir, "log"),
		}, settings)
		if err = s.start(); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func freePorts() (port, bus int, err error) {
	one, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("find a free port: %w", err)
	}
	defer one.Close()
	two, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, fmt.Errorf("find a free port: %w", err)
	}
	defer two.Close()
	number := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	return number(one), number(two), nil
}

// URL returns the URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Client returns a client of the server, which is closed at the end of the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill kills the server with SIGKILL. It has no effect if the server is not running.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails if the process has ended
	_ = s.cmd.Wait()         // returns the signal as an error
	s.cmd = nil
	_ = s.guard.Process.Kill()
	_ = s.guard.Wait()
	_ = s.leash.Close()
}

// Restart restarts a killed server on the same port and with the data in its directory.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := exec.Command(s.binary, s.args...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.binary, err)
	}
	if err := s.await(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("start %s on %s: %w%s", s.binary, s.Addr, err, s.lastLog())
	}
	if err := s.watch(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	s.cmd = cmd
	return nil
}

// await waits until the server on the port answers with the process ID pid. Another server may have
// taken the port.
func (s *Server) await(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	return poll(ctx, "the server does not answer", func() bool {
		probe, err := net.Dial("tcp", s.Addr) // a failed probe is not logged, unlike a failed connection of the client
		if err != nil {
			return false
		}
		_ = probe.Close()
		info, err := c.Info(ctx, "server").Result()
		return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid))
	})
}

// watch starts a guard process. It kills the server when the test process ends, for whatever
// reason.
func (s *Server) watch(pid int) error {
	s.guard = exec.Command("sh", "-c", "read _; kill -9 "+strconv.Itoa(pid))
	in, err := s.guard.StdinPipe()
	if err == nil {
		err = s.guard.Start()
	}
	if err != nil {
		return fmt.Errorf("start the guard of a server: %w", err)
	}
	s.leash = in
	return nil
}

// lastLog returns the last line of the server's log, for error messages.
func (s *Server) lastLog() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil || len(b) == 0 {
		return ""
	}
	return ": " + install.LastLine(b)
}

// poll calls done until done returns true. It returns an error with the text otherwise if ctx ends
// first.
func poll(ctx context.Context, otherwise string, done func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New(otherwise)
		}
	}
	return nil
}

// StartSentinel starts a Sentinel that monitors a master under the given name.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // in a file, because the Sentinel changes its configuration
	conf := fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\n", name, host, port, name)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := launchConfigured(Binary(t), dir, []string{file, "--sentinel"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}
