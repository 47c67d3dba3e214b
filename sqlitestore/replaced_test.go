//go:build linux || darwin

package sqlitestore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestWrite_IsNotAcknowledgedOnceTheFileIsAnother(t *testing.T) {
	for name, tt := range map[string]struct {
		harm func(t *testing.T, dir, path string)
		gone bool
	}{
		"deleted":             {func(t *testing.T, _, path string) { check(t, os.Remove(path)) }, true},
		"deleted with all":    {func(t *testing.T, _, path string) { removeAll(t, path) }, true},
		"moved":               {func(t *testing.T, dir, path string) { check(t, os.Rename(path, filepath.Join(dir, "other"))) }, true},
		"directory is moved":  {func(t *testing.T, dir, _ string) { check(t, os.Rename(dir, dir+"-moved")) }, true},
		"log is deleted":      {func(t *testing.T, _, path string) { check(t, os.Remove(path+"-wal")) }, true},
		"replaced by a store": {func(t *testing.T, dir, path string) { replace(t, dir, path) }, false},
		"replaced by a text": {func(t *testing.T, _, path string) {
			check(t, os.Remove(path))
			check(t, os.WriteFile(path, []byte("text"), 0o600))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			check(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "runs.db")
			s := openStore(t, path, nil)
			start(t, s, 2)
			tt.harm(t, dir, path)
			for range 2 {
				l := newLog(s.Clock())
				got, err := s.Create(testContext(t), []store.Create{l.Create()})
				var replaced *sqlitestore.ReplacedError
				if !errors.As(err, &replaced) || replaced.Gone != tt.gone {
					t.Fatalf("create: got %v, %v, want a ReplacedError, gone: %t", got, err, tt.gone)
				}
				var permanent store.PermanentError
				if !errors.As(err, &permanent) || !permanent.Permanent() {
					t.Errorf("the error is not permanent: %v", err)
				}
			}
		})
	}
}

func TestWrite_GoesOnWhenTheFileIsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	check(t, os.Rename(path, path+".away"))
	if _, err := s.Create(testContext(t), []store.Create{newLog(s.Clock()).Create()}); !errors.As(err, new(*sqlitestore.ReplacedError)) {
		t.Fatalf("create while the file is away: got %v, want a ReplacedError", err)
	}
	check(t, os.Rename(path+".away", path))
	start(t, s, 1)
}

func TestWrite_NoticesALinkThatLeadsElsewhere(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link.db")
	start(t, openStore(t, filepath.Join(dir, "b.db"), nil), 1)
	check(t, os.Symlink("a.db", link))
	s := openStore(t, link, nil)
	start(t, s, 1)
	check(t, os.Remove(link))
	check(t, os.Symlink("b.db", link))
	var replaced *sqlitestore.ReplacedError
	if _, err := s.Create(testContext(t), []store.Create{newLog(s.Clock()).Create()}); !errors.As(err, &replaced) || replaced.Gone {
		t.Fatalf("create: got %v, want a ReplacedError", err)
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	all, err := filepath.Glob(path + "*")
	check(t, err)
	for _, f := range all {
		check(t, os.RemoveAll(f))
	}
}

// replace moves another store to the path of the open file.
func replace(t *testing.T, dir, path string) {
	t.Helper()
	other := filepath.Join(dir, "other.db")
	s, err := sqlitestore.Open(other)
	check(t, err)
	check(t, s.Close())
	check(t, os.Rename(other, path))
}
