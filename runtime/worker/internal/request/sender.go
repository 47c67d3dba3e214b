// Package request sends batches of requests to a store and repeats each request until it is
// answered.
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
	// Ask sends a batch of requests and handles the answers. It returns the unanswered requests, in
	// the same buffer, with the error of one of them.
	Ask func(batch []T) (unknown []T, err error)
	// GiveUp handles a request that will never be answered.
	GiveUp func(v T, err error)
	// Partition returns the partition of a request.
	Partition func(v T) int
	// Bytes returns the approximate size of a request or of its answer.
	Bytes func(v T) int

	Clock store.Clock
	// Context ends the pauses between retries when it ends.
	Context context.Context
	// Last reports whether requests must not be retried any longer.
	Last func() bool
	// Work counts the goroutines of the lanes.
	Work *sync.WaitGroup
}

// Sender sends requests about runs to a store until they are answered. Unanswered requests wait in
// the lane of their partition. So a partition that does not answer does not delay requests to the
// other partitions.
type Sender[T any] struct {
	Params[T]

	mu    sync.Mutex
	lanes map[int]*lane[T]
	some  atomic.Bool // whether lanes is not empty
}

// NewSender returns a Sender without lanes.
func NewSender[T any](p Params[T]) *Sender[T] { return &Sender[T]{Params: p} }

// sendBytes bounds the size of one request to the store. A batch that takes longer than the store's
// timeout would fail at each retry. A batch of one request may exceed the bound.
const sendBytes = 4 << 20

// Send sends a batch once. Requests without an answer are retried in the background. The caller may
// reuse the slice when Send returns.
func (s *Sender[T]) Send(batch []T) {
	for batch = s.divert(batch, nil); len(batch) > 0; batch = s.divert(batch, nil) {
		n := s.fit(batch)
		unknown, err := s.Ask(batch[:n])
		s.divert(unknown, err)
		batch = batch[n:]
	}
}

// fit returns how many requests of the batch are sent in one call.
func (s *Sender[T]) fit(batch []T) int {
	bytes := 0
	for i := range batch {
		if bytes += s.Bytes(batch[i]); i > 0 && bytes > sendBytes {
			return i
		}
	}
	return len(batch)
}

// divert moves requests into the lanes of their partitions, and returns the requests of partitions
// without a lane. If failed is not nil, the requests were not answered, and divert creates the
// missing lanes.
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

// lane contains the unanswered requests of one partition and all later requests of the partition.
// The number of requests in one call is halved if none is answered and doubled if all are. So a
// batch that is too large to succeed gets smaller. If a request fails alone while others are
// answered, it is sent alone at growing intervals.
type lane[T any] struct {
	s         *Sender[T]
	partition int
	waiting   []*waiting[T] // guarded by Sender.mu
	limit     int
	answers   int           // number of answered requests
	arrived   wait.Notifier // notified when a request was added to waiting
	failed    error
}

// waiting is a request that waits in a lane.
type waiting[T any] struct {
	v       T
	alone   bool // whether the request has failed when it was sent alone
	answers int  // the lane's answers when the request failed
	delay   time.Duration
	until   time.Time
}

// mostAtOnce bounds how many requests of a lane are sent in one call.
const mostAtOnce = 256

const (
	retryFirst = 10 * time.Millisecond
	retryMost  = time.Second
	aloneMost  = 30 * time.Second // longest delay of a request that fails while others succeed
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
		case rest > 0: // Requests that arrive meanwhile do not wait for the delayed ones.
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

// rest waits for d, or until a request arrives.
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

// take returns the requests to send. If all requests are delayed, it returns the time until the
// first delay ends. If no request is left, it removes the lane from the sender.
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

// settle appends the unanswered requests of a batch to the lane and adjusts the size of the next
// batches.
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

// abandon removes the lane and gives up its requests, because they will not be answered.
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

// Serve passes values to send in batches until ctx ends. While a batch is being sent, the values of
// the next batch arrive, at most limit of them. The slice is reused for the next batch.
func Serve[T any](ctx context.Context, from <-chan T, limit int, send func(batch []T)) {
	var batch []T
	for {
		select {
		case first := <-from:
			batch = append(batch[:0], first)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < limit; {
			select {
			case v := <-from:
				batch = append(batch, v)
			default:
				more = false
			}
		}
		send(batch)
		clear(batch[:cap(batch)])
	}
}
