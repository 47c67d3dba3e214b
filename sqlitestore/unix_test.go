//go:build unix

package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func init() { roles["open"] = playOpener }

// playOpener opens a store as an unprivileged user and prints the error.
func playOpener(args []string) error {
	if os.Getuid() == 0 {
		const nobody = 65534
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	s, err := sqlitestore.Open(args[0])
	if err == nil {
		_, err = s.Create(context.Background(), []store.Create{newLog(s.Clock()).Create()})
		err = errors.Join(err, s.Close())
	}
	fmt.Println(strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	return nil
}

func TestOpen_SaysWhatTheUserMayNotDo(t *testing.T) {
	for name, test := range map[string]struct {
		file, dir os.FileMode
		want      string
	}{
		"unreadable file":     {0o000, 0o777, "cannot be opened"},
		"read-only file":      {0o444, 0o777, "cannot be written"},
		"read-only directory": {0o666, 0o555, "cannot be"},
		"closed directory":    {0o666, 0o000, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.Chmod(filepath.Dir(dir), 0o755))
			path := filepath.Join(dir, "runs.db")
			check(t, openStore(t, path, nil).Close())
			check(t, os.Chmod(path, test.file))
			check(t, os.Chmod(dir, test.dir))
			t.Cleanup(func() { check(t, os.Chmod(dir, 0o755)) })
			c := startChild(t, "open", path)
			got := c.line()
			c.wait()
			if !strings.Contains(got, test.want) || !strings.Contains(got, path) {
				t.Errorf("got %q, want %q and the path", got, test.want)
			}
		})
	}
}

// TestOpen_CreatesFilesForTheirUserAlone proves that new files are readable only for their user,
// because they contain the inputs and results of all runs. An existing file keeps its mode.
func TestOpen_CreatesFilesForTheirUserAlone(t *testing.T) {
	old := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(old) })
	dir := t.TempDir()
	modes := func() map[string]os.FileMode {
		got := map[string]os.FileMode{}
		files, err := os.ReadDir(dir)
		check(t, err)
		for _, f := range files {
			info, err := f.Info()
			check(t, err)
			got[f.Name()] = info.Mode()
		}
		return got
	}
	path := filepath.Join(dir, "runs.db")
	s := openStore(t, path, nil)
	start(t, s, 1)
	for _, name := range []string{"runs.db", "runs.db-wal", "runs.db-shm"} {
		if _, ok := modes()[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	locked := func() (all []string) {
		for name := range modes() {
			if strings.HasPrefix(name, "runs.db-worker-") {
				all = append(all, name)
			}
		}
		return all
	}
	openSession(t, s, "a")
	if locks := locked(); len(locks) != 1 {
		t.Errorf("there are the lock files %q, want one", locks)
	}
	for name, mode := range modes() {
		if mode != 0o600 {
			t.Errorf("%s has the mode %v, want -rw-------", name, mode)
		}
		if !strings.HasPrefix(name, "runs.db") {
			t.Errorf("%s is left behind", name)
		}
	}
	check(t, s.CloseSession(testContext(t), 0, "a"))
	check(t, s.Close())
	check(t, os.Chmod(path, 0o640))
	again := openStore(t, path, nil)
	openSession(t, again, "b")
	for _, name := range append(locked(), "runs.db") {
		if mode := modes()[name]; mode != 0o640 {
			t.Errorf("beside a file that was there %s has the mode %v, want -rw-r-----", name, mode)
		}
	}
	check(t, again.Close())
}

func TestClaim_TakesNothingFromAStoppedProcessBeforeItsLeaseIsPast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	start(t, openStore(t, path, nil), 2)
	holder := startHolder(t, path, 2)
	check(t, holder.cmd.Process.Signal(syscall.SIGSTOP))

	// The clock of this store is ahead, so that the lease of the holder has expired.
	clock := storetest.NewClock()
	s := openStore(t, path, clock)
	openSession(t, s, "successor")
	for range 200 {
		if got := claim(t, s, "successor", 10); len(got) != 0 {
			t.Fatalf("claimed %d runs of a process that is only stopped", len(got))
		}
	}
	for range 20 { // only the other session renews its lease
		clock.Advance(5 * time.Second)
		openSession(t, s, "successor")
	}
	got, err := s.Claim(testContext(t), claimOf("successor", 10))
	check(t, err)
	if len(got.Runs) != 2 {
		t.Fatalf("claimed %d runs of a process whose lease is past, want 2", len(got.Runs))
	}
	entries, err := s.Audit(testContext(t), got.Runs[0].Run)
	check(t, err)
	if len(entries) != 1 || entries[0].Reason != store.ReasonExpiredClaim {
		t.Errorf("audit: got %+v, want an expired claim", entries)
	}
	check(t, holder.cmd.Process.Signal(syscall.SIGCONT))
	holder.say("beat")
	if got := holder.line(); got != "true" {
		t.Errorf("heartbeat of the continued process expired: got %s, want true", got)
	}
	check(t, holder.in.Close())
	holder.wait()
	verify(t, s)
}
