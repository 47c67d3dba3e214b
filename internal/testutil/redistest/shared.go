package redistest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// shared contains the servers that all tests of a binary share. Without them, starting a server for
// each test would take most of the time.
var shared struct {
	mu      sync.Mutex
	dir     string
	server  *Server
	cluster *Cluster
}

// Main executes the tests of a package and stops the shared servers. It then fails if goroutines
// leak. TestMain calls Main, which does not return.
func Main(m *testing.M) {
	code := m.Run()
	stopShared()
	if code == 0 {
		if err := leaks(); err != nil {
			fmt.Fprintln(os.Stderr, "redistest: after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks returns an error if goroutines leak. It waits several seconds for goroutines of go-redis
// that try to connect. Such a goroutine sleeps for up to a second before it notices that its client
// was closed.
func leaks() error {
	err := goleak.Find()
	for range 5 {
		if err == nil {
			return nil
		}
		err = goleak.Find()
	}
	return err
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.Kill()
	}
	if shared.cluster != nil {
		shared.cluster.kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
}

// sharedDir returns a directory that exists as long as the shared servers. The caller must hold
// shared.mu.
func sharedDir(t testing.TB) string {
	t.Helper()
	if shared.dir == "" {
		dir, err := os.MkdirTemp("", "redistest") //nolint:usetesting // it lasts longer than the test
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = dir
	}
	return shared.dir
}

// Shared returns the server that all tests of a binary share. TestMain must call Main. Each test
// must use its own key prefix.
func Shared(t testing.TB) *Server {
	t.Helper()
	binary := Binary(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s, err := launch(binary, sharedDir(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	return shared.server
}

// SharedCluster returns the cluster that all tests of a binary share. TestMain must call Main.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	binary := Binary(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		c, err := launchCluster(binary, sharedDir(t), false)
		if err != nil {
			t.Fatal(err)
		}
		shared.cluster = c
	}
	return shared.cluster
}

var prefixes atomic.Int64

// Prefix returns a key prefix that no other test of the binary uses.
func Prefix() string { return fmt.Sprintf("t%d", prefixes.Add(1)) }
