package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/chunk"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The limits of what is published in one go.
const (
	penChunks = 256
	penBytes  = 1 << 20
)

// pen writes to streams for one attempt. What its goroutines write while one call is
// under way is gathered for the next one; a call is repeated until it is answered.
type pen struct {
	w       *Worker
	attempt *attempt
	by      chunk.Chunk // whose chunks they are; without a value
	run     event.RunID // that the worker owns
	fence   store.Fence
	caller  *engine.Caller  // for whose streams that run executes a step; nil: its own
	ctx     context.Context // of the attempt
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	pending []*line
	busy    bool // a goroutine publishes
	ended   bool
	pages   map[string]uint64 // chunks written so far, by stream
	closed  []string          // streams, in the order in which they were closed
}

// line is one chunk on its way.
type line struct {
	stream string
	body   []byte
	keep   int
	done   chan error // gets what came of it
}

// page is what is published in one go: chunks of one stream, all or none.
type page struct {
	stream string
	keep   int
	lines  []*line
	first  uint64 // number of the first line among those of the attempt
}

// errAttemptEnded is the error of what is written after the step has returned.
var errAttemptEnded = errors.New("the attempt has ended")

// write adds a chunk, and returns once it is durable, refused, or not wanted any
// more.
func (p *pen) write(ctx context.Context, stream string, value []byte, keep int) error {
	if err := p.w.client.CheckPayload("chunk of stream ", stream, len(value)); err != nil {
		return err
	}
	by := p.by
	by.Value = value
	l := &line{stream: stream, keep: keep, body: chunk.Append(nil, &by), done: make(chan error, 1)}
	if err := p.add(l); err != nil {
		return err
	}
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-l.done: // both at once
		return err
	default:
		return context.Cause(ctx)
	}
}

func (p *pen) add(l *line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return errAttemptEnded
	case slices.Contains(p.closed, l.stream):
		return fmt.Errorf("%w by this attempt", workflow.ErrStreamClosed)
	}
	if p.cancel == nil { // most attempts write nothing
		p.ctx, p.cancel = context.WithCancel(p.ctx)
		p.pages = map[string]uint64{}
	}
	p.pending = append(p.pending, l)
	if !p.busy {
		p.busy = true
		p.work.Go(p.drain)
	}
	return nil
}

// close keeps in mind that the attempt has closed a stream.
func (p *pen) close(stream string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errAttemptEnded
	}
	if !slices.Contains(p.closed, stream) {
		p.closed = append(p.closed, stream)
	}
	return nil
}

// drain publishes until nothing is pending.
func (p *pen) drain() {
	for {
		next := p.next()
		if next == nil {
			return
		}
		err := p.deliver(next)
		for _, l := range next.lines {
			l.done <- err
		}
	}
}

// next takes the chunks for the stream that has waited longest.
func (p *pen) next() *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		p.busy = false
		return nil
	}
	next := &page{stream: p.pending[0].stream, keep: p.pending[0].keep}
	next.first = p.pages[next.stream] + 1
	size := 0
	rest := p.pending[:0]
	for i, l := range p.pending {
		if l.stream != next.stream {
			rest = append(rest, l)
			continue
		}
		if size += len(l.body); len(next.lines) > 0 && size > penBytes || len(next.lines) == penChunks {
			rest = append(rest, p.pending[i:]...)
			break
		}
		next.lines = append(next.lines, l)
	}
	clear(p.pending[len(rest):])
	p.pending = rest
	p.pages[next.stream] += uint64(len(next.lines))
	return next
}

// deliver publishes until there is an answer. Whoever waits is told why the attempt
// is over if it is.
func (p *pen) deliver(next *page) error {
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		if p.ctx.Err() != nil {
			return p.over()
		}
		err := p.publish(p.ctx, next)
		switch {
		case err == nil || errors.Is(err, workflow.ErrStreamClosed) || errors.Is(err, store.ErrClosed):
			return err
		case errors.Is(err, workflow.ErrClaimLost):
			p.attempt.stop(errLost)
			return err
		case p.ctx.Err() != nil:
			return p.over()
		}
		wait.For(p.ctx, p.w.clock, delay)
	}
}

// over returns why nothing is written any more.
func (p *pen) over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errAttemptEnded
	}
	return context.Cause(p.ctx)
}

// end is called when the code of the attempt has returned. It waits for what is
// under way, and returns the streams that the attempt has closed.
func (p *pen) end() []string {
	p.mu.Lock()
	p.ended = true
	cancel := p.cancel
	p.mu.Unlock()
	if cancel != nil {
		cancel()
		p.work.Wait()
	}
	return p.closed
}
