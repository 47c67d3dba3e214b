// Package db contains the parts of package sqlitestore that do not depend on runs: connections and
// their statements (conn.go), the proof that a process has ended (lock.go), and the check that a
// path still leads to the open file.
package db

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
)

// Conn is a connection to the database. It prepares statements once and caches them. It must not be
// used concurrently.
type Conn struct {
	*sqlite.Conn
	Executed   atomic.Int64              // number of executed statements, for tests
	Expand     func(query string) string // transforms the text of each query before it is prepared; may be nil
	statements map[string]*prepared      // prepared statements by their text
}

// Row is the current row of a query.
type Row = *sqlite.Stmt

// New returns a Conn that uses an open connection.
func New(raw *sqlite.Conn) *Conn { return &Conn{Conn: raw, statements: map[string]*prepared{}} }

// Connect opens a connection and sets the pragmas. Both need the lock of the file briefly. Connect
// waits for another process that holds the lock until ctx is done.
func Connect(ctx context.Context, path string, flags sqlite.OpenFlags, pragmas ...string) (*Conn, error) {
	// Without the flag OpenURI, a path may contain any characters.
	raw, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := New(raw)
	// Retry waits for locks instead, because that wait can be canceled.
	c.SetBusyTimeout(0)
	if err := c.Configure(ctx, append(pragmas, `temp_store = MEMORY`)...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Configure sets pragmas.
func (c *Conn) Configure(ctx context.Context, pragmas ...string) error {
	for _, pragma := range pragmas {
		if err := Retry(ctx, func() error { return c.ExecOnce(`PRAGMA ` + pragma) }); err != nil {
			return err
		}
	}
	return nil
}

// Exec executes a statement that returns no rows.
func (c *Conn) Exec(query string, args ...any) error {
	return c.Query(query, nil, args...)
}

// Query calls each for every row. Arguments are nil, bool, int, int64, uint64, string, event.RunID
// or []byte; a nil []byte is null. The statement is cached.
//
// Write a parameter in a condition as +?, which has the same meaning as ?. SQLite uses the value of
// a bare ? to choose a plan. It would then prepare the statement again for each new value, which
// costs twenty times as much as the execution.
func (c *Conn) Query(query string, each func(Row) error, args ...any) error {
	s, err := c.statement(query)
	if err != nil {
		return err
	}
	s.check(query, len(args))
	return Step(s.Stmt, each, args)
}

// ExecBinding executes a statement whose parameters are bound by bind. bind returns the number of
// parameters.
func (c *Conn) ExecBinding(query string, bind func(s *sqlite.Stmt) int) error {
	s, err := c.statement(query)
	if err != nil {
		return err
	}
	s.check(query, bind(s.Stmt))
	return Step(s.Stmt, nil, nil)
}

// prepared is a cached statement.
type prepared struct {
	*sqlite.Stmt
	params int
}

// check panics unless the statement has exactly n parameters. An unbound parameter would have the
// value of the last execution.
func (s *prepared) check(query string, n int) {
	if n != s.params {
		panic("sqlitestore: " + strconv.Itoa(n) + " arguments for " + strconv.Itoa(s.params) + " parameters of " + query)
	}
}

// statement returns a cached statement, ready for execution. It needs no reset, because Step leaves
// statements reset and each execution binds all parameters.
func (c *Conn) statement(query string) (*prepared, error) {
	c.Executed.Add(1)
	query = c.expand(query)
	if s := c.statements[query]; s != nil {
		return s, nil
	}
	raw, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &prepared{raw, raw.BindParamCount()}
	c.statements[query] = s
	return s, nil
}

func (c *Conn) expand(query string) string {
	if c.Expand == nil {
		return query
	}
	return c.Expand(query)
}

// QueryOnce is like Query for a statement without arguments that is not cached.
func (c *Conn) QueryOnce(query string, each func(Row) error) error {
	s, _, err := c.PrepareTransient(c.expand(query))
	if err != nil {
		return err
	}
	return errors.Join(Step(s, each, nil), s.Finalize())
}

// Step binds the arguments and iterates over the rows.
func Step(s *sqlite.Stmt, each func(Row) error, args []any) (err error) {
	for i, arg := range args {
		bind(s, i+1, arg)
	}
	// A statement that is not reset holds its locks, and cannot be executed again. It is also reset
	// if each panics. The reset after an error returns the same error.
	defer func() {
		if reset := s.Reset(); err == nil {
			err = reset
		}
	}()
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		if each == nil {
			continue
		}
		if err := each(s); err != nil {
			return err
		}
	}
}

func bind(s *sqlite.Stmt, param int, arg any) {
	switch v := arg.(type) {
	case nil:
		s.BindNull(param)
	case bool:
		s.BindBool(param, v)
	case int:
		s.BindInt64(param, int64(v))
	case int64:
		s.BindInt64(param, v)
	case uint64:
		s.BindInt64(param, int64(v))
	case string:
		s.BindText(param, v)
	case event.RunID:
		BindRun(s, param, v)
	case []byte:
		if v == nil {
			s.BindNull(param)
			return
		}
		s.BindBytes(param, v)
	default:
		// fmt.Sprintf would move all arguments of all statements to the heap.
		panic("sqlitestore: bind parameter " + strconv.Itoa(param) + ": type " + reflect.TypeOf(arg).String())
	}
}

// ExecOnce executes a statement without caching it.
func (c *Conn) ExecOnce(query string) error { return c.QueryOnce(query, nil) }

// Number returns the first column of the first row, or 0 if there is no row.
func (c *Conn) Number(query string, args ...any) (int64, error) {
	var n int64
	err := c.Query(query, func(r Row) error { n = r.ColumnInt64(0); return nil }, args...)
	return n, err
}

// Pragma returns the value of a pragma.
func (c *Conn) Pragma(name string) (int64, error) { return c.Number("PRAGMA " + name) }

// DataVersion is a query for a number that changes when another connection writes.
const DataVersion = `PRAGMA data_version`

// Immediate executes f in a transaction that holds the write lock.
func (c *Conn) Immediate(ctx context.Context, f func() error) error {
	if err := Retry(ctx, func() error { return c.Exec(`BEGIN IMMEDIATE`) }); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = c.Exec(`COMMIT`)
	}
	if err != nil {
		return errors.Join(err, c.Rollback())
	}
	return nil
}

// Rollback ends the transaction, unless an error has already ended it.
func (c *Conn) Rollback() error {
	if c.AutocommitEnabled() {
		return nil
	}
	return c.Exec(`ROLLBACK`)
}

// Retry calls f until it returns no error of a held lock, or until ctx is done.
func Retry(ctx context.Context, f func() error) error {
	for attempt := 0; ; attempt++ {
		err := f()
		if !Busy(err) {
			return err
		}
		select {
		case <-time.After(Backoff(attempt)):
		case <-ctx.Done():
			return err
		}
	}
}

// Busy reports whether err is a temporary conflict with another connection.
func Busy(err error) bool {
	if err == nil {
		return false
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol:
		return true
	}
	return false
}

// Backoff returns the pause before the next attempt. It begins with a tenth of a millisecond, which
// is short enough for the gaps of a busy process, and grows to about 2 ms.
func Backoff(attempt int) time.Duration {
	limit := min(100*time.Microsecond<<min(attempt/4, 10), 1500*time.Microsecond)
	return limit/2 + rand.N(limit)
}

const runPrefix = event.PrefixRun + "_"

// BindRun binds the stored form of a run ID. This is the 16 bytes of its ULID, which sort like the
// IDs. For an ID without a ULID it is the text, and for the empty ID null.
func BindRun(s *sqlite.Stmt, param int, id event.RunID) {
	if id == "" {
		s.BindNull(param)
		return
	}
	if text, ok := strings.CutPrefix(string(id), runPrefix); ok {
		// ULIDs are case-insensitive, but IDs are not. Pack the ID only if unpacking restores it
		// exactly.
		if u, err := ulid.ParseStrict(text); err == nil {
			var again [ulid.EncodedSize]byte
			if _ = u.MarshalTextTo(again[:]); string(again[:]) == text {
				s.BindBytes(param, u[:])
				return
			}
		}
	}
	s.BindText(param, string(id))
}

// UnpackRun returns the run ID that BindRun has stored.
func UnpackRun(r Row, col int) event.RunID {
	switch r.ColumnType(col) {
	case sqlite.TypeBlob:
		var u ulid.ULID
		r.ColumnBytes(col, u[:])
		id := make([]byte, len(runPrefix)+ulid.EncodedSize)
		_ = u.MarshalTextTo(id[copy(id, runPrefix):]) // cannot fail, because the buffer is large enough
		return event.RunID(id)
	case sqlite.TypeText:
		return event.RunID(r.ColumnText(col))
	}
	return ""
}

// File identifies a file that the store has opened.
type File struct {
	Path string
	info os.FileInfo
}

// Identify returns the identity of the file to which the path leads now.
func Identify(path string) (File, error) {
	info, err := os.Stat(path)
	return File{path, info}, err
}
