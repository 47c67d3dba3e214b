package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// Value is a named value of type T by which a run publishes its progress or state. Declare a Value
// once as a package variable, and use it in workflow code and in readers:
//
//	var Progress = workflow.NewValue[Percent]("progress")
//
// Readers receive the newest value, and may miss earlier ones. A value belongs to a run and its
// continuations, which start with the values of the previous run. A rerun by [Handle.Fork], Retry
// or RetryCanceled has the values that the copied events have set. Values can be read until the run
// is deleted.
type Value[T any] struct{ name string }

// NewValue returns the value with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewValue panics if the name is empty or longer than that.
func NewValue[T any](name string) Value[T] {
	checkName("NewValue", name)
	return Value[T]{name: name}
}

func checkName(what, name string) {
	if name == "" || len(name) > flow.MaxName {
		panic(fmt.Sprintf("workflow: %s: the name has %d bytes, want 1 to %d", what, len(name), flow.MaxName))
	}
}

// Name returns the name of the value.
func (v Value[T]) Name() string { return v.name }

func (v Value[T]) what() string { return "value " + v.name }

func (v Value[T]) declared() { flow.Declared("Value", v.name) }

// Set publishes the value from workflow code. Readers receive it when the commit that records it is
// durable. A replay does not set it again. Set does not wait, and has an effect even if ctx has
// ended.
//
// If the value cannot be encoded or is too large, the run ends with a *[PayloadError], and Set does
// not return. In that case deferred calls run, but durable operations in them have no effect.
// Compensations are executed.
func (v Value[T]) Set(ctx Context, value T) {
	v.declared()
	b := ctx.gate()
	key := b.Key("set." + v.name)
	payload, err := ctx.encode(v.what(), value)
	if err != nil {
		b.Fail(flow.Ending(ctx.scope(), err).Failure)
	}
	b.SetValue(v.name, key, payload, func(recorded []byte) string { return flow.Differs(b, reflect.TypeFor[T](), recorded, payload) })
}

// Get returns the newest value of a run, which may have ended. ok reports whether the value was
// set. During an outage of the store, Get, Wait and Watch wait. Errors: ErrRunNotFound; a
// *[PayloadError] if the value cannot be decoded as a T; or the error of ctx.
func (v Value[T]) Get(ctx context.Context, of Target) (value T, ok bool, err error) {
	r, err := v.open(ctx, of)
	if err != nil {
		return value, false, err
	}
	page, err := r.newest(ctx)
	if err != nil || len(page.Chunks) == 0 {
		return value, false, err
	}
	err = flow.Decode(v.what(), page.Chunks[0].Body, &value)
	return value, err == nil, err
}

// Wait returns the newest value of a run. If there is none, it waits until one is set or ctx ends.
// Errors: those of Get; or an error that matches [ErrRunTerminal] if the run has ended without
// setting the value.
func (v Value[T]) Wait(ctx context.Context, of Target) (value T, err error) {
	r, err := v.open(ctx, of)
	if err != nil {
		return value, err
	}
	chunk, there, err := r.await(ctx, 0)
	if err != nil {
		return value, err
	}
	if !there {
		return value, fmt.Errorf("wait for value %s: run %s has not set it: %w", v.name, r.run, ErrRunTerminal)
	}
	err = flow.Decode(v.what(), chunk.Body, &value)
	return value, err
}

// Watch returns an iterator over the newest value, if there is one, and each later value. If
// several values are set in quick succession, it may return only the last one. The iterator ends
// when the run ends, which is not an error. An error, as of Get, is in the last pair.
func (v Value[T]) Watch(ctx context.Context, of Target) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var chunk store.Chunk
		var there bool
		r, err := v.open(ctx, of)
		for err == nil {
			if chunk, there, err = r.await(ctx, chunk.Index); !there && err == nil {
				return
			}
			var value T
			if err == nil {
				err = flow.Decode(v.what(), chunk.Body, &value)
			}
			if err == nil && !yield(value, nil) {
				return
			}
		}
		var none T
		yield(none, err)
	}
}

func (v Value[T]) open(ctx context.Context, of Target) (*reader, error) {
	v.declared()
	return of.target().read(ctx, v.what(), effects.ValueStream(v.name))
}

// Reading from other runs: workflow code reads with an internal step whose result is recorded, so
// that a replay receives the same data. Waiting for a value also begins with this step. If the
// value is not set, the run requests a notice from the other run (see event.Notice), and reads
// again when the notice arrives.

// OtherRun is a run from which workflow code reads. It is a *[Child], or the result of [Other].
type OtherRun interface {
	otherRun(ctx Context) (RunID, error)
}

// Other returns the run from which workflow code reads. Reads include its continuations.
func Other(run RunID) OtherRun { return otherID(run) }

type otherID RunID

func (id otherID) otherRun(Context) (RunID, error) {
	_, err := event.ParseRunID(string(id))
	return RunID(id), err
}

// otherRun waits until the child exists, and returns its ID.
func (c *Child[T]) otherRun(ctx Context) (RunID, error) {
	if err := c.Started(ctx); err != nil {
		return "", err
	}
	return c.ID(), nil
}

// readCall is the input of a step that reads from another run.
type readCall struct {
	Run    RunID  `json:"run"`
	Value  string `json:"value,omitempty"`
	Stream string `json:"stream,omitempty"` // if Stream and Value are empty, the step reads the status
	From   uint64 `json:"from,omitempty"`
	Tail   *int   `json:"tail,omitempty"`
}

// readResult is the result of a step that reads from another run.
type readResult struct {
	Missing bool            `json:"missing,omitempty"` // the run does not exist
	Ended   bool            `json:"ended,omitempty"`   // the run publishes no further values or chunks
	Status  Status          `json:"status,omitempty"`
	Set     bool            `json:"set,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Chunks  []readChunk     `json:"chunks,omitempty"`
	Next    uint64          `json:"next,omitempty"`
	Lag     *LagError       `json:"lag,omitempty"`
}

// readChunk is the stored form of a Chunk. It has the same fields.
type readChunk struct {
	Index   uint64          `json:"index"`
	Value   json.RawMessage `json:"value"`
	Run     RunID           `json:"run,omitempty"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
}

// read calls the step that reads from another run. what describes the data in errors.
func (ctx Context) read(what string, call *readCall) (*readResult, error) {
	got := &readResult{}
	err := flow.Call(flow.Context(ctx).WithoutSteps(), flow.ReadPlan, "", false, call, got) // options are only for steps of the user
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s of run %s: %w", what, call.Run, err)
	case got.Missing:
		return nil, fmt.Errorf("read %s of run %s: %w", what, call.Run, ErrRunNotFound)
	case got.Lag != nil:
		return nil, got.Lag
	}
	return got, nil
}

// Read is the code of the step that reads from another run.
func (c *client) Read(ctx context.Context, args []byte) ([]byte, error) {
	var call readCall
	if err := flow.Decode("input of step "+event.ReadStep, args, &call); err != nil {
		return nil, err
	}
	got, err := c.readFor(ctx, &call)
	if errors.Is(err, ErrRunNotFound) {
		got, err = &readResult{Missing: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return flow.Marshal("result of step "+event.ReadStep, got)
}

func (c *client) readFor(ctx context.Context, call *readCall) (*readResult, error) {
	switch {
	case call.Value != "":
		return c.readValue(ctx, call)
	case call.Stream != "":
		return c.readChunks(ctx, call)
	}
	l, err := c.loadAgain(ctx, store.Load{Run: call.Run, Limit: -1})
	return &readResult{Status: l.Record.Status}, err
}

func (c *client) readValue(ctx context.Context, call *readCall) (*readResult, error) {
	r := &reader{c: c, run: call.Run, what: "value " + call.Value, stream: effects.ValueStream(call.Value)}
	page, err := r.newest(ctx)
	if err != nil {
		return nil, err
	}
	got := &readResult{Ended: page.Ended, Set: len(page.Chunks) > 0}
	if got.Set {
		got.Value = page.Chunks[0].Body
	}
	return got, nil
}

// readBytes is the approximate number of bytes of chunks that one step reads.
const readBytes = 128 << 10

func (c *client) readChunks(ctx context.Context, call *readCall) (*readResult, error) {
	r := &chunkReader{c: c, run: call.Run, name: call.Stream, next: call.From, tail: -1}
	if call.Tail != nil {
		r.tail = *call.Tail
	}
	page, err := r.page(ctx)
	if err != nil {
		return nil, err
	}
	if lag, ok := errors.AsType[*LagError](r.lag(page)); ok {
		return &readResult{Lag: lag}, nil
	}
	got, size := &readResult{Next: r.next}, 0
	for i := range page.Chunks {
		if size += len(page.Chunks[i].Body); size > readBytes && i > 0 {
			break
		}
		c, err := chunkOf(&page.Chunks[i])
		if err != nil {
			return nil, err
		}
		got.Chunks, got.Next = append(got.Chunks, readChunk(c)), c.Index+1
	}
	got.Ended = got.Next > page.Last && (page.Closed || page.Ended)
	return got, nil
}

// StatusOf returns the current status of another run, for workflow code. A replay returns the same
// status. If the run has continued as new, the status is StatusContinued. Errors: an error that
// matches ErrRunNotFound; or the error of ctx.
func StatusOf(ctx Context, of OtherRun) (Status, error) {
	run, err := of.otherRun(ctx)
	if err != nil {
		return "", err
	}
	got, err := ctx.read("status", &readCall{Run: run})
	if err != nil {
		return "", err
	}
	return got.Status, nil
}

// GetFrom returns the newest value of another run, which may have ended, for workflow code. ok
// reports whether the value was set. The value is durable in the other run. A replay returns the
// same value. For a [Child], GetFrom waits until the child exists. Errors: those of
// [Child.Started]; an error that matches ErrRunNotFound; a *[PayloadError] if the value cannot be
// decoded as a T; or the error of ctx.
func (v Value[T]) GetFrom(ctx Context, of OtherRun) (value T, ok bool, err error) {
	v.declared()
	run, err := of.otherRun(ctx)
	if err != nil {
		return value, false, err
	}
	got, err := ctx.read(v.what(), &readCall{Run: run, Value: v.name})
	if err != nil || !got.Set {
		return value, false, err
	}
	err = flow.Decode(v.what(), got.Value, &value)
	return value, err == nil, err
}

// WaitFrom returns the newest value of another run, for workflow code. If there is none, it waits
// until one is set. [Timeout] sets a time limit, counted from the call. The wait uses no worker:
// the other run sends a notice when it has set the value, which adds a few events to each log. A
// replay returns the same value. Errors: those of GetFrom; an error that matches [ErrRunTerminal]
// if the other run, or its continuation, has ended without setting the value; or
// [ErrReceiveTimeout].
//
// If two runs wait for values of each other, they wait forever. This is not detected as a deadlock,
// because each run waits for an external event. Use a Timeout.
func (v Value[T]) WaitFrom(ctx Context, of OtherRun, opts ...ReceiveOption) (value T, err error) {
	v.declared()
	due := receiveBy(ctx, opts)
	run, err := of.otherRun(ctx)
	if err != nil {
		return value, err
	}
	for mark := ""; ; {
		got, err := ctx.read(v.what(), &readCall{Run: run, Value: v.name})
		switch {
		case err != nil:
			return value, err
		case got.Set:
			err = flow.Decode(v.what(), got.Value, &value)
			return value, err
		case got.Ended:
			return value, fmt.Errorf("wait for %s: run %s has not set it: %w", v.what(), run, ErrRunTerminal)
		}
		if mark, err = ctx.awaitNotice(run, v.name, mark, due); err != nil {
			return value, fmt.Errorf("wait for %s of run %s: %w", v.what(), run, err)
		}
	}
}

// awaitNotice waits until a value must be read again. It returns the mark of the run that has sent
// the notice.
func (ctx Context) awaitNotice(run RunID, name, mark string, due time.Time) (string, error) {
	b := ctx.branch()
	key := b.Key("notice." + name)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	payload, err := json.Marshal(event.Notice{Value: name, Checked: mark})
	if err != nil {
		return "", err
	}
	op := b.AskNotice(ctx.scope(), key, run, payload)
	if err := b.AwaitNotice(ctx.scope(), op, "value "+name+" of run "+string(run), due); err != nil {
		return "", err
	}
	switch f := op.Failure; {
	case f != nil && failure.Is(f, ErrRunTerminal):
		return "", nil // the run has ended; a value set before the end can be read
	case f != nil:
		return "", &refusedError{topic: event.NoticeTopic, run: run, failure: f}
	}
	err = flow.Decode("notice of run "+string(run), op.Payload, &mark)
	return mark, err
}

// Part contains consecutive chunks of a stream.
type Part[T any] struct {
	Chunks []Chunk[T]
	// Next is the number of the chunk that follows Chunks. Pass it to From to continue.
	Next uint64
	// Ended reports that no chunk will follow, because the stream is closed or the run has ended.
	Ended bool
}

// ReadFrom returns existing chunks of a stream of another run, for workflow code. It begins with
// the first chunk that is kept, or as set by [From] and [FromEnd]. If there are many chunks, it
// returns only the first ones. It does not wait for more. To continue, call it with From and the
// Next of the part. A replay returns the same part. Errors: a *[LagError] if the first requested
// chunk was deleted because of KeepLast; a *[PayloadError] if a chunk cannot be decoded as a T; an
// error that matches ErrRunNotFound; or the error of ctx.
func (s Stream[T]) ReadFrom(ctx Context, of OtherRun, opts ...ReadOption) (Part[T], error) {
	d := s.declared()
	var part Part[T]
	o := optionsOf(opts)
	if len(o.types) > 0 {
		return part, errTypesOfStream
	}
	run, err := of.otherRun(ctx)
	if err != nil {
		return part, err
	}
	call := &readCall{Run: run, Stream: d.Name, From: o.from}
	if n := int(o.fromEnd); o.tail {
		call.Tail = &n
	}
	got, err := ctx.read("stream "+d.Name, call)
	if err != nil {
		return part, err
	}
	part.Next, part.Ended = got.Next, got.Ended
	for i := range got.Chunks {
		c, err := s.decode((*Chunk[json.RawMessage])(&got.Chunks[i]))
		if err != nil {
			return part, err
		}
		part.Chunks = append(part.Chunks, c)
	}
	return part, nil
}
