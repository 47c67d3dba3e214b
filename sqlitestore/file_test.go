package sqlitestore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestOpen_RefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		"":                                  "memstore",
		":memory:":                          "memstore",
		"file::memory:?cache=shared":        "memstore",
		"file:orders.db?mode=memory":        "memstore",
		"file:orders.db":                    "plain path",
		"sqlite:orders.db":                  "plain path",
		"orders\x00.db":                     "zero byte",
		dir:                                 "is a directory",
		os.DevNull:                          "not a regular file",
		filepath.Join(dir, "no", "runs.db"): "directory " + filepath.Join(dir, "no") + " does not exist: create it first",
	} {
		s, err := sqlitestore.Open(path)
		if err == nil {
			t.Errorf("open %q succeeded, want an error with %q", path, want)
			check(t, s.Close())
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("open %q: got error %q, want one with %q", path, err, want)
		}
	}
	if got := files(t, dir); got != "" {
		t.Errorf("files left behind: %s", got)
	}
}

func TestOpen_TakesAPathLiterally(t *testing.T) {
	dir := t.TempDir()
	const name = "a b?mode=ro#100%41_%.db"
	s := openStore(t, filepath.Join(dir, name), nil)
	start(t, s, 1)
	check(t, s.Close())
	if got := files(t, dir); got != name {
		t.Errorf("files: got %s, want only %s", got, name)
	}
}

func TestOpen_MakesAnEmptyFileAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	check(t, os.WriteFile(path, nil, 0o600))
	s := openStore(t, path, nil)
	start(t, s, 1)
	if got := len(verify(t, s).Runs); got != 1 {
		t.Errorf("runs: got %d, want 1", got)
	}
}

func TestOpen_RefusesForeignFilesAndLeavesThemAlone(t *testing.T) {
	dir := t.TempDir()
	database := filepath.Join(dir, "other.db")
	execSQL(t, database, `CREATE TABLE customers (name TEXT)`)
	marked := filepath.Join(dir, "marked.db")
	execSQL(t, marked, `PRAGMA application_id = 7`)
	for path, content := range map[string][]byte{
		filepath.Join(dir, "short.txt"): []byte("hello"),
		filepath.Join(dir, "long.txt"):  bytes.Repeat([]byte("All work and no play. "), 1000),
		filepath.Join(dir, "zero.bin"):  make([]byte, 10000),
		database:                        nil,
		marked:                          nil,
	} {
		if content != nil {
			check(t, os.WriteFile(path, content, 0o600))
		}
		before, err := os.ReadFile(path)
		check(t, err)
		s, err := sqlitestore.Open(path)
		if err == nil {
			t.Errorf("open %s succeeded, want an error", path)
			check(t, s.Close())
			continue
		}
		if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "choose another path") {
			t.Errorf("open %s: got error %q, want a foreign store, the path, and the fix", path, err)
		}
		after, err := os.ReadFile(path)
		check(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func execSQL(t *testing.T, path, sql string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	check(t, err)
	check(t, sqlitex.ExecuteTransient(c, sql, nil))
	check(t, c.Close())
}

func TestOpen_RefusesAFileOfAnotherVersionAndLeavesItAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	check(t, openStore(t, path, nil).Close())
	execSQL(t, path, `PRAGMA user_version = 99`)
	before, err := os.ReadFile(path)
	check(t, err)
	s, err := sqlitestore.Open(path)
	var version *store.VersionError
	if !errors.As(err, &version) {
		t.Fatalf("open: got %v, %v, want a version error", s, err)
	}
	if version.What != path || version.Got != 99 || version.Known != 1 {
		t.Errorf("got %+v, want version 99 of %s, and 1 known", version, path)
	}
	after, err := os.ReadFile(path)
	check(t, err)
	if !slices.Equal(before, after) {
		t.Error("the file was changed")
	}
}

func TestOpen_ManyAtOnceOfANewFileAllSucceed(t *testing.T) {
	for range 10 {
		path := filepath.Join(t.TempDir(), "runs.db")
		var g errgroup.Group
		for range 8 {
			g.Go(func() error {
				s, err := sqlitestore.Open(path)
				if err != nil {
					return err
				}
				_, err = s.Create(context.Background(), []store.Create{newLog(s.Clock()).Create()})
				return errors.Join(err, s.Close())
			})
		}
		check(t, g.Wait())
		s := openStore(t, path, nil)
		if got := len(verify(t, s).Runs); got != 8 {
			t.Errorf("runs: got %d, want 8", got)
		}
		check(t, s.Close())
	}
}

func TestLoad_OfADamagedFileSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	start(t, s, 500)
	check(t, s.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	info, err := f.Stat()
	check(t, err)
	// Overwrite all pages except the first.
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(info.Size())-4096), 4096)
	check(t, err)
	check(t, f.Close())

	damaged, err := sqlitestore.Open(path)
	if err == nil {
		_, err = damaged.List(testContext(t), store.Query{})
		check(t, damaged.Close())
	}
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
		t.Fatalf("got error %v, want that SQLite found damage", err)
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "damaged, restore it from a backup") {
		t.Errorf("got error %q, want the path and the fix", err)
	}
}

func TestClose_LeavesOneFileThatHasEverything(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.db")
	s := openStore(t, path, nil)
	start(t, s, 10)
	openSession(t, s, "a")
	check(t, s.CloseSession(testContext(t), 0, "a"))
	check(t, s.Close())
	check(t, s.Close())
	if got := files(t, dir); got != "runs.db" {
		t.Fatalf("files: got %s, want only the database", got)
	}
	other := filepath.Join(t.TempDir(), "copy.db")
	check(t, copyFile(path, other))
	if got := len(verify(t, openStore(t, other, nil)).Runs); got != 10 {
		t.Errorf("runs in the copy: got %d, want 10", got)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close(), out.Close())
}

func TestOpen_SweepsTheLocksOfDeadProcesses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs.db")
	s := openStore(t, path, nil)
	openSession(t, s, "a")
	// This lock file belongs to a process that was killed after its sessions were closed.
	check(t, os.WriteFile(path+"-worker-0123456789abcdef.lock", nil, 0o600))
	// This file belongs to another program.
	check(t, os.WriteFile(path+".lock", nil, 0o600))
	other := openStore(t, path, nil)
	if got := files(t, dir); strings.Contains(got, "0123456789abcdef") || !strings.Contains(got, "runs.db.lock") || strings.Count(got, "-worker-") != 1 {
		t.Errorf("files: got %s, want those of this store and runs.db.lock", got)
	}
	openSession(t, other, "b")
	if got := claim(t, other, "b", 1); len(got) != 0 || len(verify(t, other).Leases) != 2 {
		t.Error("the sweep has ended the session of a living store")
	}
}

func TestStoreOpen_KnowsSQLiteFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := store.Open(testContext(t), "sqlite:"+path)
	check(t, err)
	start(t, s, 1)
	check(t, s.Close())
	if got := len(verify(t, openStore(t, path, nil)).Runs); got != 1 {
		t.Errorf("runs: got %d, want 1", got)
	}
}

func TestOpenWith_SetsWhatAnAnswerSurvives(t *testing.T) {
	for mode, want := range map[sqlitestore.Synchronous]string{sqlitestore.Normal: "NORMAL", sqlitestore.Full: "FULL"} {
		if got := mode.String(); got != want {
			t.Errorf("name of mode %d: got %s, want %s", mode, got, want)
		}
	}
	_, err := sqlitestore.OpenWith(filepath.Join(t.TempDir(), "runs.db"), sqlitestore.Config{Synchronous: 9})
	if err == nil || !strings.Contains(err.Error(), "Synchronous(9)") {
		t.Errorf("open with an unknown mode: got error %v, want one that names it", err)
	}
}
