package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
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
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	// The lock is necessary because tests of other packages may install at the same time, and two
	// concurrent calls of apt-get update fail.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "redistest-install.lock"), os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // tests of other users lock it, too
	if err != nil {
		return "", fmt.Errorf("install redis-server: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("install redis-server: lock %s: %w", lock.Name(), err)
	}
	if path, err := exec.LookPath("redis-server"); err == nil {
		return path, nil
	}
	for _, m := range managers {
		if _, err := exec.LookPath(m.name); err != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "redistest: there is no redis-server: installing it with %s\n", m.name)
		for _, command := range m.commands {
			cmd := exec.Command("sh", "-c", m.asRoot(command))
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("redis-server is missing, and %q failed: %w: %s", command, err, lastLine(out))
			}
		}
		return exec.LookPath("redis-server")
	}
	return "", fmt.Errorf("redis-server is missing, and there is no package manager to install it with: install Redis 7.0 or later")
})

// manager is a package manager.
type manager struct {
	name     string
	root     bool // whether the command requires root
	commands []string
}

// managers are tried in this order. apt-get waits for other installations.
var managers = []manager{
	{"apt-get", true, []string{
		"apt-get -qq -o DPkg::Lock::Timeout=300 update",
		"DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends redis-server",
	}},
	{"dnf", true, []string{"dnf -q -y install redis"}},
	{"apk", true, []string{"apk -q add redis"}},
	{"pacman", true, []string{"pacman -S --noconfirm --quiet redis"}},
	{"brew", false, []string{"brew install -q redis"}},
}

func (m manager) asRoot(command string) string {
	if !m.root || os.Getuid() == 0 {
		return command
	}
	return "sudo -n sh -c '" + command + "'"
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
