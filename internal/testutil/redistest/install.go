package redistest

import (
	"os/exec"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/install"
)

// Binary returns the path of redis-server. If redis-server is missing, Binary installs it and logs
// this. If the installation fails, Binary fails the test.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Valkey returns the path of valkey-server, or "" if the machine has none.
func Valkey() string {
	path, _ := exec.LookPath("valkey-server")
	return path
}

var find = sync.OnceValues(func() (string, error) {
	return install.Program("redis-server", map[string]string{
		"apt-get": "redis-server", "dnf": "redis", "apk": "redis", "pacman": "redis", "brew": "redis",
	})
})
