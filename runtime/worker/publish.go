package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/chunk"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// publications returns what is done to streams by the commit that holds these
// events, in the log of a run of that workflow.
func publications(workflow string, events []event.Event) ([]store.Publication, error) {
	if _, remote := event.StepOfRun(workflow); remote {
		return nil, nil // it writes to the streams of the run that it executes a step for
	}
	var all []store.Publication
	for i := range events {
		switch e := &events[i]; e.Type {
		case event.StreamWritten:
			batch, err := chunk.DecodeBatch(e.Payload)
			if err != nil {
				return nil, fmt.Errorf("publish to stream %s: %w", e.Name, err)
			}
			for _, body := range batch.Bodies {
				all = append(all, store.Publication{Stream: chunk.Stream(e.Name), Body: body, Keep: batch.Keep})
			}
		case event.StreamClosed:
			all = append(all, store.Publication{Stream: chunk.Stream(e.Name), Close: true})
		}
	}
	return all, nil
}

// logged returns events as they stand in the log: without what is published with
// them.
func logged(events []event.Event) []event.Event {
	published := func(e event.Event) bool { return e.Type == event.StreamWritten }
	if !slices.ContainsFunc(events, published) {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		if published(events[i]) {
			events[i].Payload = nil
		}
	}
	return events
}

// pen returns what the attempt writes to the streams of its run with. It is made when
// it is asked for: most attempts write nothing.
func (a *attempt) pen() (*pen, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dry {
		return nil, errAttemptEnded
	}
	if a.ink == nil {
		a.ink = &pen{
			w: a.task.w, attempt: a, ctx: a.context(), by: chunk.Chunk{Run: a.info.Run, Key: a.info.Key, Attempt: a.number},
			run: a.task.id, fence: a.fence, caller: a.plan().Caller,
		}
	}
	return a.ink, nil
}

// Write adds a chunk to a stream. It is the Pen for the code of the attempt.
func (a *attempt) Write(ctx context.Context, stream string, value []byte, keep int) error {
	p, err := a.pen()
	if err != nil {
		return err
	}
	return p.write(ctx, stream, value, keep)
}

// Close closes a stream with the completion of the attempt.
func (a *attempt) Close(stream string) error {
	p, err := a.pen()
	if err != nil {
		return err
	}
	return p.close(stream)
}

// dropPen is called when the code of the attempt has returned: it writes no more. It
// returns the streams that it has closed.
func (a *attempt) dropPen() []string {
	a.mu.Lock()
	p := a.ink
	a.dry = true
	a.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.end()
}

// publish publishes a page, and repeats that with the same chunks if it is called
// again.
func (p *pen) publish(ctx context.Context, next *page) error {
	if p.caller != nil {
		return p.post(ctx, next)
	}
	writer := fmt.Sprintf("%s/%d/%d", p.run, p.attempt.ref, p.attempt.number)
	chunks := make([]store.Publication, len(next.lines))
	for i, l := range next.lines {
		chunks[i] = store.Publication{Stream: chunk.Stream(next.stream), Body: l.body, Writer: writer, Nth: next.first + uint64(i)}
	}
	chunks[len(chunks)-1].Keep = next.keep
	err := p.w.store.Publish(ctx, p.run, p.fence, chunks)
	if errors.Is(err, store.ErrFenced) {
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}

// post lets another run publish a page, for which a run of this worker executes the
// step: the chunks go into the inbox of that run, under an id of their own.
func (p *pen) post(ctx context.Context, next *page) error {
	to := p.caller.Run
	state, err := p.w.store.ReadStream(ctx, store.ReadStream{Run: to, Stream: chunk.Stream(next.stream), Limit: -1})
	switch {
	case err != nil:
		return calledOff(err)
	case state.Closed:
		return workflow.ErrStreamClosed
	}
	batch := chunk.Batch{Keep: next.keep}
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
	_, err = p.w.store.Deliver(ctx, store.Deliver{
		Run: to, Item: store.Item{ID: id, Scope: store.ScopeRun, Body: body}, Deadline: p.w.clock.Now().Add(postWindow),
	})
	return calledOff(err)
}

// postWindow bounds how late chunks for another run may arrive.
const postWindow = time.Minute

// calledOff tells a refusal for good: the run does not wait for the step any more.
func calledOff(err error) error {
	var ended *store.TerminalError
	if errors.As(err, &ended) || errors.Is(err, store.ErrRunNotFound) {
		return fmt.Errorf("%w: %w", workflow.ErrClaimLost, err)
	}
	return err
}
