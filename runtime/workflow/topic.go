package workflow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Topic is a name under which messages of one type are sent to a run. Declare it once as a package
// variable and use it on both sides:
//
//	var Approval = workflow.NewTopic[Decision]("approval")
type Topic[T any] struct{ name string }

// NewTopic returns the topic with the given name. Names are kebab-case and unique in a module. A
// name longer than 1 KiB, not UTF-8 or with a zero byte makes every operation on the topic fail
// with an [InvalidError]. NewTopic panics if the name is empty.
func NewTopic[T any](name string) Topic[T] {
	if name == "" {
		panic("workflow: NewTopic: the name is empty")
	}
	return Topic[T]{name: name}
}

// Name returns the topic's name.
func (t Topic[T]) Name() string { return t.name }

func (t Topic[T]) what() string { return "message of topic " + t.name }

func (t Topic[T]) declared() {
	if t.name == "" {
		panic(&replay.MisuseError{Text: "workflow: zero Topic: declare it with workflow.NewTopic"})
	}
}

// check returns an *InvalidError if the name is not valid. The name is written into each message
// and into the log of the run that receives it.
func (t Topic[T]) check() error { return store.CheckName("topic", t.name) }

// ReceiveOption is an option of a receive.
type ReceiveOption func(*receiveOptions)

type receiveOptions struct {
	timeout time.Duration
	limited bool
}

// ErrReceiveTimeout is the error of a receive after its own [Timeout]. It matches ErrTimeout. A
// timeout of the context matches only ErrTimeout.
var ErrReceiveTimeout = replay.ErrNotInTime

// Timeout ends the wait with ErrReceiveTimeout after d.
func Timeout(d time.Duration) ReceiveOption {
	return func(o *receiveOptions) { o.timeout, o.limited = d, true }
}

// receiveBy begins a receive, and returns when it times out; zero: never.
func receiveBy(ctx Context, opts []ReceiveOption) (due time.Time) {
	var o receiveOptions
	for _, opt := range opts {
		opt(&o)
	}
	ctx.branch().Gate(ctx.s)
	if o.limited {
		due = ctx.branch().Until(o.timeout)
	}
	return due
}

// Receive takes the next message. Messages are received in order, including those that arrived
// before this call. Errors: ErrReceiveTimeout after a [Timeout]; the error of ctx if it ends first;
// a *PayloadError if the message is not a T (the message is still taken).
func (t Topic[T]) Receive(ctx Context, opts ...ReceiveOption) (T, error) {
	t.declared()
	var v T
	if err := t.check(); err != nil {
		return v, err
	}
	due := receiveBy(ctx, opts)
	e, err := ctx.branch().Receive(ctx.s, t.name, due)
	if err != nil {
		return v, err
	}
	err = decode(t.what(), e.Payload, &v)
	return v, err
}

// TryReceive takes the next message if there is one, and reports whether there was.
func (t Topic[T]) TryReceive(ctx Context) (T, bool, error) {
	v, e, err := t.tryReceive(ctx)
	return v, e != nil, err
}

// tryReceive is like TryReceive, and also returns the recorded event, nil if there is no message.
func (t Topic[T]) tryReceive(ctx Context) (v T, e *event.Event, err error) {
	t.declared()
	if err := t.check(); err != nil {
		return v, nil, err
	}
	if e = ctx.branch().TryReceive(t.name); e != nil {
		err = decode(t.what(), e.Payload, &v)
	}
	return v, e, err
}

// ReceiveCase wins a [Select] when there is a message of its topic, or a payload for its hook. It
// may be reused.
type ReceiveCase[T any] struct {
	what  string
	from  replay.Case
	err   error // error of the topic's name
	value T
	taken *event.Event
}

// Case returns a case for [Select].
func (t Topic[T]) Case() *ReceiveCase[T] {
	t.declared()
	return &ReceiveCase[T]{what: t.what(), from: replay.Case{Topic: t.name}, err: t.check()}
}

// Value returns the message, after Select has returned this case.
func (c *ReceiveCase[T]) Value() T { return c.value }

func (c *ReceiveCase[T]) replayCase(time.Time) (replay.Case, error) { return c.from, c.err }

func (c *ReceiveCase[T]) won(_ Context, e *event.Event) error {
	var v T
	c.value, c.taken = v, e
	if e == nil {
		return fmt.Errorf("%s: %w", c.what, ErrHookDisposed)
	}
	err := decode(c.what, e.Payload, &v)
	c.value = v
	return err
}

// SendOption is an option of a send.
type SendOption func(*sendOptions)

type sendOptions struct{ key string }

// IdempotencyKey makes sends or commands with the same key to the same run arrive once, regardless
// of how often and by how many callers they are made, for at least 24 hours.
func IdempotencyKey(k string) SendOption { return func(o *sendOptions) { o.key = k } }

// Send sends a message to the run. When it returns nil the message is durable. Messages of one
// sender are received in the order of sending; a message is kept until the run takes it or ends.
// Errors: ErrRunNotFound, one that matches ErrRunTerminal, a *PayloadError. After any other error
// it is unknown whether the message arrived: send it again with the same [IdempotencyKey].
func (t Topic[T]) Send(ctx context.Context, to Target, v T, opts ...SendOption) error {
	t.declared()
	h := to.target()
	if err := h.checkTopic(t.name); err != nil {
		return err
	}
	item, err := t.item(&h.c.limits, v, engine.Behalf(ctx), opts)
	if err != nil {
		return err
	}
	run, err := h.commandable(ctx, "send to")
	if err == nil {
		err = h.c.put(ctx, run, item, false, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("send to topic %s: %w", t.name, err)
	}
	return nil
}

// item returns a message as an inbox item, sent on behalf of by.
func (t Topic[T]) item(l *limits, v T, by string, opts []SendOption) (store.Item, error) {
	if err := t.check(); err != nil {
		return store.Item{}, err
	}
	payload, err := l.encode(t.what(), v)
	if err != nil {
		return store.Item{}, err
	}
	id, _ := itemOf(t.name, opts)
	body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: t.name, Payload: payload, By: by})
	return store.Item{ID: id, Scope: store.ScopeChain, Body: body}, err
}

// SendFrom sends a message to another run, from workflow code, and waits until that run has
// accepted it. Then it returns nil, and the message will be received in the order in which this run
// sent. The message is sent with the commit that records it, and arrives once, despite crashes.
// Errors: the error of ctx if it has ended before the call; a *PayloadError; one that matches
// ErrRunNotFound or ErrRunTerminal if the run refused the message.
func (t Topic[T]) SendFrom(ctx Context, to RunID, v T, opts ...SendOption) error {
	t.declared()
	if err := t.check(); err != nil {
		return err
	}
	if event.Reserved(t.name) {
		return reservedTopic(t.name)
	}
	b := ctx.branch()
	b.Gate(ctx.s)
	key := b.Key("send." + t.name)
	if err := ctx.Err(); err != nil {
		return err
	}
	payload, err := ctx.encode(t.what(), v)
	if err == nil {
		_, err = event.ParseRunID(string(to))
	}
	if err != nil {
		return fmt.Errorf("send to topic %s: %w", t.name, err)
	}
	item, keyed := itemOf(t.name, opts)
	if !keyed {
		item = event.DerivedItemID(b.Run().ID(), key)
	}
	refused := b.Send(ctx.s, t.name, key, to, item, payload, func(recorded []byte) string { return differs(b, reflect.TypeFor[T](), recorded, payload) })
	if refused != nil {
		return &refusedError{topic: t.name, run: to, failure: refused}
	}
	return nil
}

// itemOf returns the ID of an item that is sent to name, and whether an idempotency key was given.
// The name is quoted, so that different pairs have different IDs. A key may have any bytes and any
// length; an ID is text, because it is also written as JSON, and short, because it is kept for
// long.
func itemOf(name string, opts []SendOption) (id event.ItemID, keyed bool) {
	var o sendOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.key == "" {
		return event.NewItemID(), false
	}
	kind, key := "key:", o.key
	switch {
	case len(key) > store.MaxName:
		sum := sha256.Sum256([]byte(key))
		kind, key = "sum:", hex.EncodeToString(sum[:])
	case !utf8.ValidString(key):
		kind, key = "bytes:", hex.EncodeToString([]byte(key))
	}
	return event.ItemID(kind + strconv.Quote(name) + ":" + key), true
}

// refusedError reports that another run has refused a message.
type refusedError struct {
	topic   string
	run     RunID
	failure *event.Failure
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("send to topic %s of run %s: %s", e.topic, e.run, e.failure.Message)
}

func (e *refusedError) Is(target error) bool { return failure.Is(e.failure, target) }
func (e *refusedError) As(target any) bool   { return failure.As(e.failure, target) }

// MarshalFailure returns the stored form of e.
func (e *refusedError) MarshalFailure() *event.Failure {
	return &event.Failure{Code: event.CodeRefused, Message: e.Error(), Causes: []*event.Failure{e.failure}}
}

// WithMessage starts the run with a message of the topic. The message is available before the code
// begins, ahead of everything sent later, and the run and the message are created atomically. If
// the option is given several times, the messages are received in that order.
//
// If [WithID] finds an active run, and the policy uses it, the message is sent to that run, as by
// [Topic.Send]. If the run ends before it has accepted the message, a new run is started with it.
// So when the start returns without an error, exactly one run has accepted the message: the
// returned run or its continuation. Each of several messages is accepted once; messages that a run
// did not accept before its end start the next run. If the policy makes the start fail, no message
// is sent.
//
// The message does not wake a run that is delayed, held, or queued behind another one. With an
// [IdempotencyKey] the message arrives once at one run, even if Send sends it as well. Another
// start with the key after the end of that run starts another run, unless the [IDPolicy] forbids
// it.
//
// If the value is too large or cannot be encoded, the start fails with a *PayloadError.
func WithMessage[T any](t Topic[T], v T, opts ...SendOption) StartOption {
	t.declared()
	return startOption(func(r *runOptions) {
		r.messages = append(r.messages, func(l *limits, by string, inside bool) (store.Item, error) {
			if event.Reserved(t.name) && !inside {
				return store.Item{}, reservedTopic(t.name)
			}
			return t.item(l, v, by, opts)
		})
	})
}

// items returns the messages with which the run is created, on behalf of by. Messages with the same
// key are sent once. inside reports that the run is internal to the runtime, and may get messages
// of the runtime's topics.
func (o *runOptions) items(l *limits, by string, inside bool) ([]store.Item, error) {
	var items []store.Item
	for _, message := range o.messages {
		item, err := message(l, by, inside)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(items, func(i store.Item) bool { return i.ID == item.ID }) {
			items = append(items, item)
		}
	}
	return items, nil
}

// sendAlong sends the messages of a start to the active run that was found instead of creating one.
// It returns the run that has the messages, and whether that run has the input of the start; same
// reports that for the run found.
//
// It sends a message to the next run only after the previous one has refused it permanently: a run
// that has ended accepts nothing more, and confirms what it has accepted. So no message is accepted
// twice, even if a response is late; and every message is accepted, because the last run either
// accepts it or is created with the remaining ones. Each new run gets a new ID, because the store
// answers a repeated ID with the result of the earlier request.
func (d *definition) sendAlong(ctx context.Context, c *Client, s *localstart.Start, there store.Created, same bool) (store.Created, bool) {
	left := s.Create.Items
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		err := there.Err // from reading the run
		for err == nil && len(left) > 0 {
			if err = c.put(ctx, there.Run, left[0], false, time.Time{}); err == nil {
				left = left[1:]
			}
		}
		if !errors.Is(err, ErrRunTerminal) && !errors.Is(err, ErrRunNotFound) {
			there.Err = err
			return there, same
		}
		if err := c.pause(ctx, delay); err != nil {
			return store.Created{Err: err}, false
		}
		s = s.Again(event.NewRunID(c.store.Clock().Now(), s.Create.Run.Slot()), left)
		starts := []*localstart.Start{s}
		created, err := c.create(ctx, starts)
		if err != nil {
			return store.Created{Err: err}, false
		}
		if there = created[0]; there.Err != nil || there.New {
			return there, there.New
		}
		same = d.own(ctx, c, starts, created)[0]
		there = created[0]
	}
}
