package sqlitestore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

const (
	// groupLimit is the maximum number of operations per transaction. It limits the latency of the
	// first operation of the transaction.
	groupLimit = 1024
	// closePatience is the time for which Close waits for another process that holds the write
	// lock. Then Close fails the waiting operations.
	closePatience = 5 * time.Second
)

// errGone is the error of operations whose transaction could not begin before the store was closed.
var errGone = errors.New("another process held the write lock until the store was closed")

// writer executes all write operations of a store. While it is idle, a caller may execute its operation
// in a transaction on its own goroutine; see direct. Other operations are queued. One goroutine takes
// all operations that have arrived, executes them in one transaction, and completes them after its
// commit. So the cost per operation decreases with the number of callers.
//
// An operation checks all guards before it writes anything. A refused operation therefore leaves no
// writes in the shared transaction. An operation that fails while it writes (the disk is full, a
// page is damaged) aborts the whole transaction. Then each operation is executed again in a
// transaction of its own, and only the failing ones return errors.
type writer struct {
	s    *Store
	c    *conn
	mode Synchronous

	mu      sync.Mutex
	queue   []*op
	closing time.Time // time of the call of Close

	commits atomic.Uint64 // number of commits of this writer
	arrived chan struct{} // notified when the queue is not empty
	foreign chan struct{} // notified to check whether another process has written
	stop    chan struct{}
	done    sync.WaitGroup // ends after the goroutines of the writer

	syncer syncer

	// turn is held while a transaction is executed. It guards the connection and the fields below.
	turn    sync.Mutex
	version int64 // data version that this connection has read last
	names   names
	tx      tx             // last transaction
	emptied map[int64]bool // used by transactions; empty between them
	tallies map[tally]int
	log     trimmer
	// patience is the time for which the writer waits for another process with the write lock while
	// the store is being closed.
	patience time.Duration
}

// op is an operation.
type op struct {
	work
	many   bool       // the operation concerns many runs
	answer chan error // nil if the caller executes the operation

	// mu is held while the operation is executed. A caller that gives up acquires mu before it
	// returns, so that its data are not read afterwards.
	mu   sync.Mutex
	left bool
}

// work is the part of an operation that is executed in a transaction.
type work interface{ do(t *tx) error }

type workFunc func(t *tx) error

func (f workFunc) do(t *tx) error { return f(t) }

func newWriter(s *Store, c *conn, mode Synchronous) *writer {
	return &writer{
		s: s, c: c, mode: mode, syncer: newSyncer(), names: newNames(), emptied: map[int64]bool{}, tallies: map[tally]int{}, log: trimmer{limit: walLimit}, patience: closePatience,
		arrived: make(chan struct{}, 1),
		foreign: make(chan struct{}, 1),
		stop:    make(chan struct{}),
	}
}

// write executes do in a transaction and returns once the transaction is committed. do may be
// executed more than once; only the writes and notifications of the last execution count. If ctx
// ends first, write returns ctx.Err(). do is then not executed later. If do was executed before,
// its transaction may commit. If write executes do itself, it returns the result of the transaction
// even if ctx ends in the meantime; see direct.
func (s *Store) write(ctx context.Context, do func(t *tx) error) error {
	return s.execute(ctx, &op{work: workFunc(do)})
}

// execute executes an operation as write does.
func (s *Store) execute(ctx context.Context, o *op) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if done, err := s.writer.direct(o); done {
		return s.explain(err)
	}
	o.answer = make(chan error, 1)
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

// direct executes an operation on the goroutine of the caller. That saves two switches between
// goroutines, which take as long as a statement. direct waits for nothing: it returns false if the
// writer is not idle, or if another process holds the write lock. Then the caller must submit the
// operation. It also returns false for an operation on many runs: there the switches cost little per
// run, and the operation may share a transaction with others that arrive in the meantime. In Full
// mode it always returns false, because each commit waits for the disk, and a caller must be able to
// give up meanwhile.
func (w *writer) direct(o *op) (done bool, err error) {
	if o.many || w.mode == Full || !w.turn.TryLock() {
		return false, nil
	}
	defer w.turn.Unlock()
	if !w.idle() {
		return false, nil
	}
	if err := w.tryBegin(); err != nil {
		return !db.Busy(err), err
	}
	err = w.try([]*op{o})
	if w.trimDue() {
		signal(w.arrived) // run trims the log
	}
	return true, err
}

// submit adds an operation to the queue. It returns false if the store is closed.
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

// take returns the operations that have arrived, up to groupLimit.
func (w *writer) take() []*op {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), groupLimit)
	group := w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil // releases the array of the queue
	} else {
		signal(w.arrived)
	}
	return group
}

// forget removes operations whose callers have given up. Otherwise a blocked queue would grow with
// each of their retries.
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

// start starts the goroutines of the writer, which end when it is closed.
func (w *writer) start() {
	w.done.Go(w.run)
	if syncsAhead(w.mode) && w.syncer.open(w.s.wal) {
		w.done.Go(func() { w.syncer.run(w.stop) })
	}
}

// run executes queued operations. It ends when the writer is closed and the queue is empty.
func (w *writer) run() {
	for {
		select {
		case <-w.arrived:
			w.turn.Lock()
			w.group()
			w.trim()
			w.turn.Unlock()
		case <-w.foreign:
			w.turn.Lock()
			w.lookAround()
			w.turn.Unlock()
		case <-w.stop:
			w.turn.Lock() // never released, so that no caller uses the connection afterwards
			for w.group() {
			}
			return
		}
	}
}

// close makes submit refuse operations, and waits until all others are completed.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = time.Now()
	w.mu.Unlock()
	close(w.stop)
	w.done.Wait()
}

// group executes the operations that have arrived. It returns false if there are none.
func (w *writer) group() bool {
	if w.idle() {
		return false
	}
	err := w.begin()
	ops := w.take() // includes operations that arrived while the writer waited for the lock
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

// execute executes the operations in the transaction that has begun. If that fails, it executes
// each operation in a transaction of its own.
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

// try executes operations and commits. If it returns an error or an operation panics, nothing has
// changed.
func (w *writer) try(ops []*op) error {
	clear(w.emptied)
	clear(w.tallies)
	t := &w.tx
	*t = tx{conn: w.c, s: w.s, names: &w.names, emptied: w.emptied, tallies: w.tallies, notices: t.notices.emptied(), op: t.op}
	t.op.Tx = t
	t.op.Changes.Reset()
	committed := false
	defer func() {
		if !committed {
			w.abort(t)
		}
	}()
	for _, o := range ops {
		if err := o.execute(t); err != nil {
			return err
		}
	}
	if err := t.finish(); err != nil {
		return err
	}
	if err := w.c.exec(`COMMIT`); err != nil {
		return err
	}
	if err := w.s.inPlace(); err != nil {
		return err
	}
	committed = true
	if w.commits.Add(1)%syncEvery == 0 {
		signal(w.syncer.due)
	}
	w.s.notifier.publish(&t.notices)
	w.passOn(t.notices.stored)
	for _, lock := range t.notices.locks {
		w.s.locks.Remove(lock)
	}
	return nil
}

// passOn assigns stored wakes to waiting calls, in separate transactions, after the commit of the
// wakes. A waiting call first joins the waiters, then reads the database, then blocks. If it reads
// after the commit, it reads the wake itself. Otherwise it joined before the commit, and passOn
// finds it. So no wake remains while a call waits for it. The same holds for wakes of other
// processes, because the poller detects them after their commit.
func (w *writer) passOn(wakes []store.Route) {
	for _, route := range wakes {
		if w.s.notifier.waiters.Serve(route) {
			w.submit(&op{work: workFunc(func(t *tx) error { return t.passOn(route) }), answer: make(chan error, 1)})
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

// abort rolls back a transaction and discards its cached data.
func (w *writer) abort(t *tx) {
	// If this fails, the next BEGIN returns the reason.
	_ = w.c.Rollback()
	if t != nil {
		w.names = newNames()
		w.s.notifier.withdraw(&t.notices)
	}
}

// begin acquires the write lock. It waits for other processes without a time limit, unless the
// store is being closed.
func (w *writer) begin() error {
	for attempt := 0; ; attempt++ {
		err := w.tryBegin()
		if err == nil || !db.Busy(err) {
			return err
		}
		if w.outOfPatience() {
			return errors.Join(store.ErrClosed, errGone)
		}
		<-time.After(db.Backoff(attempt))
		w.forget()
	}
}

// tryBegin acquires the write lock unless another process holds it. It fails after a failed sync of
// the log.
func (w *writer) tryBegin() error {
	if err := w.syncer.err(); err != nil {
		return err
	}
	err := w.c.exec(`BEGIN IMMEDIATE`)
	if err == nil {
		w.lookAround()
	}
	return err
}

func (w *writer) outOfPatience() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closing.IsZero() && time.Since(w.closing) > w.patience
}

// lookAround notifies the poller if another connection has written since the last check, and clears
// the caches. Only the connection of the writer can determine this, because SQLite does not count
// the commits of the asking connection.
func (w *writer) lookAround() {
	version, err := w.c.number(db.DataVersion)
	if err == nil && version == w.version {
		return
	}
	w.names = newNames() // another process may have removed a route
	if err != nil {
		return // the next transaction returns the error
	}
	w.version = version
	signal(w.s.foreign)
}

// perform executes do as write does. It returns the result of do, or the reason why do was refused.
func perform[T any](ctx context.Context, s *Store, do func(t *tx) (T, error)) (T, error) {
	return performMany(ctx, s, 1, do)
}

// performMany is like perform for an operation on n runs.
func performMany[T any](ctx context.Context, s *Store, n int, do func(t *tx) (T, error)) (T, error) {
	r := &request[T]{perform: do}
	r.work, r.many = r, n > 1
	err := s.execute(ctx, &r.op)
	if err == nil {
		err = r.refused
	}
	if err != nil {
		var none T // the result was not committed
		return none, err
	}
	return r.result, nil
}

// request is an operation with a result.
type request[T any] struct {
	op
	perform func(t *tx) (T, error)
	result  T
	refused error
}

func (r *request[T]) do(t *tx) (err error) {
	r.refused = nil
	r.result, err = r.perform(t)
	if no, ok := errors.AsType[protocol.Refused](err); ok {
		r.refused, err = no.Err, nil
	}
	return err
}

// refuse returns an error that becomes the result of an operation without writes. The transaction
// continues.
func refuse(err error) error { return protocol.Refused{Err: err} }

// signal wakes the only receiver of c. If it does not receive now, its next receive returns at
// once.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
