package databases

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startPostgreSQL starts a server on a free port and returns its URL. The server ends with the
// test. If PostgreSQL is missing, startPostgreSQL installs it and prints a message.
func startPostgreSQL(t testing.TB) string {
	t.Helper()
	bin, err := findPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "flowgen-postgresql-") //nolint:usetesting // the directory of the test is not accessible to another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	who, err := servant(dir)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if out, err := as(who, dir, filepath.Join(bin, "initdb"), "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	for range 10 {
		var url string
		if url, err = launch(t, who, bin, dir, data); err == nil {
			return url
		}
	}
	t.Fatal(err)
	return ""
}

// launch starts the server on a port that was free directly before.
func launch(t testing.TB, who *syscall.SysProcAttr, bin, dir, data string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return "", err
	}
	cmd := as(who, dir, filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir,
		"-c", "max_connections=200", "-c", "fsync=off")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); _ = log.Close(); close(ended) }()
	leash, err := guard(cmd.Process.Pid)
	stop := func() {
		if leash != nil {
			defer leash()
		}
		_ = cmd.Process.Signal(syscall.SIGQUIT) // the signal for an immediate shutdown, including child processes
		<-ended
	}
	if err != nil {
		stop()
		return "", err
	}
	url := fmt.Sprintf("postgres://test@127.0.0.1:%d/postgres?sslmode=disable", port)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if as(who, dir, filepath.Join(bin, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "test").Run() == nil {
			t.Cleanup(stop)
			return url, nil
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			return "", fmt.Errorf("postgres ended: %s", text)
		case <-time.After(20 * time.Millisecond):
		}
	}
	stop()
	return "", fmt.Errorf("postgres on port %d does not answer", port)
}

// guard starts a process that ends the server if the process of the test ends. release ends that
// process and leaves the server running.
func guard(pid int) (release func(), err error) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("cat >/dev/null; kill -QUIT %d 2>/dev/null", pid))
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // before closing its input, which would end the server
		_ = leash.Close()
		_ = cmd.Wait()
	}, nil
}

// servant returns the user that runs the server, and makes that user the owner of dir. PostgreSQL
// refuses to run as root.
func servant(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("user nobody has ids %s and %s", u.Uid, u.Gid)
	}
	who := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return who, os.Chown(dir, uid, gid)
}

func as(who *syscall.SysProcAttr, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = who
	return cmd
}

// findPostgreSQL returns the directory of the PostgreSQL programs. It installs PostgreSQL if
// necessary.
var findPostgreSQL = sync.OnceValues(func() (string, error) {
	if bin := installed(); bin != "" {
		return bin, nil
	}
	fmt.Fprintln(os.Stderr, "there is no PostgreSQL: installing it with apt-get")
	for _, command := range []string{
		"apt-get -qq -o DPkg::Lock::Timeout=300 update",
		"DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 install --no-install-recommends postgresql",
	} {
		if os.Getuid() != 0 {
			command = "sudo -n sh -c '" + command + "'"
		}
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			return "", fmt.Errorf("PostgreSQL is missing, and %q failed: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	if bin := installed(); bin != "" {
		return bin, nil
	}
	return "", fmt.Errorf("PostgreSQL is missing: install it, so that initdb is in the PATH")
})

// installed returns the directory of the PostgreSQL programs, from the PATH or from the directories
// that Debian uses. It is empty if they are not installed.
func installed() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(target)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}
