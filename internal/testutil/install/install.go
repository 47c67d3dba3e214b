// Package install finds programs that tests need, and installs them if they are missing.
package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Program returns the path of a program. If the program is missing, Program installs it and logs
// this. packages contains the name of the program's package by package manager.
func Program(name string, packages map[string]string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	// The lock is necessary because tests of other packages may install at the same time, and two
	// concurrent calls of apt-get update fail.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "redistest-install.lock"), os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // tests of other users lock it, too
	if err != nil {
		return "", fmt.Errorf("install %s: %w", name, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("install %s: lock %s: %w", name, lock.Name(), err)
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, m := range managers {
		if _, err := exec.LookPath(m.name); err != nil || packages[m.name] == "" {
			continue
		}
		fmt.Fprintf(os.Stderr, "there is no %s: installing it with %s\n", name, m.name)
		for _, command := range m.commands {
			cmd := exec.Command("sh", "-c", m.asRoot(command, packages[m.name]))
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("%s is missing, and %q failed: %w: %s", name, command, err, LastLine(out))
			}
		}
		return exec.LookPath(name)
	}
	return "", fmt.Errorf("%s is missing, and there is no package manager to install it with", name)
}

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
		"DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends PACKAGE",
	}},
	{"dnf", true, []string{"dnf -q -y install PACKAGE"}},
	{"apk", true, []string{"apk -q add PACKAGE"}},
	{"pacman", true, []string{"pacman -S --noconfirm --quiet PACKAGE"}},
	{"brew", false, []string{"brew install -q PACKAGE"}},
}

func (m manager) asRoot(command, pkg string) string {
	command = strings.ReplaceAll(command, "PACKAGE", pkg)
	if !m.root || os.Getuid() == 0 {
		return command
	}
	return "sudo -n sh -c '" + command + "'"
}

// LastLine returns the last line of the output of a command.
func LastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
