package workflow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/shape"
	"github.com/flowgen/flowgen/runtime/store"
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

// Hooks returns the open hooks of the run and of its steps, in the order of the operations that
// opened them, for operators. It reads the new part of the run's log and of the logs of the runs
// that execute its steps. Anyone who has a token can send to the run, so the result is a secret. A
// hook with a user-defined [Token] is listed after the store has granted the token. A run that has
// ended has no open hooks.
func (h *Handle) Hooks(ctx context.Context) ([]HookInfo, error) {
	run, err := h.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list hooks: %w", err)
	}
	all, remote, err := h.c.hooksOf(ctx, run)
	if err != nil {
		return all, fmt.Errorf("list hooks of run %s: %w", run, err)
	}
	for _, other := range remote {
		more, err := h.c.Run(other).Hooks(ctx)
		if err != nil && !errors.Is(err, ErrRunNotFound) { // not created yet, or purged
			return all, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// hooksOf returns the hooks that are open at the end of a run's log, and the runs that execute
// steps for the run.
func (c *Client) hooksOf(ctx context.Context, run RunID) (all []HookInfo, remote []RunID, err error) {
	head, err := c.loadAgain(ctx, store.Load{Run: run, Limit: -1})
	if err != nil || head.Record.QueueState == store.StateEnded {
		return nil, nil, err
	}
	l := c.logs.Get(run, func() *followedLog { return new(followedLog) })
	whole, size, bad := false, int64(0), error(nil)
	err = c.persist(ctx, "list hooks", func() error {
		l.mu.Lock() // unlocked during an outage, so that other callers can detect it
		defer l.mu.Unlock()
		if err := l.follow(ctx, c, &head.Record); err != nil {
			return err
		}
		whole, size = l.read >= head.Record.N, l.size()
		if whole {
			all, remote, bad = l.openHooks(run)
		}
		return nil
	})
	c.logs.Measure(run, l, size)
	if err == nil && !whole {
		return c.hooksAgain(ctx, run)
	}
	return all, remote, errors.Join(err, bad)
}

// hooksAgain reads the whole log of a run after a part of it could not be read, and returns the
// cause.
func (c *Client) hooksAgain(ctx context.Context, run RunID) ([]HookInfo, []RunID, error) {
	l, err := c.loadAgain(ctx, store.Load{Run: run})
	if err == nil {
		_, err = (&logReader{run: run}).all(&l)
	}
	if err != nil {
		return nil, nil, err
	}
	var f followedLog
	if !f.take(l.Frames) {
		return nil, nil, &EventError{Run: run, Frame: f.read + 1, Err: event.ErrCorrupt}
	}
	return f.openHooks(run)
}

// noteHook keeps the event that opens a hook until the hook is closed, without data of its frame
// that is not needed.
func (l *followedLog) noteHook(e *event.Event) {
	switch e.Type {
	case event.HookCreated, event.StepHookCreated:
		kept := *e
		kept.Payload, kept.Meta = nil, bytes.Clone(e.Meta)
		if l.hooks == nil {
			l.hooks = map[string]*event.Event{}
		}
		l.hooks[e.Token] = &kept
	case event.HookDisposed, event.HookConflict, event.StepStarted, event.StepRetrying, event.StepCompleted, event.StepFailed:
		delete(l.hooks, e.Token)
	}
}

// openHooks returns the hooks that are open at the end of the log, and the runs that execute steps
// for the run.
func (l *followedLog) openHooks(run RunID) (all []HookInfo, remote []RunID, err error) {
	if l.state.Run.Terminal() {
		return nil, nil, nil
	}
	asked := map[string]bool{} // keys of the runs that will hold a token once it is granted
	var open []*event.Open
	l.state.Opens(func(o *event.Open) bool {
		if o.Name == event.HookRun && o.State == event.StateWaiting {
			asked[o.Key] = true
		}
		open = append(open, o)
		return true
	})
	slices.SortFunc(open, func(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, o := range open {
		e := l.hooks[o.Token]
		if _, is := event.StepOfRun(o.Name); is && o.Entity == event.EntityChild {
			remote = append(remote, o.Next)
		}
		if e == nil || asked[holdKey(o.Key)] {
			continue
		}
		info := HookInfo{Hook: e.Name, Token: e.Token, Run: run, ID: e.Correlation(run), Key: o.Key, OpenedAt: e.Time, Attempt: e.Attempt, Due: e.Due}
		if err := info.describe(e.Meta); err != nil {
			return all, nil, err
		}
		all = append(all, info)
	}
	return all, remote, nil
}

// HookMeta is a description of a hook for people and for programs that present it, such as a page
// with a form. The runtime stores it without interpreting it: the endpoint that accepts payloads
// must check who may answer.
type HookMeta struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Form describes the payload, usually as a JSON Schema. It is any JSON, and is not checked
	// against the type of the hook.
	Form json.RawMessage `json:"form,omitempty"`
	// Answerers lists who may answer: names of users or groups, as defined by the program.
	Answerers []string          `json:"answerers,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // any other data
}

// MaxHookMeta is the maximum size of the stored form of a [HookMeta], in bytes. Its title, each
// answerer and each label have at most 1 KiB.
const MaxHookMeta = 64 << 10

// Describe opens a hook with a description for holders of its token, see [Client.Hook], and for
// operators, see [Handle.Hooks]. The description is recorded when the hook is opened and does not
// change: code with another description remains compatible with open runs, whose hooks keep the old
// description.
func Describe(m HookMeta) HookOption { return func(o *hookOptions) { o.meta = &m } }

// hookRecord is the stored form of a description.
type hookRecord struct {
	HookMeta
	hookWeb
}

// encode returns the stored form, or nil if there is nothing to store. The error is an
// *InvalidError.
func (m *HookMeta) encode(hook string, web hookWeb) ([]byte, error) {
	if m == nil {
		if !web.says() {
			return nil, nil
		}
		m = &HookMeta{}
	}
	what := func(part string) string { return part + " of hook " + hook }
	err := errors.Join(store.CheckName(what("title"), m.Title), store.CheckText(what("description"), m.Description, MaxHookMeta))
	for _, who := range m.Answerers {
		err = errors.Join(err, store.CheckName(what("answerer"), who))
	}
	for name, value := range m.Labels {
		err = errors.Join(err, store.CheckName(what("label"), name), store.CheckName(what("label "+name), value))
	}
	if len(m.Form) > 0 {
		if bad := validJSON(m.Form); bad != nil {
			err = errors.Join(err, &InvalidError{What: what("form"), Value: fmt.Sprintf("%.100q", m.Form), Reason: "cannot be kept: " + bad.Error()})
		}
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(hookRecord{*m, web})
	switch {
	case err != nil:
		return nil, &InvalidError{What: what("description"), Value: m.Title, Reason: err.Error()}
	case len(data) > MaxHookMeta:
		return nil, &InvalidError{What: what("all metadata"), Value: m.Title, Reason: fmt.Sprintf("has %d bytes together, the limit is %d", len(data), MaxHookMeta)}
	case string(data) == "{}":
		return nil, nil
	}
	return data, nil
}

// HookInfo describes the current state of a hook.
type HookInfo struct {
	Hook   string // the declared name
	Token  string
	Run    RunID // the run that opened it
	Closed bool  // it accepts no more payloads
	Meta   HookMeta
	// Respond is how long a request waits for a response, see [RespondWith]; 0: it does not wait.
	Respond time.Duration
	// Request reports that the hook accepts whole requests, see [HookRequest]. Headers lists the
	// headers that it keeps.
	Request bool
	Headers []string
	// Attempt is the number of the attempt that opened the hook, see step.Later, and Due is when
	// that attempt times out. Attempt is 0 if workflow code opened the hook.
	Attempt int
	Due     time.Time
	// ID, Key and OpenedAt are set only by [Handle.Hooks]: the ID of the hook, or of the step that
	// opened it; the key of the operation that opened it; and the time when it was opened.
	ID       string
	Key      string
	OpenedAt time.Time
}

// Hook returns the description and state of the hook with this token, until its run is deleted. For
// a closed hook, Closed is set. Errors: one that matches ErrHookNotFound, as for [Hook.Send]. Hook
// waits out an outage of the store; ctx bounds the wait.
func (c *Client) Hook(ctx context.Context, token string) (HookInfo, error) {
	h, err := c.openHook(ctx, token, 2)
	if err != nil {
		return HookInfo{}, fmt.Errorf("get hook: %w", err)
	}
	info := HookInfo{Hook: h.state.Name, Token: token, Run: h.run, Closed: h.closed || h.ended}
	if h.state.Step != nil {
		info.Attempt, info.Due = h.state.Step.Attempt, h.state.Step.Due
	}
	if err := info.describe(h.meta); err != nil {
		return info, fmt.Errorf("get hook of run %s: %w", h.run, err)
	}
	return info, nil
}

// describe sets the fields that come from the stored form of a description.
func (i *HookInfo) describe(data []byte) error {
	r, err := decodeRecord(data)
	i.Meta, i.Respond, i.Request, i.Headers = r.HookMeta, r.respond(), r.Request, r.Keep
	return err
}

func decodeRecord(data []byte) (r hookRecord, err error) {
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("decode the description of a hook: %w: %w", err, event.ErrCorrupt)
	}
	return r, nil
}

// readHook reads the last chunks of the state of a run's hook. On success there is at least one.
func (c *Client) readHook(ctx context.Context, run RunID, token string, chunks int) (store.StreamPage, error) {
	r := &reader{c: c, run: run, what: "the state of a hook", stream: effects.HookStream(token)}
	page, err := r.page(ctx, store.ReadStream{Tail: chunks})
	switch {
	case errors.Is(err, ErrRunNotFound):
		return page, fmt.Errorf("run %s does not exist: %w", run, ErrHookNotFound)
	case err == nil && len(page.Chunks) == 0:
		return page, fmt.Errorf("run %s has no such token: %w", run, ErrHookNotFound)
	}
	return page, err
}
