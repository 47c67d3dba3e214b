package sqlitestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
)

// conn is a connection to the database. Statements are prepared once and kept.
// Only one goroutine may use it at a time.
type conn struct {
	*sqlite.Conn
	executed   atomic.Int64           // statements, for tests that count them
	damages    *damages               // what queries leave out
	statements map[string]*prepared   // by their text
	updates    [allColumns + 1]string // the statements of updateOf, once they were used
}

// row is the present row of a query.
type row = *sqlite.Stmt

// connect opens a connection and sets the pragmas. Even those need the lock of
// the file for a moment, which another process may have until ctx ends.
func connect(ctx context.Context, path string, flags sqlite.OpenFlags, pragmas ...string) (*conn, error) {
	// No OpenURI: a path is a path, whatever characters it has.
	raw, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, statements: map[string]*prepared{}}
	// Waiting for a lock is done here, by retry, where it can be given up.
	c.SetBusyTimeout(0)
	if err := c.configure(ctx, append(pragmas, `temp_store = MEMORY`)...); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *conn) configure(ctx context.Context, pragmas ...string) error {
	for _, pragma := range pragmas {
		if err := retry(ctx, func() error { return c.execOnce(`PRAGMA ` + pragma) }); err != nil {
			return err
		}
	}
	return nil
}

// exec runs a statement that returns nothing.
func (c *conn) exec(query string, args ...any) error {
	return c.query(query, nil, args...)
}

// query calls each for every row. Args are nil, bool, int, int64, uint64,
// string, event.RunID and []byte; a nil []byte is null. The statement is kept for the next
// time.
//
// A parameter in a condition is written +?, which means the same. SQLite looks
// at the value of a bare ? when it chooses a plan, and so would prepare the
// statement again for each new value: that costs twenty times as much as to
// execute it.
func (c *conn) query(query string, each func(row) error, args ...any) error {
	s, err := c.statement(query)
	if err != nil {
		return err
	}
	s.check(query, len(args))
	return step(s.Stmt, each, args)
}

// execBinding is exec for a statement whose parameters bind binds.
func (c *conn) execBinding(query string, bind func(*binder)) error {
	s, err := c.statement(query)
	if err != nil {
		return err
	}
	b := binder{s: s.Stmt}
	bind(&b)
	s.check(query, b.n)
	return step(s.Stmt, nil, nil)
}

// prepared is a statement that is kept.
type prepared struct {
	*sqlite.Stmt
	params int
}

// check panics unless so many parameters are all that the statement has: another one would have the value of the last execution.
func (s *prepared) check(query string, n int) {
	if n != s.params {
		panic("sqlitestore: " + strconv.Itoa(n) + " arguments for " + strconv.Itoa(s.params) + " parameters of " + query)
	}
}

// statement returns a statement that is executed now. It is prepared once: step leaves it reset, and all its parameters are
// bound each time, so that nothing has to be undone before.
func (c *conn) statement(query string) (*prepared, error) {
	c.executed.Add(1)
	query = c.damages.expand(query)
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

// queryOnce is query for a statement that is not worth keeping.
func (c *conn) queryOnce(query string, each func(row) error) error {
	s, _, err := c.PrepareTransient(c.damages.expand(query))
	if err != nil {
		return err
	}
	return errors.Join(step(s, each, nil), s.Finalize())
}

// step binds the arguments and goes through the rows.
func step(s *sqlite.Stmt, each func(row) error, args []any) error {
	for i, arg := range args {
		bind(s, i+1, arg)
	}
	for {
		more, err := s.Step()
		if err != nil {
			_ = s.Reset() // it says the same once more: whoever executes the statement next must not hear of it
			return err
		}
		if !more {
			// A finished statement is reset, or it would hold its locks.
			return s.Reset()
		}
		if each == nil {
			continue
		}
		if err := each(s); err != nil {
			return errors.Join(err, s.Reset())
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
		bindRun(s, param, v)
	case []byte:
		if v == nil {
			s.BindNull(param)
			return
		}
		s.BindBytes(param, v)
	default:
		// Sprintf would let all arguments of all statements escape to the heap.
		panic("sqlitestore: bind parameter " + strconv.Itoa(param) + ": type " + reflect.TypeOf(arg).String())
	}
}

// execOnce runs a statement that is not worth keeping.
func (c *conn) execOnce(query string) error { return c.queryOnce(query, nil) }

// number returns the first column of the first row, 0 if there is no row.
func (c *conn) number(query string, args ...any) (int64, error) {
	var n int64
	err := c.query(query, func(r row) error { n = r.ColumnInt64(0); return nil }, args...)
	return n, err
}

func (c *conn) pragma(name string) (int64, error) { return c.number("PRAGMA " + name) }

// dataVersion asks for a number that differs once another connection has written.
const dataVersion = `PRAGMA data_version`

// immediate runs f in a transaction that holds the write lock.
func (c *conn) immediate(ctx context.Context, f func() error) error {
	if err := retry(ctx, func() error { return c.exec(`BEGIN IMMEDIATE`) }); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = c.exec(`COMMIT`)
	}
	if err != nil {
		return errors.Join(err, c.rollback())
	}
	return nil
}

// rollback ends the transaction, if the error that led here has not done so.
func (c *conn) rollback() error {
	if c.AutocommitEnabled() {
		return nil
	}
	return c.exec(`ROLLBACK`)
}

// retry repeats f while another connection is in the way, until ctx ends.
func retry(ctx context.Context, f func() error) error {
	for attempt := 0; ; attempt++ {
		err := f()
		if !busy(err) {
			return err
		}
		select {
		case <-time.After(backoff(attempt)):
		case <-ctx.Done():
			return err
		}
	}
}

// busy reports whether err says that another connection is in the way, which
// passes by itself.
func busy(err error) bool {
	if err == nil {
		return false
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol:
		return true
	}
	return false
}

// backoff is the pause before another try: from a tenth of a millisecond, so
// that a busy neighbour's next gap is met, up to about 2 ms.
func backoff(attempt int) time.Duration {
	limit := min(100*time.Microsecond<<min(attempt/4, 10), 1500*time.Microsecond)
	return limit/2 + rand.N(limit)
}
