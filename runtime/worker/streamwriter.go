package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// These constants bound one publication.
const (
	pageChunks = 256
	pageBytes  = 1 << 20
)

// streamWriter writes to streams for one attempt. While a call to the store is in flight, further
// chunks are collected for the next call. A call is repeated until it is answered.
type streamWriter struct {
	*env
	client  flow.Engine
	attempt stopper
	name    string        // name of the writer, by which the store recognizes repeated calls
	by      effects.Chunk // origin of the chunks, without a value
	run     event.RunID   // the run that the worker owns and that executes the step
	fence   store.Fence
	caller  *flow.Caller    // the run that owns the streams, if the owned run executes a step for it; nil if the owned run owns them
	ctx     context.Context // context of the attempt
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	pending []*line
	busy    bool // whether a goroutine is publishing
	ended   bool
	pages   map[string]uint64 // number of chunks written, by stream
	closed  []string          // closed streams, in the order in which they were closed
}

// stopper is an attempt. The writer stops it when the claim of the run is lost.
type stopper interface{ stop(cause error) }

// line is one chunk that a caller of write waits for.
type line struct {
	stream string
	body   []byte
	keep   int
	done   chan error // receives the result
}

// page is a unit of publication: chunks of one stream, all or none of which are written.
type page struct {
	stream string
	keep   int
	lines  []*line
	first  uint64 // number of the first line among all chunks of the attempt
}

// errAttemptEnded is returned by a write after the step's code has returned.
var errAttemptEnded = errors.New("the attempt has ended")

// write adds a chunk. It returns once the chunk is durable or refused, or when ctx ends.
func (p *streamWriter) write(ctx context.Context, stream string, value []byte, keep int) error {
	if err := p.client.CheckPayload("chunk of stream ", stream, len(value)); err != nil {
		return err
	}
	by := p.by
	by.Value = value
	l := &line{stream: stream, keep: keep, body: effects.AppendChunk(nil, &by), done: make(chan error, 1)}
	if err := p.add(l); err != nil {
		return err
	}
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-l.done: // select chose one of two ready channels
		return err
	default:
		return context.Cause(ctx)
	}
}

func (p *streamWriter) add(l *line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return errAttemptEnded
	case slices.Contains(p.closed, l.stream):
		return fmt.Errorf("%w by this attempt", workflow.ErrStreamClosed)
	}
	if p.cancel == nil { // the context is created on first use, because most attempts write nothing
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

// close records that the attempt closes a stream.
func (p *streamWriter) close(stream string) error {
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

// drain publishes until no chunk is pending.
func (p *streamWriter) drain() {
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

// next takes the pending chunks of the stream whose first chunk has waited longest.
func (p *streamWriter) next() *page {
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
		if size += len(l.body); len(next.lines) > 0 && size > pageBytes || len(next.lines) == pageChunks {
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

// deliver publishes a page and retries until there is an answer. If the attempt has ended, it
// returns the reason.
func (p *streamWriter) deliver(next *page) error {
	for delay := 10 * time.Millisecond; ; delay = min(2*delay, time.Second) {
		if p.ctx.Err() != nil {
			return p.over()
		}
		err := p.publish(p.ctx, next)
		switch {
		case err == nil || errors.Is(err, workflow.ErrStreamClosed) || errors.Is(err, store.ErrClosed):
			return err
		case errors.Is(err, workflow.ErrClaimLost):
			p.attempt.stop(runloop.ErrLost)
			return err
		case p.ctx.Err() != nil:
			return p.over()
		}
		wait.For(p.ctx, p.clock, delay)
	}
}

// over returns why the attempt may not write, or nil if it may.
func (p *streamWriter) over() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errAttemptEnded
	}
	return context.Cause(p.ctx)
}

// end ends the writer after the code of the attempt has returned. It waits for the call in flight
// and returns the streams that the attempt has closed.
func (p *streamWriter) end() []string {
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

// publish publishes a page. Repeated calls with the same page write each chunk once.
func (p *streamWriter) publish(ctx context.Context, next *page) error {
	if p.caller != nil {
		return p.post(ctx, next)
	}
	chunks := make([]store.Publication, len(next.lines))
	for i, l := range next.lines {
		chunks[i] = store.Publication{Stream: effects.UserStream(next.stream), Body: l.body, Writer: p.name, Nth: next.first + uint64(i)}
	}
	chunks[len(chunks)-1].Keep = next.keep
	err := p.store.Publish(ctx, p.run, p.fence, chunks)
	if errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}

// post sends a page to the run for which a run of this worker executes the step. The page is an
// item in the inbox of that run, with its own ID.
func (p *streamWriter) post(ctx context.Context, next *page) error {
	to := p.caller.Run
	state, err := p.store.ReadStream(ctx, store.ReadStream{Run: to, Stream: effects.UserStream(next.stream), Limit: -1})
	switch {
	case err != nil:
		return leftQueue(err)
	case state.Closed:
		return workflow.ErrStreamClosed
	}
	batch := effects.Batch{Keep: next.keep}
	for _, l := range next.lines {
		batch.Bodies = append(batch.Bodies, l.body)
	}
	body, err := event.AppendItem(nil, &event.Event{
		Type: event.StreamWritten, Name: next.stream, Key: p.by.Key, Attempt: p.by.Attempt, Payload: batch.Encode(),
	})
	if err != nil {
		return err
	}
	id := event.DerivedItemID(p.run, fmt.Sprintf("write:%d:%d:%s", p.by.Attempt, next.first, next.stream))
	_, err = p.store.Deliver(ctx, store.Deliver{
		Run: to, Item: store.Item{ID: id, Scope: store.ScopeRun, Body: body}, Deadline: p.clock.Now().Add(postWindow),
	})
	return leftQueue(err)
}

// postWindow bounds how late chunks for another run may arrive.
const postWindow = time.Minute

// leftQueue replaces a permanent refusal by ErrClaimLost, because the other run does not wait for
// the step any longer.
func leftQueue(err error) error {
	var ended *store.TerminalError
	if errors.As(err, &ended) || errors.Is(err, store.ErrRunNotFound) {
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}
