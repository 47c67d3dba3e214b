package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Example starts a server for an example function, which has no testing.T. It returns the URL of
// the server and a function that stops the server.
func Example(settings ...string) (url string, stop func()) {
	binary, err := find()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		panic(err)
	}
	s, err := launch(binary, dir, settings)
	if err != nil {
		panic(err)
	}
	return s.URL(), func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	}
}

// Dir returns the directory in which the server keeps its files.
func (s *Server) Dir() string { return s.dir }

// RestartWith restarts a killed server with additional settings. The settings also apply to later
// restarts. RestartWith returns when the server answers, which may be before the server has loaded
// its data.
func (s *Server) RestartWith(t testing.TB, settings ...string) {
	t.Helper()
	s.mu.Lock()
	s.args = slices.Concat(s.args, settings)
	s.mu.Unlock()
	s.Restart(t)
}

// RestartSlowly saves the data of a server, kills the server, and restarts it with a delay of
// perKey for each key that it loads. While it loads, the server answers with LOADING.
func (s *Server) RestartSlowly(t testing.TB, perKey time.Duration) {
	t.Helper()
	if err := s.Client(t).Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.RestartWith(t, "--key-load-delay", strconv.FormatInt(perKey.Microseconds(), 10), "--loading-process-events-interval-bytes", "1024")
}

// LoseTail truncates the append-only file of a killed server by bytes, like a power failure that
// loses data which was not on disk.
func (s *Server) LoseTail(t testing.TB, bytes int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("got %d files", len(files))
	}
	if err != nil {
		t.Fatalf("find the append-only file of %s: %v", s.Addr, err)
	}
	stat, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if stat.Size() <= bytes {
		t.Fatalf("the append-only file of %s has %d bytes, and is to lose %d", s.Addr, stat.Size(), bytes)
	}
	if err := os.Truncate(files[0], stat.Size()-bytes); err != nil {
		t.Fatal(err)
	}
}

// Signal sends a signal to the server, such as SIGSTOP.
func (s *Server) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Errorf("send %v to the server on %s: %v", sig, s.Addr, err)
	}
}

// Pid returns the process ID of the running server.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}
