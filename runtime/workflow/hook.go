package workflow

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/shape"
)

// Hook is a name for tokens with which an external caller that has no reference to a run, such as a
// payment service, can send payloads of one type to a run. Declare it once as a package variable
// and use it on both sides:
//
//	var Paid = workflow.NewHook[Callback]("paid")
type Hook[T any] struct{ name string }

// NewHook returns the hook with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewHook panics if the name is empty or longer.
func NewHook[T any](name string) Hook[T] {
	checkName("NewHook", name)
	return Hook[T]{name: name}
}

// Name returns the hook's name.
func (h Hook[T]) Name() string { return h.name }

func (h Hook[T]) what() string { return "payload of hook " + h.name }

func (h Hook[T]) declared() {
	if h.name == "" {
		panic(&replay.MisuseError{Text: "workflow: zero Hook: declare it with workflow.NewHook"})
	}
}

// HookOption is an option of [Hook.Open].
type HookOption func(*hookOptions)

type hookOptions struct {
	token string
	own   bool
	meta  *HookMeta
	// respond is how long a request waits for a response; nil: it does not wait.
	respond *time.Duration
	keep    []string // headers to keep
}

// Token opens a hook with the given token instead of an unguessable one, for callers that cannot
// receive a token but know, for example, the number of an order. The token is unique in the whole
// store while its hook is open. Anyone who can guess it can send to the run. It has at most 200
// bytes and must not begin like a run ID.
func Token(t string) HookOption { return func(o *hookOptions) { o.token, o.own = t, true } }

// OpenHook is an open hook of a run, and receives its payloads. It belongs to the run, not to the
// context under which it was opened. [OpenHook.Dispose] and the end of the run close it, even if
// the run continues as new.
type OpenHook[T any] struct {
	hook  Hook[T]
	inner *replay.Hook
}

// Open opens a hook: from then on [Hook.Send] with its token delivers payloads to this run. The
// token consists of the run's ID and 128 random bits, and is recorded in the log.
//
// With the option [Token], Open waits until the store has granted the token. A small run of
// workflow "flowgen.hook" with workflow ID "hook:" + token holds it. That run is a child of this
// one, but does not count towards the limits of children, is listed only with [Filter].Internal,
// and ends soon after the hook. Errors: a *[TokenConflictError] if another open hook, possibly of
// this run, has the token; the error of ctx if that ends first; an *[InvalidError] if the token or
// the data of [Describe] is not valid.
func (h Hook[T]) Open(ctx Context, opts ...HookOption) (*OpenHook[T], error) {
	h.declared()
	var o hookOptions
	for _, opt := range opts {
		opt(&o)
	}
	b := ctx.branch()
	b.Gate(ctx.s)
	key := b.Key("hook." + h.name)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	meta, err := h.meta(&o)
	if err != nil {
		return nil, fmt.Errorf("open hook %s: %w", h.name, err)
	}
	spec := replay.HookSpec{Name: h.name, Token: o.token, Shape: h.shape(), Meta: meta, Answers: o.respond != nil, Check: func(payload []byte) error {
		var v T
		return decode(h.what(), payload, &v)
	}}
	if o.own {
		inner, err := ctx.openOwn(key, spec)
		if err != nil {
			return nil, err
		}
		return &OpenHook[T]{hook: h, inner: inner}, nil
	}
	run := b.Run().ID()
	inner := b.NewHook(key, spec, func() string { return ctx.env.token(run, key) })
	return &OpenHook[T]{hook: h, inner: inner}, nil
}

// ofStep returns the hook for an attempt of a step. It has no user-defined token, because each
// attempt gets its own token from the runtime.
func (h Hook[T]) ofStep(opts []HookOption) (attempt.Hook, error) {
	h.declared()
	var o hookOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.own {
		return attempt.Hook{}, badToken(o.token, "is of the program's own, and an attempt of a step has one that the runtime makes")
	}
	if o.respond != nil {
		return attempt.Hook{}, &InvalidError{What: "option RespondWith of hook " + h.name, Value: o.respond.String(), Reason: "is for hooks that the code of a workflow opens: what a step has opened is not answered"}
	}
	meta, err := h.meta(&o)
	return attempt.Hook{Name: h.name, Shape: h.shape(), Meta: meta}, err
}

// meta returns the stored form of the options that describe the hook.
func (h Hook[T]) meta(o *hookOptions) ([]byte, error) {
	web, err := o.web(h.name, reflect.TypeFor[T]() == reflect.TypeFor[HookRequest]())
	if err != nil {
		return nil, err
	}
	return o.meta.encode(h.name, web)
}

// shape returns the stored form of the shape of payloads.
func (h Hook[T]) shape() []byte {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[HookRequest]() {
		t = reflect.TypeFor[storedRequest]()
	}
	return shape.Of(t)
}

// openOwn opens a hook with a user-defined token.
func (ctx Context) openOwn(key string, hook replay.HookSpec) (*replay.Hook, error) {
	b := ctx.branch()
	token := hook.Token
	if err := checkToken(token); err != nil {
		return nil, err
	}
	if b.Holds(token) {
		return nil, &TokenConflictError{Token: token, Holder: b.Run().ID()}
	}
	b.AwaitRelease(token)
	inner := b.NewHook(key, hook, nil)
	spec := b.Spec()
	op := b.Child(b.NewScope(nil), event.Event{
		Name: event.HookRun, Key: holdKey(key), Ack: true, Active: uint8(FailActive),
		Spec: &event.Spec{
			Workflow: event.HookRun, Queue: spec.Queue, WorkflowID: event.HookRunID(token), Priority: spec.Priority, Retention: spec.Retention,
		},
	}, 0, func([]byte) string { return "" })
	b.HoldBy(inner, op)
	if _, err := b.Await(ctx.s, op.Started(), "the token of hook "+hook.Name); err != nil {
		b.DisposeHook(inner)
		return nil, err
	}
	if !op.Done() || op.Failure == nil || op.Failure.Code != event.CodeRefused {
		return inner, nil
	}
	var active *ActiveRunError
	failure.As(op.Failure, &active)
	var holder RunID
	if active != nil {
		holder = active.Run
	}
	b.ConflictHook(inner, holder)
	return nil, &TokenConflictError{Token: token, Holder: holder}
}

// holdKey returns the key of the child that holds the token of the hook with the given key.
func holdKey(hook string) string { return hook + "/hold" }

// holdToken is the code of a run that holds a token: it waits until it is canceled.
func holdToken(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	_, err := b.Receive(s, event.HookRun, time.Time{})
	if err == nil {
		err = errors.New("a token was released by a message")
	}
	return ending(s, err)
}

// secret returns the unguessable part of a token.
func secret(RunID, string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Token returns the token for [Hook.Send]. Anyone who has it can send to the run, so treat it as a
// secret.
func (h *OpenHook[T]) Token() string { return h.inner.Token }

// Receive takes the next payload. Payloads are received in order, including those that arrived
// before this call. Errors: ErrReceiveTimeout after a [Timeout]; the error of ctx if it ends first;
// an error that matches ErrHookDisposed if the hook is closed before or during the call; a
// *PayloadError if the payload is not a T, which happens only if the type has changed since the
// payload arrived: see [Hook.Send].
func (h *OpenHook[T]) Receive(ctx Context, opts ...ReceiveOption) (T, error) {
	due := receiveBy(ctx, opts)
	var v T
	e, err := ctx.branch().ReceiveHook(ctx.s, h.inner, due)
	switch {
	case errors.Is(err, replay.ErrClosed):
		return v, fmt.Errorf("%s: %w", h.hook.what(), ErrHookDisposed)
	case err != nil:
		return v, err
	}
	err = decode(h.hook.what(), e.Payload, &v)
	return v, err
}

// Case returns a case for [Select]. If the hook is closed, its case is selected, and the error of
// Select matches ErrHookDisposed.
func (h *OpenHook[T]) Case() *ReceiveCase[T] {
	return &ReceiveCase[T]{what: h.hook.what(), from: replay.Case{Hook: h.inner}}
}

// Dispose closes the hook: later payloads are refused. It does not wait, works on a context that
// has ended, and does nothing if the hook is closed. The last event of the run lists accepted
// payloads that were not received as unread.
func (h *OpenHook[T]) Dispose(ctx Context) {
	b := ctx.branch()
	b.Gate(ctx.s)
	b.DisposeHook(h.inner)
}

// TokenConflictError reports that a hook was not opened because its token is in use.
type TokenConflictError struct {
	Token  string `json:"token"`
	Holder RunID  `json:"holder"` // the run whose hook has the token
}

// Error returns a text with the run that holds the token. It omits the token, because anyone who
// has it can send to the run.
func (e *TokenConflictError) Error() string {
	return fmt.Sprintf("open hook: its token is in use by a hook of run %s", e.Holder)
}

// MarshalFailure returns the stored form of e.
func (e *TokenConflictError) MarshalFailure() *event.Failure {
	data, _ := json.Marshal(e) // strings always encode
	return &event.Failure{Code: event.CodeRefused, Type: wireConflict, Message: e.Error(), Data: data}
}
