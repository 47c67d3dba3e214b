package sqlitestore

import (
	"context"
	"errors"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// conn is a connection to the database.
type conn struct {
	*db.Conn
	damages *damages               // rows that queries omit
	updates [allColumns + 1]string // statements that updateOf has built; empty until first used
}

// row is the present row of a query.
type row = db.Row

func connect(ctx context.Context, path string, flags sqlite.OpenFlags, pragmas ...string) (*conn, error) {
	c, err := db.Connect(ctx, path, flags, pragmas...)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// leaveOut makes all queries omit the damaged rows of d.
func (c *conn) leaveOut(d *damages) { c.damages, c.Expand = d, d.expand }

func (c *conn) exec(query string, args ...any) error { return c.Exec(query, args...) }

func (c *conn) query(query string, each func(row) error, args ...any) error {
	return c.Query(query, each, args...)
}

func (c *conn) number(query string, args ...any) (int64, error) { return c.Number(query, args...) }

// execBinding executes a statement whose parameters are bound by bind. Otherwise it is like exec.
func (c *conn) execBinding(query string, bind func(*binder)) error {
	return c.ExecBinding(query, func(s *sqlite.Stmt) int {
		b := binder{s: s}
		bind(&b)
		return b.n
	})
}

// readerCount is the number of concurrent reads. Readers and the writer do not block each other.
const readerCount = 4

// readers is a pool of read connections. Each is opened when it is first needed.
type readers struct {
	path    string
	damages *damages
	free    chan *conn // a nil element is a connection that is not open

	mu   sync.Mutex
	held chan *conn // receives released connections while reads are paused; otherwise nil
}

func newReaders(path string, d *damages) *readers {
	r := &readers{path: path, damages: d, free: make(chan *conn, readerCount)}
	for range readerCount {
		r.free <- nil
	}
	return r
}

// release returns a connection to the pool.
func (r *readers) release(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		r.held <- c
		return
	}
	r.free <- c
}

// open opens a connection. It must not be read-only, because it may have to rebuild the index of
// the write-ahead log after the process that maintained the index has died.
func (r *readers) open(ctx context.Context) (*conn, error) {
	c, err := connect(ctx, r.path, sqlite.OpenReadWrite, `cache_size = -2048`, `query_only = ON`)
	if err == nil {
		c.leaveOut(r.damages)
	}
	return c, err
}

// close waits for reads in progress and closes all connections.
func (r *readers) close() error {
	var err error
	for range readerCount {
		if c := <-r.free; c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// read executes f in a transaction with a snapshot of the database. The snapshot includes all
// operations that completed before the call. f may be executed more than once.
func (s *Store) read(ctx context.Context, f func(c *conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-s.readers.free:
	case <-s.ctx.Done():
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers.release(c) }()
	if s.ctx.Err() != nil {
		return store.ErrClosed // Close waits until the connection is released
	}
	if c == nil {
		var err error
		if c, err = s.readers.open(ctx); err != nil {
			return s.explainUnless(ctx, err)
		}
	}
	c.SetInterrupt(ctx.Done())
	err := db.Retry(ctx, func() error { return c.snapshot(f) })
	c.SetInterrupt(nil) // otherwise the rollback would also be interrupted
	return s.explainUnless(ctx, errors.Join(err, c.Rollback()))
}

// explainUnless explains err, unless ctx has ended. Then it returns the error of ctx.
func (s *Store) explainUnless(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return s.explain(err)
}

// snapshot executes f in a read transaction. It returns a busy error while another process recovers
// the database.
func (c *conn) snapshot(f func(c *conn) error) error {
	// End the transaction of an earlier attempt.
	if err := c.Rollback(); err != nil {
		return err
	}
	if err := c.exec(`BEGIN`); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	if err := c.exec(`COMMIT`); err != nil && !ofOneRun(err) {
		return err // COMMIT repeats the error of a damaged page although f has read valid data: not returned
	}
	return nil
}
