// Package request sends requests to a store in batches until they are answered.
package request

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// Params configure a [Sender].
type Params[T any] struct {
	// Ask sends requests, handles the answered ones, and returns the others, in the same buffer,
	// with the error of one of them.
	Ask func(batch []T) (unknown []T, err error)
	// GiveUp handles a request that will never be answered.
	GiveUp func(v T, err error)
	// Partition returns the partition of a request.
	Partition func(v T) int
	// Bytes returns the approximate size of a request or of its answer.
	Bytes func(v T) int

	Clock store.Clock
	// Context ends the pauses between retries.
	Context context.Context
	// Last reports whether retries have ended.
	Last func() bool
	// Work counts the goroutines that retry.
	Work *sync.WaitGroup
}

// Sender sends requests about runs to a store until they are answered. Unanswered requests wait in
// the lane of their partition, apart from all others, so that a partition that does not answer does
// not delay the others.
type Sender[T any] struct {
	Params[T]

	mu    sync.Mutex
	lanes map[int]*lane[T]
	some  atomic.Bool // there are lanes
}

// NewSender returns a sender.
func NewSender[T any](p Params[T]) *Sender[T] { return &Sender[T]{Params: p} }

// sendBytes bounds how much is sent, or read, at once: a request that takes longer than the store's
// timeout would never succeed, however often it is sent. A single request may be longer.
const sendBytes = 4 << 20

// Send sends a batch once. The sender owns the batch until Send returns.
func (s *Sender[T]) Send(batch []T) {
	for batch = s.divert(batch, nil); len(batch) > 0; batch = s.divert(batch, nil) {
		n := s.fit(batch)
		unknown, err := s.Ask(batch[:n])
		s.divert(unknown, err)
		batch = batch[n:]
	}
}

// fit returns how many requests are sent at once.
func (s *Sender[T]) fit(batch []T) int {
	bytes := 0
	for i := range batch {
		if bytes += s.Bytes(batch[i]); i > 0 && bytes > sendBytes {
			return i
		}
	}
	return len(batch)
}

// divert moves requests into the lanes of their partitions, and returns those without a lane. With
// an error, the requests were not answered, and each of them gets a lane.
func (s *Sender[T]) divert(batch []T, failed error) []T {
	if failed == nil && !s.some.Load() {
		return batch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := batch[:0]
	for _, v := range batch {
		p := s.Partition(v)
		l := s.lanes[p]
		if l == nil && failed == nil {
			left = append(left, v)
			continue
		}
		if l == nil {
			l = &lane[T]{s: s, partition: p, limit: 1, failed: failed, arrived: wait.NewNotifier()}
			if s.lanes == nil {
				s.lanes = map[int]*lane[T]{}
			}
			s.lanes[p] = l
			s.some.Store(true)
			s.Work.Go(l.run)
		}
		l.waiting = append(l.waiting, &waiting[T]{v: v})
		l.arrived.Notify()
	}
	return left
}

// lane contains the unanswered requests of one partition, and all that follow them. The number of
// requests sent at once is halved with each failure and doubled with each answer, so that a batch
// that cannot succeed gets smaller. A request that fails alone while others are answered is sent
// alone from then on, at growing intervals.
type lane[T any] struct {
	s         *Sender[T]
	partition int
	waiting   []*waiting[T] // guarded by Sender.mu
	limit     int
	answers   int           // number of answered requests
	arrived   wait.Notifier // waiting may contain a request that run has not seen
	failed    error
}

// waiting is a request in a lane.
type waiting[T any] struct {
	v       T
	alone   bool // the request has failed alone
	answers int  // answers of the lane when the request failed
	delay   time.Duration
	until   time.Time
}

// mostAtOnce bounds how many requests of a lane are sent at once.
const mostAtOnce = 256

const (
	retryFirst = 10 * time.Millisecond
	retryMost  = time.Second
	aloneMost  = 30 * time.Second // of a request that fails while others succeed
)

// run sends the waiting requests until none is left.
func (l *lane[T]) run() {
	failures := 1
	pause := retryFirst
	for {
		if pause > 0 {
			wait.For(l.s.Context, l.s.Clock, pause)
		}
		if errors.Is(l.failed, store.ErrClosed) || l.s.Last() {
			l.abandon()
			return
		}
		batch, rest := l.take()
		switch {
		case rest > 0: // requests that arrive meanwhile need not wait for those that rest
			pause = 0
			l.rest(min(rest, retryMost))
			continue
		case len(batch) == 0:
			return
		}
		all := make([]T, len(batch))
		for i, b := range batch {
			all[i] = b.v
		}
		unknown, err := l.s.Ask(all)
		if len(unknown) < len(batch) {
			failures, pause = 0, 0
		}
		if len(unknown) > 0 {
			l.failed = err
			failures++
			pause = min(retryFirst<<min(failures, 10), retryMost)
		}
		l.settle(batch, unknown)
	}
}

// rest waits for d, or until something has arrived.
func (l *lane[T]) rest(d time.Duration) {
	ctx, cancel := context.WithCancel(l.s.Context)
	defer cancel()
	go func() {
		select {
		case <-l.arrived:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait.For(ctx, l.s.Clock, d)
}

// take returns the requests to send now, or how long to wait if all must wait. It ends the lane if
// nothing is left.
func (l *lane[T]) take() (batch []*waiting[T], wait time.Duration) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(s.lanes, l.partition)
		s.some.Store(len(s.lanes) > 0)
		return nil, 0
	}
	now, bytes := s.Clock.Now(), 0
	var left []*waiting[T]
	for i, v := range l.waiting {
		if rest := v.until.Sub(now); rest > 0 {
			if wait == 0 || rest < wait {
				wait = rest
			}
			left = append(left, v)
			continue
		}
		bytes += s.Bytes(v.v)
		if full := len(batch) > 0 && (len(batch) >= l.limit || bytes > sendBytes || v.alone); full {
			left = append(left, l.waiting[i:]...)
			break
		}
		batch = append(batch, v)
		if v.alone {
			left = append(left, l.waiting[i+1:]...)
			break
		}
	}
	l.waiting = left
	if len(batch) > 0 {
		wait = 0
	}
	return batch, wait
}

// settle moves the unanswered requests of a batch behind the others.
func (l *lane[T]) settle(batch []*waiting[T], unknown []T) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	answered := len(batch) - len(unknown)
	l.answers += answered
	switch {
	case answered == 0:
		l.limit = max(len(batch)/2, 1)
	case len(unknown) == 0:
		l.limit = min(2*max(l.limit, len(batch)), mostAtOnce)
	}
	if len(unknown) == 0 {
		return
	}
	if len(batch) == 1 {
		v := batch[0]
		if v.alone && l.answers > v.answers {
			v.delay = min(max(2*v.delay, retryMost), aloneMost)
			v.until = l.s.Clock.Now().Add(v.delay)
		}
		v.alone, v.answers = true, l.answers
		l.waiting = append(l.waiting, v)
		return
	}
	for _, v := range unknown {
		l.waiting = append(l.waiting, &waiting[T]{v: v})
	}
}

// abandon ends the lane, because there will be no answers.
func (l *lane[T]) abandon() {
	l.s.mu.Lock()
	left := l.waiting
	delete(l.s.lanes, l.partition)
	l.s.some.Store(len(l.s.lanes) > 0)
	l.s.mu.Unlock()
	for _, v := range left {
		l.s.GiveUp(v.v, l.failed)
	}
}

// Gather waits for a value and collects it and the further available ones, at most limit, in
// buffer. It returns an empty slice once ctx has ended.
func Collect[T any](ctx context.Context, from <-chan T, buffer []T, limit int) []T {
	batch := buffer[:0]
	select {
	case first := <-from:
		batch = append(batch, first)
	case <-ctx.Done():
		return nil
	}
	for len(batch) < limit {
		select {
		case v := <-from:
			batch = append(batch, v)
		default:
			return batch
		}
	}
	return batch
}
