package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server without persistence, started by this process.
type server struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	guard *exec.Cmd
	leash io.Closer // keeps the guard process waiting until closed
}

// startServer starts a redis-server on a free port. It retries with another port if another process
// takes the port first.
func startServer(ctx context.Context) (*server, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("find redis-server, which -store redis starts: %w", err)
	}
	for range 5 {
		var s *server
		if s, err = launch(ctx, binary); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("start redis-server: %w", err)
}

func launch(ctx context.Context, binary string) (_ *server, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String()}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "speed-redis-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	cmd := exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", filepath.Join(s.dir, "log"))
	apart(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.cmd = cmd
	if err := s.watch(); err != nil {
		return nil, fmt.Errorf("start the guard of the server: %w", err)
	}
	err = s.await(ctx)
	return s, err
}

// watch starts a process that kills the server when this process ends for any reason.
func (s *server) watch() error {
	guard := exec.Command("sh", "-c", "read _; kill -9 "+strconv.Itoa(s.cmd.Process.Pid))
	apart(guard)
	leash, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	s.guard, s.leash = guard, leash
	return nil
}

// await blocks until this server answers, and not another one that has taken the port.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = c.Close() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	want := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)
	for {
		if probe, err := net.Dial("tcp", s.addr); err == nil { // the client would log the failure
			_ = probe.Close()
			if info, err := c.Info(ctx, "server").Result(); err == nil && strings.Contains(info, want) {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not answer: %w: %s", ctx.Err(), said)
		}
	}
}

// stop ends the server and removes its directory.
func (s *server) stop() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // fails if it has ended
		_ = s.cmd.Wait()         // returns the signal as an error
	}
	if s.guard != nil {
		_ = s.guard.Process.Kill()
		_ = s.guard.Wait()
		_ = s.leash.Close()
	}
	return os.RemoveAll(s.dir)
}
