package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// errDamaged says that rows of the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// explain adds the file and what to do about it to an error of SQLite. An error
// that says so already is left alone.
func (s *Store) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrForeign),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, new(*store.VersionError)), errors.As(err, new(*ReplacedError)):
		return err
	}
	hint := ""
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		hint = "no room on the disk, nothing was written: "
	case sqlite.ResultNotADB:
		return fmt.Errorf("%w: %s is not an SQLite database: choose another path, or restore the file from a backup: %w", store.ErrForeign, s.path, err)
	case sqlite.ResultCorrupt:
		hint = "the file is damaged, restore it from a backup: "
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		hint = "the file or its directory cannot be written: "
	case sqlite.ResultCantOpen:
		hint = "the file, or its -wal or -shm file, cannot be opened: "
	case sqlite.ResultBusy, sqlite.ResultLocked:
		hint = "another process does not let go of it: "
	}
	return fmt.Errorf("%s: %s%w", s.path, hint, err)
}

// ofOneRun reports whether an error may be about a single run: others may be worked with.
func ofOneRun(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultTooBig:
		return true
	}
	return false
}

// aboutRun names the run that such an error is about.
func aboutRun(run event.RunID, bytes int, err error) error {
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultTooBig {
		return &store.TooLargeError{Run: run, Bytes: bytes, Err: err}
	}
	return &store.DamagedError{Run: run, Err: err}
}

// heard is told the error of an operation in the name of a session.
func (n *notifier) heard(session store.SessionID, err error) {
	if errors.Is(err, store.ErrExpired) {
		n.waiters.CloseSession(session)
	}
}
