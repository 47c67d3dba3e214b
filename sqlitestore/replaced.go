package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ReplacedError says that the file of the store, or its write-ahead log, was deleted,
// moved or replaced while the store had it open. Later writes would go into
// a file that cannot be opened again, so nothing is acknowledged any more: operations
// that write fail with this error until the file is back, or the store is opened again.
type ReplacedError struct {
	Path string
	Gone bool // nothing is there; else another file is
}

// Error returns the path of the file and the fix.
func (e *ReplacedError) Error() string {
	what := "was replaced by another file"
	if e.Gone {
		what = "was deleted or moved"
	}
	return fmt.Sprintf("%s %s while the store had it open: nothing that is written is kept: "+
		"put the file back, or stop all processes that use it and start them again; copy a store with VACUUM INTO", e.Path, what)
}

// Permanent returns true, because repeating the request does not help.
func (e *ReplacedError) Permanent() bool { return true }

// opened is a file as it was when the store was opened.
type opened struct {
	path string
	info os.FileInfo
}

// remember records which files the store has opened. The write-ahead log is there as long
// as anybody has the database open.
func (s *Store) remember() error {
	for _, path := range []string{s.path, s.wal} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && path == s.wal {
			continue
		}
		if err != nil {
			return err
		}
		s.files = append(s.files, opened{path, info})
	}
	return nil
}

// inPlace returns a *ReplacedError if a path leads to another file than the one that is
// open. It is asked after each commit and before that is acknowledged: what was
// acknowledged was in the file to which the path led at that moment. That takes one stat
// per file, about a microsecond, for all operations that share a transaction. Why a stat
// fails otherwise is of no interest here: it is not known that the file is another one.
func (s *Store) inPlace() error {
	for i := range s.files {
		f := &s.files[i]
		same, err := f.inPlace()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &ReplacedError{Path: f.path, Gone: true}
		case err == nil && !same:
			return &ReplacedError{Path: f.path}
		}
	}
	return nil
}
