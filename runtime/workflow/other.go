package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/store"
)

// Workflow code reads from other runs by a step of the runtime's own: what was read is the result of the
// step, so that a replay sees the same. A wait for a value looks for it in this way, and if it is not there
// asks the other run for a notice (see event.Notice) and looks again when that comes.

// OtherRun is a run that workflow code reads from: a *[Child], or any run as [Other] names it.
type OtherRun interface {
	otherRun(ctx Context) (RunID, error)
}

// Other names a run that workflow code reads from. What the run continues as is read, too.
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
	Stream string `json:"stream,omitempty"` // neither: the status
	From   uint64 `json:"from,omitempty"`
	Tail   *int   `json:"tail,omitempty"`
}

// readResult is what it has found.
type readResult struct {
	Missing bool            `json:"missing,omitempty"` // there is no such run
	Ended   bool            `json:"ended,omitempty"`   // nothing more is published
	Status  Status          `json:"status,omitempty"`
	Set     bool            `json:"set,omitempty"`
	Value   json.RawMessage `json:"value,omitempty"`
	Chunks  []readChunk     `json:"chunks,omitempty"`
	Next    uint64          `json:"next,omitempty"`
	Lag     *LagError       `json:"lag,omitempty"`
}

// readChunk is a Chunk in its stored form.
type readChunk struct {
	Index   uint64          `json:"index"`
	Value   json.RawMessage `json:"value"`
	Run     RunID           `json:"run,omitempty"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
}

// readTimeout bounds how long an attempt to read waits for the end of an outage of the store.
const readTimeout = time.Minute

// readSpec is the step. It is attempted until the store answers.
var (
	readSpec = &engine.StepSpec{Name: event.ReadStep, Timeout: readTimeout, Retry: engine.Retry{Attempts: 1 << 30}}
	readPlan = newPlan(readSpec)
	reads    = &boundStep{spec: readSpec, code: "the step that reads from other runs", call: readOther}
)

// read calls the step. what says in errors what is read.
func (ctx Context) read(what string, call *readCall) (*readResult, error) {
	ctx.steps = nil // the options are for the steps of the user
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

// readBytes is about how many bytes of chunks are read at once.
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

// StatusOf returns the status of another run as it is now, from the code of a run. It is read
// once, and a replay sees the same. Of a run that has continued as a new one it is StatusContinued. Errors: one
// that matches ErrRunNotFound; that of ctx.
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

// GetFrom returns the newest value of another run, which may have ended, and whether it was set
// at all, from the code of a run. It is one that a commit of the other run has made durable; it is read once,
// and a replay sees the same. Errors: one that matches ErrRunNotFound; a *[PayloadError] if the value is not a T;
// that of ctx. For a [Child] it waits until that exists, and its error is that of Started.
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

// WaitFrom returns the newest value of another run, from the code of a run, and waits until there is one;
// a [Timeout] limits how long, counted from the call. The wait holds nothing: the other run is asked to tell when it has set
// the value, and the log of each gets a few events. A replay sees the same value. Errors: those of
// GetFrom; one that matches [ErrRunTerminal] if the other run, or what it has continued as, has ended without
// setting the value; [ErrReceiveTimeout].
//
// Runs that wait for values of one another wait for ever: that is no deadlock that is found, since each waits for
// something from outside. Give such a wait a Timeout.
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

// awaitNotice waits until it is worth looking again for a value, and returns the mark of the run that said so.
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
		return "", nil // what it has set is there
	case f != nil:
		return "", &refusedError{topic: event.NoticeTopic, run: run, failure: f}
	}
	err = decode("notice of run "+string(run), op.Payload, &mark)
	return mark, err
}

// Part is a part of a stream.
type Part[T any] struct {
	Chunks []Chunk[T]
	// Next is the chunk that comes after these, for From.
	Next uint64
	// Ended says that no chunk will come after these: the stream is closed, or the run has ended.
	Ended bool
}

// ReadFrom returns chunks of a stream of another run, from the code of a run: those that are there now, from
// the first one that is kept, or as [From] and [FromEnd] say, and of many only the first ones. It does not wait for
// more: read on with From of the Next of the part. A replay sees the same part. Errors: *[LagError] if the first chunk that was asked for is not kept any more; a
// *[PayloadError] if a chunk is not a T; one that matches ErrRunNotFound; that of ctx.
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
