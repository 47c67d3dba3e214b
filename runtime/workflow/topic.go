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
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Topic is a named kind of messages of type T that can be sent to a run. Declare a Topic once as a
// package variable, and use it in workflow code and in senders:
//
//	var Approval = workflow.NewTopic[Decision]("approval")
type Topic[T any] struct{ name string }

// NewTopic returns the topic with the given name. Names are kebab-case and unique in a module. If
// the name is longer than 1 KiB, is not UTF-8 or contains a zero byte, every operation on the topic
// fails with an [InvalidError]. NewTopic panics if the name is empty.
func NewTopic[T any](name string) Topic[T] {
	if name == "" {
		panic("workflow: NewTopic: the name is empty")
	}
	return Topic[T]{name: name}
}

// Name returns the name of the topic.
func (t Topic[T]) Name() string { return t.name }

func (t Topic[T]) what() string { return "message of topic " + t.name }

func (t Topic[T]) declared() { flow.Declared("Topic", t.name) }

// check returns an *InvalidError if the name is not valid. Each message, and the log of the run
// that receives it, contains the name.
func (t Topic[T]) check() error { return store.CheckName("topic", t.name) }

// ReceiveOption is an option of a receive.
type ReceiveOption func(*receiveOptions)

type receiveOptions struct {
	timeout time.Duration
	limited bool
}

// ErrReceiveTimeout is the error of a receive whose [Timeout] has passed. It matches ErrTimeout.
// The error of a timeout of the context matches only ErrTimeout.
var ErrReceiveTimeout = replay.ErrNotInTime

// Timeout ends the wait with ErrReceiveTimeout after d.
func Timeout(d time.Duration) ReceiveOption {
	return func(o *receiveOptions) { o.timeout, o.limited = d, true }
}

// receiveBy begins a receive, and returns the time at which it times out. The time is zero if there
// is no Timeout.
func receiveBy(ctx Context, opts []ReceiveOption) (due time.Time) {
	b, o := ctx.gate(), optionsOf(opts)
	if o.limited {
		due = b.Until(o.timeout)
	}
	return due
}

// Receive waits for the next message and returns it. Messages are received in order, including
// those that arrived before this call. Errors: ErrReceiveTimeout after a [Timeout]; the error of
// ctx if ctx ends first; or a *PayloadError if the message cannot be decoded as a T. In the last
// case, the message counts as received.
func (t Topic[T]) Receive(ctx Context, opts ...ReceiveOption) (T, error) {
	t.declared()
	var v T
	if err := t.check(); err != nil {
		return v, err
	}
	due := receiveBy(ctx, opts)
	e, err := ctx.branch().Receive(ctx.scope(), t.name, due)
	if err != nil {
		return v, err
	}
	err = flow.Decode(t.what(), e.Payload, &v)
	return v, err
}

// TryReceive returns the next message if there is one. The bool reports whether there was a
// message.
func (t Topic[T]) TryReceive(ctx Context) (T, bool, error) {
	v, e, err := t.tryReceive(ctx)
	return v, e != nil, err
}

// tryReceive is like TryReceive. It also returns the recorded event, which is nil if there is no
// message.
func (t Topic[T]) tryReceive(ctx Context) (v T, e *event.Event, err error) {
	t.declared()
	if err := t.check(); err != nil {
		return v, nil, err
	}
	if e = ctx.branch().TryReceive(t.name); e != nil {
		err = flow.Decode(t.what(), e.Payload, &v)
	}
	return v, e, err
}

// ReceiveCase is a case of a [Select] that is ready when there is a message of its topic or a
// payload of its hook. It may be used for several calls of Select.
type ReceiveCase[T any] struct {
	what  string
	from  replay.Case
	err   error // the name of the topic is not valid
	value T
	taken *event.Event
}

// Case returns a case for [Select].
func (t Topic[T]) Case() *ReceiveCase[T] {
	t.declared()
	return &ReceiveCase[T]{what: t.what(), from: replay.Case{Topic: t.name}, err: t.check()}
}

// Value returns the message that Select has received for this case.
func (c *ReceiveCase[T]) Value() T { return c.value }

func (c *ReceiveCase[T]) replayCase(time.Time) (replay.Case, error) { return c.from, c.err }

func (c *ReceiveCase[T]) won(_ Context, e *event.Event) error {
	var v T
	c.value, c.taken = v, e
	if e == nil {
		return fmt.Errorf("%s: %w", c.what, ErrHookDisposed)
	}
	err := flow.Decode(c.what, e.Payload, &v)
	c.value = v
	return err
}

// SendOption is an option of a send.
type SendOption func(*sendOptions)

type sendOptions struct{ key string }

// IdempotencyKey makes sends or commands with the same key to the same run arrive once, regardless
// of their number and their callers. The store keeps a key for at least 24 hours.
func IdempotencyKey(k string) SendOption { return func(o *sendOptions) { o.key = k } }

// Send sends a message to the run. When it returns nil, the message is durable. A run receives the
// messages of one sender in the order of sending. A message is kept until the code of the run
// receives it or the run ends. Errors: ErrRunNotFound; an error that matches ErrRunTerminal; or a
// *PayloadError. After any other error it is unknown whether the message has arrived. In that case,
// send it again with the same [IdempotencyKey].
func (t Topic[T]) Send(ctx context.Context, to Target, v T, opts ...SendOption) error {
	t.declared()
	h := to.target()
	if err := h.checkTopic(t.name); err != nil {
		return err
	}
	call := &ClientCall{Operation: OperationSend, Name: t.name, Run: h.id}
	if !h.c.intercepts() || event.Reserved(t.name) {
		return t.send(ctx, h, call, v, opts)
	}
	return h.c.intercept(ctx, call, func(ctx context.Context) error { return t.send(ctx, h, call, v, opts) })
}

func (t Topic[T]) send(ctx context.Context, h *Handle, call *ClientCall, v T, opts []SendOption) error {
	item, err := t.item(ctx, &h.c.limits, v, opts)
	if err != nil {
		return err
	}
	call.Run, err = h.commandable(ctx, "send to")
	if err == nil {
		_, err = h.c.accept(ctx, call.Run, item, false, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("send to topic %s: %w", t.name, err)
	}
	return nil
}

// item returns a message as an inbox item. It has the attributes and the name that ctx carries.
func (t Topic[T]) item(ctx context.Context, l *flow.Limits, v T, opts []SendOption) (store.Item, error) {
	if err := t.check(); err != nil {
		return store.Item{}, err
	}
	attributes, err := flow.Attributes(ctx)
	if err != nil {
		return store.Item{}, err
	}
	payload, err := l.Encode(t.what(), v, false)
	if err != nil {
		return store.Item{}, err
	}
	id, _ := itemOf(t.name, opts)
	body, err := event.AppendItem(nil, &event.Event{
		Type: event.MessageReceived, Name: t.name, Payload: payload, By: flow.Behalf(ctx), Attributes: attributes,
	})
	return store.Item{ID: id, Scope: store.ScopeChain, Body: body}, err
}

// SendFrom sends a message to another run, from workflow code. It waits until that run has accepted
// the message. The other run receives the messages of this run in the order of sending. The commit
// that records the message sends it, and it arrives once, despite crashes. Errors: the error of ctx
// if ctx has ended before the call; a *PayloadError; or an error that matches ErrRunNotFound or
// ErrRunTerminal if the other run has refused the message.
func (t Topic[T]) SendFrom(ctx Context, to RunID, v T, opts ...SendOption) error {
	t.declared()
	if err := t.check(); err != nil {
		return err
	}
	if event.Reserved(t.name) {
		return reservedTopic(t.name)
	}
	b := ctx.gate()
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
	refused := b.Send(ctx.scope(), t.name, key, to, item, payload, func(recorded []byte) string { return flow.Differs(b, reflect.TypeFor[T](), recorded, payload) })
	if refused != nil {
		return &refusedError{topic: t.name, run: to, failure: refused}
	}
	return nil
}

// itemOf returns the ID of an item for the given name and options, and whether an idempotency key
// was given. The name is quoted, so that different pairs of name and key have different IDs. A key
// may have any bytes and any length. The ID is text because it is also written as JSON. It is short
// because stores keep it for a long time.
func itemOf(name string, opts []SendOption) (id event.ItemID, keyed bool) {
	kind, key := "key:", optionsOf(opts).key
	switch {
	case key == "":
		return event.NewItemID(), false
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

func storeRefusal(e *refusedError) *event.Failure {
	return &event.Failure{Code: event.CodeRefused, Message: e.Error(), Causes: []*event.Failure{e.failure}}
}

// WithMessage starts the run with a message of the topic. The run and the message are created
// atomically. The run receives the message before all messages that are sent later. If the option
// is given several times, the messages are received in the order of the options.
//
// If [WithID] finds an active run and the policy returns that run, the message is sent to it, as by
// [Topic.Send]. If that run ends before it has accepted the message, a new run is started with the
// message. Therefore, when the start returns without an error, exactly one run has accepted the
// message: the returned run or its continuation. Each of several messages is accepted once.
// Messages that a run did not accept before its end are messages of the next run. If the policy
// makes the start fail, no message is sent.
//
// The message does not wake a run that is delayed, held, or queued behind another run. With an
// [IdempotencyKey], the message arrives once at a run, even if Send also sends it. A further start
// with the same key after the end of that run starts another run, unless the [IDPolicy] forbids it.
//
// If the value is too large or cannot be encoded, the start fails with a *PayloadError.
func WithMessage[T any](t Topic[T], v T, opts ...SendOption) StartOption {
	t.declared()
	return startOption(func(r *runOptions) {
		r.messages = append(r.messages, func(ctx context.Context, l *flow.Limits, inside bool) (store.Item, error) {
			if event.Reserved(t.name) && !inside {
				return store.Item{}, reservedTopic(t.name)
			}
			return t.item(ctx, l, v, opts)
		})
	})
}

// items returns the messages with which a request with this context creates the run. Messages with the same key are sent once. Only a run of an internal workflow may receive messages
// of the runtime's topics.
func (o *runOptions) items(ctx context.Context, l *flow.Limits, workflow string) ([]store.Item, error) {
	var items []store.Item
	for _, message := range o.messages {
		item, err := message(ctx, l, event.Internal(workflow))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(items, func(i store.Item) bool { return i.ID == item.ID }) {
			items = append(items, item)
		}
	}
	return items, nil
}

// sendAlong sends the messages of a start to the active run that the start has found. It returns
// the run that has accepted the messages, and whether that run has the input of the start. same is
// that property of the found run.
//
// sendAlong sends a message to the next run only after the previous run has refused it permanently.
// A run that has ended accepts no further messages, and the store confirms those that it has
// accepted. Therefore no message is accepted twice, even if a response is late. Every message is
// accepted, because the last run either accepts it or is created with the remaining messages. Each
// new run has a new ID, because the store answers a repeated ID with the result of the earlier
// request.
func (d definition) sendAlong(ctx context.Context, c *client, s *localstart.Start, there store.Created, same bool) (store.Created, bool) {
	left := s.Create.Items
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		err := there.Err // error of reading the found run
		for err == nil && len(left) > 0 {
			if _, err = c.accept(ctx, there.Run, left[0], false, time.Time{}); err == nil {
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
