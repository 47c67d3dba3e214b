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
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Value is a name under which a run publishes its progress or state. Declare it once as a package
// variable and use it on both sides:
//
//	var Progress = workflow.NewValue[Percent]("progress")
//
// Readers get the newest value, not every one. A value belongs to the run and its continuations,
// which start with the values of the previous run. A rerun by [Handle.Fork], Retry or RetryCanceled
// has the values that were set in the copied prefix. Values can be read until the run is deleted.
type Value[T any] struct{ name string }

// NewValue returns the value with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewValue panics if the name is empty or longer.
func NewValue[T any](name string) Value[T] {
	checkName("NewValue", name)
	return Value[T]{name: name}
}

// maxName bounds the names of values, streams, asks, hooks and schedules, in bytes.
const maxName = 200

func checkName(what, name string) {
	if name == "" || len(name) > maxName {
		panic(fmt.Sprintf("workflow: %s: the name has %d bytes, want 1 to %d", what, len(name), maxName))
	}
}

// Name returns the value's name.
func (v Value[T]) Name() string { return v.name }

func (v Value[T]) what() string { return "value " + v.name }

func (v Value[T]) declared() {
	if v.name == "" {
		panic(&replay.MisuseError{Text: "workflow: zero Value: declare it with workflow.NewValue"})
	}
}

// Set publishes the value, from workflow code: readers see it once the commit that records it is
// durable, and a replay does not set it again. It does not wait, and works on a context that has
// ended. A value that cannot be encoded or is too large ends the run with a *[PayloadError]: the
// call does not return; deferred calls run, but durable operations in them do not; compensations
// are executed.
func (v Value[T]) Set(ctx Context, value T) {
	v.declared()
	b := ctx.branch()
	b.Gate(ctx.s)
	key := b.Key("set." + v.name)
	payload, err := ctx.encode(v.what(), value)
	if err != nil {
		b.Fail(ending(ctx.s, err).Failure)
	}
	b.SetValue(v.name, key, payload, func(recorded []byte) string { return differs(b, reflect.TypeFor[T](), recorded, payload) })
}

// Get returns the newest value of a run, which may have ended, and whether it was set. Get, Wait
// and Watch wait out an outage of the store. Errors: ErrRunNotFound; a *[PayloadError] if the value
// is not a T; the error of ctx.
func (v Value[T]) Get(ctx context.Context, of Target) (value T, ok bool, err error) {
	r, err := v.open(ctx, of)
	if err != nil {
		return value, false, err
	}
	page, err := r.newest(ctx)
	if err != nil || len(page.Chunks) == 0 {
		return value, false, err
	}
	err = decode(v.what(), page.Chunks[0].Body, &value)
	return value, err == nil, err
}

// Wait returns the newest value of a run, and waits until one is set; ctx bounds the wait. Errors:
// those of Get; the error of ctx; one that matches [ErrRunTerminal] if the run has ended without
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
	err = decode(v.what(), chunk.Body, &value)
	return value, err
}

// Watch follows a value: it delivers the newest one if there is one, and then each new one; of
// values set in quick succession only the last may be delivered. The iterator ends silently with
// the run; an error, as of Get, is the last pair.
func (v Value[T]) Watch(ctx context.Context, of Target) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		r, err := v.open(ctx, of)
		if err != nil {
			yield(none, err)
			return
		}
		for seen := uint64(0); ; {
			chunk, there, err := r.await(ctx, seen)
			if err != nil {
				yield(none, err)
				return
			}
			if !there {
				return
			}
			seen = chunk.Index
			var value T
			if err := decode(v.what(), chunk.Body, &value); err != nil {
				yield(none, err)
				return
			}
			if !yield(value, nil) {
				return
			}
		}
	}
}

func (v Value[T]) open(ctx context.Context, of Target) (*reader, error) {
	v.declared()
	return of.target().read(ctx, v.what(), effects.ValueStream(v.name))
}

// Workflow code reads from other runs with an internal step: the result of the step is recorded, so
// a replay gets the same data. To wait for a value, the code reads it this way; if it is not set,
// the run requests a notice from the other run (see event.Notice), and rechecks when the notice
// arrives.

// OtherRun is a run from which workflow code reads: a *[Child], or a run identified by [Other].
type OtherRun interface {
	otherRun(ctx Context) (RunID, error)
}

// Other identifies a run from which workflow code reads. Reads include its continuations.
func Other(run RunID) OtherRun { return otherID(run) }

type otherID RunID

func (id otherID) otherRun(Context) (RunID, error) {
	_, err := event.ParseRunID(string(id))
	return RunID(id), err
}

// otherRun waits until the child exists.
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
	Stream string `json:"stream,omitempty"` // if Value is empty as well, the status is read
	From   uint64 `json:"from,omitempty"`
	Tail   *int   `json:"tail,omitempty"`
}

// readResult is the result of that step.
type readResult struct {
	Missing bool            `json:"missing,omitempty"` // the run does not exist
	Ended   bool            `json:"ended,omitempty"`   // nothing more will be published
	Status  Status          `json:"status,omitempty"`
	Set     bool            `json:"set,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Chunks  []readChunk     `json:"chunks,omitempty"`
	Next    uint64          `json:"next,omitempty"`
	Lag     *LagError       `json:"lag,omitempty"`
}

// readChunk is the stored form of a Chunk.
type readChunk struct {
	Index   uint64          `json:"index"`
	Value   json.RawMessage `json:"value"`
	Run     RunID           `json:"run,omitempty"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
}

// readTimeout bounds how long one attempt to read waits out an outage of the store.
const readTimeout = time.Minute

// readSpec describes the step. It is retried until the store answers.
var (
	readSpec = &engine.StepSpec{Name: event.ReadStep, Timeout: readTimeout, Retry: engine.Retry{Attempts: 1 << 30}}
	readPlan = newPlan(readSpec)
	reads    = &boundStep{spec: readSpec, code: "the step that reads from other runs", call: readOther}
)

// read calls the step. what names the data in errors.
func (ctx Context) read(what string, call *readCall) (*readResult, error) {
	ctx.steps = nil // options apply only to the user's steps
	got := &readResult{}
	err := callStep(ctx, readPlan, "", false, call, got)
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

// readOther is the code of the step.
func readOther(ctx context.Context, args []byte) ([]byte, error) {
	var call readCall
	if err := decode("input of step "+readSpec.Name, args, &call); err != nil {
		return nil, err
	}
	got, err := attempt.From(ctx).Client.(engineClient).c.readFor(ctx, &call)
	if errors.Is(err, ErrRunNotFound) {
		got, err = &readResult{Missing: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return marshal("result of step "+readSpec.Name, got)
}

func (c *Client) readFor(ctx context.Context, call *readCall) (*readResult, error) {
	switch {
	case call.Value != "":
		return c.readValue(ctx, call)
	case call.Stream != "":
		return c.readChunks(ctx, call)
	}
	l, err := c.loadAgain(ctx, store.Load{Run: call.Run, Limit: -1})
	return &readResult{Status: l.Record.Status}, err
}

func (c *Client) readValue(ctx context.Context, call *readCall) (*readResult, error) {
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

// readBytes is the approximate number of bytes of chunks read at once.
const readBytes = 128 << 10

func (c *Client) readChunks(ctx context.Context, call *readCall) (*readResult, error) {
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
		stored := &page.Chunks[i]
		if size += len(stored.Body); size > readBytes && i > 0 {
			break
		}
		one, err := effects.DecodeChunk(stored.Body)
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", stored.Index, err)
		}
		got.Chunks = append(got.Chunks, readChunk{Index: stored.Index, Value: one.Value, Run: one.Run, Step: one.Key, Attempt: one.Attempt})
		got.Next = stored.Index + 1
	}
	got.Ended = got.Next > page.Last && (page.Closed || page.Ended)
	return got, nil
}

// StatusOf returns the current status of another run, for workflow code. It is read once, and a
// replay gets the same status. The status of a run that has continued as new is StatusContinued.
// Errors: one that matches ErrRunNotFound; the error of ctx.
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

// GetFrom returns the newest value of another run, which may have ended, and whether it was set,
// for workflow code. The value is durable in the other run; it is read once, and a replay gets the
// same value. Errors: one that matches ErrRunNotFound; a *[PayloadError] if the value is not a T;
// the error of ctx. For a [Child] it waits until the child exists, and returns the errors of
// [Child.Started].
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
	err = decode(v.what(), got.Value, &value)
	return value, err == nil, err
}

// WaitFrom returns the newest value of another run, for workflow code, and waits until one is set.
// A [Timeout] bounds the wait, counted from the call. The wait occupies no worker: the other run
// sends a notice when it has set the value, which adds a few events to each of the logs. A replay
// gets the same value. Errors: those of GetFrom; one that matches [ErrRunTerminal] if the other
// run, or its continuation, has ended without setting the value; [ErrReceiveTimeout].
//
// Runs that wait for each other's values wait forever: this is not detected as a deadlock, because
// each of them waits for an external event. Use a Timeout.
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
			err = decode(v.what(), got.Value, &value)
			return value, err
		case got.Ended:
			return value, fmt.Errorf("wait for %s: run %s has not set it: %w", v.what(), run, ErrRunTerminal)
		}
		if mark, err = ctx.awaitNotice(run, v.name, mark, due); err != nil {
			return value, fmt.Errorf("wait for %s of run %s: %w", v.what(), run, err)
		}
	}
}

// awaitNotice waits until a value should be rechecked, and returns the mark of the run that sent
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
	op := b.AskNotice(ctx.s, key, run, payload)
	if err := b.AwaitNotice(ctx.s, op, "value "+name+" of run "+string(run), due); err != nil {
		return "", err
	}
	switch f := op.Failure; {
	case f != nil && failure.Is(f, ErrRunTerminal):
		return "", nil // a value set before the end can be read
	case f != nil:
		return "", &refusedError{topic: event.NoticeTopic, run: run, failure: f}
	}
	err = decode("notice of run "+string(run), op.Payload, &mark)
	return mark, err
}

// Part contains consecutive chunks of a stream.
type Part[T any] struct {
	Chunks []Chunk[T]
	// Next is the number of the chunk after these, for From.
	Next uint64
	// Ended reports that no chunk will follow: the stream is closed, or the run has ended.
	Ended bool
}

// ReadFrom returns existing chunks of a stream of another run, for workflow code: from the first
// kept chunk, or as set by [From] and [FromEnd]. If there are many, it returns only the first ones.
// It does not wait for more: continue with From and the Next of the part. A replay gets the same
// part. Errors: *[LagError] if the first requested chunk is not kept any more; a *[PayloadError] if
// a chunk is not a T; one that matches ErrRunNotFound; the error of ctx.
func (s Stream[T]) ReadFrom(ctx Context, of OtherRun, opts ...ReadOption) (Part[T], error) {
	d := s.declared()
	var part Part[T]
	var o readOptions
	for _, opt := range opts {
		opt(&o)
	}
	if len(o.types) > 0 {
		return part, errTypesOfStream
	}
	run, err := of.otherRun(ctx)
	if err != nil {
		return part, err
	}
	call := &readCall{Run: run, Stream: d.name, From: o.from}
	if n := int(o.fromEnd); o.tail {
		call.Tail = &n
	}
	got, err := ctx.read("stream "+d.name, call)
	if err != nil {
		return part, err
	}
	part.Next, part.Ended = got.Next, got.Ended
	for _, raw := range got.Chunks {
		c := Chunk[T]{Index: raw.Index, Run: raw.Run, Step: raw.Step, Attempt: raw.Attempt}
		if err := decode(fmt.Sprintf("chunk %d of stream %s", raw.Index, d.name), raw.Value, &c.Value); err != nil {
			return part, err
		}
		part.Chunks = append(part.Chunks, c)
	}
	return part, nil
}
