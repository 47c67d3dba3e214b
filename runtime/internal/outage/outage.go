// Package outage logs failures of a store: once when an outage begins, then at growing intervals,
// and once when it ends. The number of lines does not depend on how many goroutines, partitions and
// requests notice the outage.
package outage

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Log records the outcomes of all requests of a process to a store. An outage begins with the first
// failure. It ends when no request has failed for a while and every partition has answered after
// its last failure. Both conditions are needed: other partitions may answer while one is lost, and
// a single request may fail repeatedly while all others succeed.
type Log struct {
	logger *slog.Logger
	quiet  time.Duration

	open atomic.Bool

	mu      sync.Mutex
	began   time.Time
	failed  time.Time // time of the last failure
	back    time.Time // when all failed partitions had answered after the last failure; zero if they have not
	tries   int
	causes  map[string]int   // number of failures by cause
	failing map[int]struct{} // partitions that have not answered since they failed
	timer   *time.Timer      // checks later whether the outage has ended; nil if no check is pending
	overdue int              // number of requests that were logged as unanswered
	silent  time.Time        // when the first of these requests was sent
}

// New returns a Log that writes to logger. who identifies the process that notices the outage.
// quiet must be longer than the time from a failure to the next retry.
func New(logger *slog.Logger, who slog.Attr, quiet time.Duration) *Log {
	return &Log{logger: slog.New(logger.Handler().WithAttrs([]slog.Attr{who})), quiet: quiet}
}

// Note records the outcome of a request to the store. An error with which the store answers is no
// failure, and neither is the end of the caller's context. partitions are the partitions of the
// request, if it concerns any.
func (l *Log) Note(ctx context.Context, what string, err error, partitions ...int) {
	switch {
	case answered(err):
		if l.open.Load() {
			l.answered(partitions)
		}
	case ctx.Err() == nil:
		l.fail(what, err, partitions)
	}
}

// patience is how long a request may be unanswered before it is logged.
const patience = 10 * time.Second

// Await is called before a request without a deadline. The caller must call outcome with the
// result, which is recorded like by Note. A store may neither answer nor fail, for example a SQLite
// file while a stopped process holds its write lock. This is logged once, and again when the store
// answers.
func (l *Log) Await(ctx context.Context, what string, partitions ...int) (outcome func(error)) {
	sent, told, over := time.Now(), false, false
	timer := time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if over || ctx.Err() != nil {
			return
		}
		told = true
		if l.overdue++; l.overdue == 1 {
			l.silent = sent
			l.logger.Warn("store does not answer: waiting", "what", what, "for", time.Since(sent).Round(time.Millisecond))
		}
	})
	return func(err error) {
		timer.Stop()
		l.mu.Lock()
		if over = true; told {
			if l.overdue--; l.overdue == 0 && answered(err) {
				l.logger.Warn("store answers again", "silent", time.Since(l.silent).Round(time.Millisecond))
			}
		}
		l.mu.Unlock()
		l.Note(ctx, what, err, partitions...)
	}
}

// answers are errors with which a working store answers a request.
var answers = []error{
	store.ErrClosed, store.ErrRunNotFound, store.ErrFenced, store.ErrUnread, store.ErrExpired, store.ErrOwned, store.ErrNotClaimable,
	store.ErrLater, store.ErrStale, store.ErrStreamClosed, errors.ErrUnsupported,
}

func answered(err error) bool {
	if err == nil {
		return true
	}
	if slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) }) {
		return true
	}
	if damaged, ok := errors.AsType[*store.DamagedError](err); ok && damaged.Run != "" {
		return true // the error concerns only this run
	}
	return errors.As(err, new(*store.TerminalError))
}

func (l *Log) fail(what string, err error, partitions []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.open.Load() {
		l.began, l.tries, l.causes, l.failing = now, 0, map[string]int{}, map[int]struct{}{}
		l.open.Store(true)
	}
	l.tries++
	l.failed, l.back = now, time.Time{}
	for _, p := range partitions {
		l.failing[p] = struct{}{}
	}
	cause := causeOf(err)
	if _, known := l.causes[cause]; !known && len(l.causes) >= mostCauses {
		cause = "" // each request may have a different error
	}
	l.causes[cause]++
	if n := l.causes[cause]; n&(n-1) == 0 { // log at powers of two
		l.logger.Error("store fails: retrying", "what", what, "error", err, "tries", n, "for", now.Sub(l.began).Round(time.Millisecond))
	}
}

// mostCauses bounds the number of different causes in one outage.
const mostCauses = 8

func (l *Log) answered(partitions []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open.Load() {
		return
	}
	for _, p := range partitions {
		delete(l.failing, p)
	}
	if l.back.IsZero() && len(l.failing) == 0 {
		l.back = time.Now()
	}
	l.close()
}

// close ends the outage if the conditions hold. If they hold only after the quiet time, close sets
// a timer to check again, because there may be no further answer.
func (l *Log) close() {
	if !l.open.Load() || l.back.IsZero() {
		return
	}
	if rest := l.quiet - time.Since(l.failed); rest > 0 {
		if l.timer == nil {
			l.timer = time.AfterFunc(rest, func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.timer = nil
				l.close()
			})
		}
		return
	}
	l.open.Store(false)
	l.logger.Warn("store works again", "failed", l.back.Sub(l.began).Round(time.Millisecond), "tries", l.tries)
}

// causeOf returns the cause of a failure. Refused, closed and silent connections have the same
// cause, because one outage produces all of them.
func causeOf(err error) string {
	var network networkError
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "it cannot be reached"
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// networkError has the methods of net.Error, which net.ErrClosed implements as well. Declaring them
// here avoids package net, which links cgo.
type networkError interface {
	error
	Timeout() bool
	Temporary() bool
}

// Watch returns a store that records the outcomes of a worker's requests in l.
func Watch(s store.Store, l *Log) store.Store { return &watched{s, l} }

type watched struct {
	store.Store
	log *Log
}

// Unwrap returns the store.
func (s *watched) Unwrap() store.Store { return s.Store }

func (s *watched) partition(run event.RunID) int { return int(run.Slot()) % s.Partitions() }

// note records the outcome of a request, and returns err.
func (s *watched) note(ctx context.Context, what string, err error, partitions ...int) error {
	s.log.Note(ctx, what, err, partitions...)
	return err
}

// batch records the outcome of a request about n runs, each of which may have its own answer. It
// returns err.
func (s *watched) batch(ctx context.Context, what string, err error, n int, run func(int) event.RunID, answer func(int) error) error {
	open := s.log.open.Load()
	failed := err
	var failing, fine []int
	for i := range n {
		e := err
		if e == nil {
			e = answer(i)
		}
		switch {
		case store.Unknown(e):
			failed, failing = e, append(failing, s.partition(run(i)))
		case open:
			fine = append(fine, s.partition(run(i)))
		}
	}
	if open && err == nil {
		s.log.Note(ctx, what, nil, fine...)
	}
	if failed != nil {
		s.log.Note(ctx, what, failed, failing...)
	}
	return err
}

func (s *watched) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, runs)
	return created, s.batch(ctx, "create runs", err, len(runs), func(i int) event.RunID { return runs[i].Run }, func(i int) error { return created[i].Err })
}

func (s *watched) OpenSession(ctx context.Context, o store.Session) error {
	outcome := s.log.Await(ctx, "open session", o.Partition)
	err := s.Store.OpenSession(ctx, o)
	outcome(err)
	return err
}

func (s *watched) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	outcome := s.log.Await(ctx, "heartbeat", partition)
	beat, err := s.Store.Heartbeat(ctx, partition, id)
	outcome(err)
	return beat, err
}

func (s *watched) Reconcile(ctx context.Context, partition int, id store.SessionID) ([]store.Owned, error) {
	owned, err := s.Store.Reconcile(ctx, partition, id)
	return owned, s.note(ctx, "reconcile", err, partition)
}

func (s *watched) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	claimed, err := s.Store.Claim(ctx, c)
	return claimed, s.note(ctx, "claim runs", err, c.Partition)
}

func (s *watched) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	next, err := s.Store.Due(ctx, partition, limit)
	return next, s.note(ctx, "make due runs ready", err, partition)
}

func (s *watched) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := s.Store.Commit(ctx, commits)
	return answers, s.batch(ctx, "commit", err, len(commits), func(i int) event.RunID { return commits[i].Run }, func(i int) error { return answers[i].Err })
}

func (s *watched) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	return s.note(ctx, "release a run", s.Store.Release(ctx, run, fence), s.partition(run))
}

func (s *watched) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := s.Store.Deliver(ctx, d)
	return run, s.note(ctx, "deliver to another run", err, s.partition(d.Run))
}

func (s *watched) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	records, next, err := s.Store.Outbox(ctx, partition, limit)
	return records, next, s.note(ctx, "read what runs have sent", err, partition)
}

func (s *watched) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	return s.note(ctx, "mark delivered records", s.Store.Mark(ctx, partition, marks), partition)
}

func (s *watched) Confirm(ctx context.Context, run event.RunID, item event.ItemID) error {
	return s.note(ctx, "confirm delivered records", s.Store.Confirm(ctx, run, item), s.partition(run))
}

func (s *watched) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return s.note(ctx, "write to a stream", s.Store.Publish(ctx, run, fence, chunks), s.partition(run))
}

func (s *watched) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, runs)
	return loaded, s.batch(ctx, "read runs", err, len(runs), func(i int) event.RunID { return runs[i].Run }, func(i int) error { return loaded[i].Err })
}

func (s *watched) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	woken, err := s.Store.Wait(ctx, w)
	return woken, s.note(ctx, "wait for work", err)
}

// LogDamage logs the damage that a store has found and skipped. who identifies the process. t may
// be nil.
func LogDamage(logger *slog.Logger, t store.DamageTeller, who slog.Attr) {
	if t == nil {
		return
	}
	for _, d := range t.Damage() {
		logger.Error("data in the store is damaged: it is set aside until it is repaired", who, "run", d.Run, "error", d.Err) //nolint:sloglint // who is of either kind
	}
}
