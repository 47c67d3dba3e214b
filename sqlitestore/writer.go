package sqlitestore

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

const (
	// groupLimit bounds the operations of one transaction, and by that how long
	// the first of them waits for its answer.
	groupLimit = 1024
	// closePatience is how long Close waits for another process that holds the
	// write lock before it gives up on the operations that wait for it.
	closePatience = 5 * time.Second
)

// errGone is the error of the operations of a transaction that did not begin.
var errGone = errors.New("another process held the write lock until the store was closed")

// writer executes all writing operations of a store. One goroutine takes
// whatever has arrived, executes it in one transaction, and answers after the
// commit of that transaction: the more callers there are, the less each of them
// pays for it.
//
// An operation looks at all its guards before it writes anything, so that one
// that is refused leaves nothing behind in the transaction that it shares. One
// that fails half-way (the disk is full, a page is damaged) takes the whole
// transaction with it; then each operation is executed again in a transaction of
// its own, and only those fail that cannot be executed.
type writer struct {
	s *Store
	c *conn

	mu      sync.Mutex
	queue   []*op
	closing time.Time // when Close was called

	commits atomic.Uint64 // that this writer has made
	arrived chan struct{} // there is something in the queue
	foreign chan struct{} // look whether another process has written
	stop    chan struct{}
	done    chan struct{}

	// What follows belongs to the goroutine.
	version int64 // of the data, as this connection has last seen it
	names   names
	tx      tx             // the last transaction
	emptied map[int64]bool // what the transactions note, empty between them
	tallies map[tally]int
	log     trimmer
	// patience is for a process that holds the write lock while the store is
	// being closed.
	patience time.Duration
}

// op is one operation on its way.
type op struct {
	do     func(t *tx) error
	answer chan error

	// mu is held while the operation is executed. A caller that gives up takes
	// it before it leaves, so that nothing of the caller's is read afterwards.
	mu   sync.Mutex
	left bool
}

func newWriter(s *Store, c *conn) *writer {
	return &writer{
		s: s, c: c, names: newNames(), emptied: map[int64]bool{}, tallies: map[tally]int{}, log: trimmer{limit: walLimit}, patience: closePatience,
		arrived: make(chan struct{}, 1),
		foreign: make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// write executes do in a transaction and returns once it is durable. do may be
// executed more than once; what it has written and published before counts only
// if it was executed last. When ctx ends first the answer is ctx.Err(), and do
// is not executed any more unless it has been already.
func (s *Store) write(ctx context.Context, do func(t *tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	o := &op{do: do, answer: make(chan error, 1)}
	if !s.writer.submit(o) {
		return store.ErrClosed
	}
	select {
	case err := <-o.answer:
		return s.explain(err)
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		o.left = true
		return ctx.Err()
	}
}

// submit puts an operation into the queue; false: the store is closed.
func (w *writer) submit(o *op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing.IsZero() {
		return false
	}
	w.queue = append(w.queue, o)
	signal(w.arrived)
	return true
}

func (w *writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) == 0
}

// take returns the operations that have arrived, as many as fit.
func (w *writer) take() []*op {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), groupLimit)
	group := w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil // lets go of the array
	} else {
		signal(w.arrived)
	}
	return group
}

// forget drops operations whose callers have left, so that a queue that cannot
// move does not grow with each of their tries.
func (w *writer) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := make([]*op, 0, len(w.queue))
	for _, o := range w.queue {
		if !o.abandoned() {
			kept = append(kept, o)
		}
	}
	w.queue = kept
}

func (o *op) abandoned() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.left
}

// run is the goroutine. It ends when the writer is closed and the queue empty.
func (w *writer) run() {
	defer close(w.done)
	for {
		select {
		case <-w.arrived:
			if w.group() {
				w.trim()
			}
		case <-w.foreign:
			w.lookAround()
		case <-w.stop:
			for w.group() {
			}
			return
		}
	}
}

// close makes submit refuse, waits for what is in the queue, and returns.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = time.Now()
	w.mu.Unlock()
	close(w.stop)
	<-w.done
}

// group executes what has arrived; false: nothing had.
func (w *writer) group() bool {
	if w.idle() {
		return false
	}
	err := w.begin()
	ops := w.take() // also what has arrived while the lock was waited for
	switch {
	case err != nil:
		answer(ops, err)
	case len(ops) == 0:
		w.abort(nil)
	default:
		w.execute(ops)
	}
	return len(ops) > 0
}

// execute runs the operations in the transaction that has begun, and if that
// fails each in one of its own.
func (w *writer) execute(ops []*op) {
	err := w.try(ops)
	if err == nil || len(ops) == 1 || errors.As(err, new(*ReplacedError)) {
		answer(ops, err)
		return
	}
	for _, o := range ops {
		err := w.begin()
		if err == nil {
			err = w.try([]*op{o})
		}
		o.answer <- err
	}
}

func answer(ops []*op, err error) {
	for _, o := range ops {
		o.answer <- err
	}
}

// try executes operations and commits, or leaves everything as it was.
func (w *writer) try(ops []*op) error {
	clear(w.emptied)
	clear(w.tallies)
	t := &w.tx
	*t = tx{conn: w.c, s: w.s, names: &w.names, emptied: w.emptied, tallies: w.tallies}
	t.op.Tx = t
	for _, o := range ops {
		if err := o.execute(t); err != nil {
			w.abort(t)
			return err
		}
	}
	err := t.finish()
	if err == nil {
		err = w.c.exec(`COMMIT`)
	}
	if err == nil {
		err = w.s.inPlace()
	}
	if err != nil {
		w.abort(t)
		return err
	}
	w.commits.Add(1)
	w.s.notifier.publish(&t.notices)
	w.passOn(t.notices.stored)
	for _, lock := range t.notices.locks {
		w.s.locks.Remove(lock)
	}
	return nil
}

// passOn gives stored wakes to those who wait already, in transactions of their own.
// It is called once the wakes are committed. A waiting call does, in this order, join
// the waiters, look into the database, and block. So it either looks after the commit,
// and finds the wake by itself, or has joined before the commit, and is found here:
// no wake is left lying beside somebody who would take it. That holds for wakes of
// this process, and for those of others, of which the poller hears after their commit.
func (w *writer) passOn(wakes []store.Route) {
	for _, route := range wakes {
		if w.s.notifier.waiters.Serve(route) {
			w.submit(&op{do: func(t *tx) error { return t.passOn(route) }, answer: make(chan error, 1)})
		}
	}
}

func (o *op) execute(t *tx) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left {
		return nil
	}
	t.now, t.lease = t.s.clock.Now(), nil
	if err := o.do(t); err != nil {
		return err
	}
	return t.announce()
}

// abort undoes a transaction, and whatever is remembered of it.
func (w *writer) abort(t *tx) {
	// If this fails the next BEGIN does, and says why.
	_ = w.c.Rollback()
	if t != nil {
		w.names = newNames()
		w.s.notifier.withdraw(&t.notices)
	}
}

// begin takes the write lock, however long another process holds it, unless the
// store is being closed.
func (w *writer) begin() error {
	for attempt := 0; ; attempt++ {
		err := w.c.exec(`BEGIN IMMEDIATE`)
		if err == nil {
			w.lookAround()
			return nil
		}
		if !db.Busy(err) {
			return err
		}
		if w.outOfPatience() {
			return errors.Join(store.ErrClosed, errGone)
		}
		<-time.After(db.Backoff(attempt))
		w.forget()
	}
}

func (w *writer) outOfPatience() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closing.IsZero() && time.Since(w.closing) > w.patience
}

// lookAround tells the poller when another connection has written since the
// last look, and forgets what that may have changed. Only this connection can
// tell: its own commits do not count.
func (w *writer) lookAround() {
	version, err := w.c.number(db.DataVersion)
	if err == nil && version == w.version {
		return
	}
	w.names = newNames() // a route may have been forgotten
	if err != nil {
		return // it shows up in the next transaction
	}
	w.version = version
	signal(w.s.foreign)
}

// perform executes do as write does, and returns its answer, or why it was
// refused.
func perform[T any](ctx context.Context, s *Store, do func(t *tx) (T, error)) (T, error) {
	var answer T
	var refused error
	err := s.write(ctx, func(t *tx) error {
		var err error
		answer, err = do(t)
		refused = nil
		if no, ok := errors.AsType[protocol.Refused](err); ok {
			refused, err = no.Err, nil
		}
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		var none T // what was answered has not been committed
		return none, err
	}
	return answer, nil
}

// refuse makes err the answer of an operation that has not written anything. It is no
// failure: the transaction goes on.
func refuse(err error) error { return protocol.Refused{Err: err} }

// signal wakes the one receiver of c, now or when it next looks.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// walLimit is the size of the write-ahead log from which on it is emptied
	// at the cost of whoever reads. Usually it stays at a quarter of that:
	// SQLite starts it over whenever nobody reads.
	walLimit = 64 << 20
	// trimEvery is after how many transactions the size is looked at.
	trimEvery = 64
	// trimPatience is how long writing waits for the reads that are going on. If
	// they take longer, they are waited for again when the log has grown by a
	// quarter of the limit.
	trimPatience = 500 * time.Millisecond
)

// trimmer keeps the write-ahead log from growing for ever.
type trimmer struct {
	limit int64
	at    int64 // the size from which on it is tried to empty the log
}

// trim empties the write-ahead log if it has grown too long. Readers that follow
// each other without a gap would keep it from being started over for ever; so
// for the time of one checkpoint no reader of this process begins.
func (w *writer) trim() {
	if w.commits.Load()%trimEvery != 0 {
		return
	}
	info, err := os.Stat(w.s.wal)
	if err != nil || info.Size() < max(w.log.limit, w.log.at) {
		return
	}
	w.log.at = info.Size() + w.log.limit/4
	resume, paused := w.s.readers.pause(trimPatience)
	defer resume()
	if !paused {
		return
	}
	// A reader of another process may be in the way: then it is for next time.
	err = w.c.ExecOnce(`PRAGMA wal_checkpoint(TRUNCATE)`)
	if left, stat := os.Stat(w.s.wal); err == nil && stat == nil && left.Size() == 0 {
		w.log.at = 0
	}
}

// pause keeps reads from beginning until resume is called, and waits for those
// that are going on. It reports whether they have ended in time.
func (r *readers) pause(patience time.Duration) (resume func(), paused bool) {
	held := make(chan *conn, readerCount)
	r.mu.Lock()
	r.held = held // whoever waits for a connection does not get one any more
	r.mu.Unlock()
	var taken []*conn
	resume = func() {
		r.mu.Lock()
		r.held = nil
		r.mu.Unlock()
		close(held)
		for c := range held {
			taken = append(taken, c)
		}
		for _, c := range taken {
			r.free <- c
		}
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for range readerCount {
		select {
		case c := <-r.free:
			taken = append(taken, c)
		case c := <-held:
			taken = append(taken, c)
		case <-timeout.C:
			return resume, false
		}
	}
	return resume, true
}
