package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Hook declares a kind of tokens. With a token, an external caller that has no reference to a run,
// such as a payment service, can send payloads of type T to the run. Declare a Hook once as a
// package variable, and use it in workflow code and in callers:
//
//	var Paid = workflow.NewHook[Callback]("paid")
type Hook[T any] flow.Hook

// NewHook returns the hook with the given name. Names are kebab-case, unique in a module and at
// most 200 bytes long. NewHook panics if the name is empty or longer than that.
func NewHook[T any](name string) Hook[T] {
	checkName("NewHook", name)
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[HookRequest]() {
		t = reflect.TypeFor[flow.HookRequest]()
	}
	return Hook[T](flow.NewHook(name, t))
}

// Name returns the name of the hook.
func (h Hook[T]) Name() string { return flow.Hook(h).Name() }

func (h Hook[T]) what() string { return "payload of hook " + h.Name() }

// HookOption is an option of [Hook.Open].
type HookOption func(*hookOptions)

type hookOptions = flow.HookOptions

// Token opens a hook with the given token instead of a random one. Use it for callers that cannot
// receive a token but know, for example, the number of an order. The token is unique in the whole
// store while its hook is open. Any caller that can guess the token can send to the run. A token
// has at most 200 bytes and must not begin like a run ID.
func Token(t string) HookOption { return func(o *hookOptions) { o.Token, o.Own = t, true } }

// OpenHook is an open hook of a run, and receives its payloads. It belongs to the run, and not to
// the context under which it was opened. [OpenHook.Dispose] and the end of the run close it, even
// if the run continues as new.
type OpenHook[T any] struct {
	hook  Hook[T]
	inner *replay.Hook
}

// Open opens a hook. From then on, [Hook.Send] with its token delivers payloads to this run. The
// token consists of the ID of the run and 128 random bits, and is recorded in the log.
//
// With the option [Token], Open waits until the store has granted the token. An internal run of
// workflow "flowgen.hook" with workflow ID "hook:" + token holds the token. It is a child of this
// run, but does not count towards the limits of children. Lists include it only with
// [Filter].Internal. It ends soon after the hook.
//
// Errors: a *[TokenConflictError] if another open hook, possibly of this run, has the token; the
// error of ctx if ctx ends first; or an *[InvalidError] if the token or the data of [Describe] is
// not valid.
func (h Hook[T]) Open(ctx Context, opts ...HookOption) (*OpenHook[T], error) {
	declared := flow.Hook(h)
	declared.Declared()
	o, b := optionsOf(opts), ctx.gate()
	key := b.Key("hook." + h.Name())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	meta, err := declared.Meta(&o)
	if err != nil {
		return nil, fmt.Errorf("open hook %s: %w", h.Name(), err)
	}
	spec := replay.HookSpec{Name: h.Name(), Token: o.Token, Shape: declared.Shape(), Meta: meta, Answers: o.Respond != nil, Check: func(payload []byte) error {
		var v T
		return flow.Decode(h.what(), payload, &v)
	}}
	var inner *replay.Hook
	if o.Own {
		inner, err = ctx.openOwn(key, spec)
	} else {
		inner = b.NewHook(key, spec, func() string { return ctx.env().Token(b.Run().ID(), key) })
	}
	if err != nil {
		return nil, err
	}
	return &OpenHook[T]{hook: h, inner: inner}, nil
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
	if _, err := b.Await(ctx.scope(), op.Started(), "the token of hook "+hook.Name); err != nil {
		b.DisposeHook(inner)
		return nil, err
	}
	if !op.Done() || op.Failure == nil || op.Failure.Code != event.CodeRefused {
		return inner, nil
	}
	active := &ActiveRunError{}
	failure.As(op.Failure, &active)
	b.ConflictHook(inner, active.Run)
	return nil, &TokenConflictError{Token: token, Holder: active.Run}
}

// holdKey returns the key of the child that holds the token of a hook. hook is the key of the hook.
func holdKey(hook string) string { return hook + "/hold" }

// Token returns the token for [Hook.Send]. Treat it as a secret, because any caller with the token
// can send to the run.
func (h *OpenHook[T]) Token() string { return h.inner.Token }

// Receive waits for the next payload and returns it. Payloads are received in order, including
// those that arrived before this call.
//
// Errors: ErrReceiveTimeout after a [Timeout]; the error of ctx if ctx ends first; an error that
// matches ErrHookDisposed if the hook is closed before or during the call; or a *PayloadError if
// the payload cannot be decoded as a T. The last error occurs only if the type has changed since
// the payload arrived, see [Hook.Send].
func (h *OpenHook[T]) Receive(ctx Context, opts ...ReceiveOption) (T, error) {
	due := receiveBy(ctx, opts)
	var v T
	e, err := ctx.branch().ReceiveHook(ctx.scope(), h.inner, due)
	switch {
	case errors.Is(err, replay.ErrClosed):
		return v, fmt.Errorf("%s: %w", h.hook.what(), ErrHookDisposed)
	case err != nil:
		return v, err
	}
	err = flow.Decode(h.hook.what(), e.Payload, &v)
	return v, err
}

// Case returns a case for [Select]. If the hook is closed, the case is ready, and the error of
// Select matches ErrHookDisposed.
func (h *OpenHook[T]) Case() *ReceiveCase[T] {
	return &ReceiveCase[T]{what: h.hook.what(), from: replay.Case{Hook: h.inner}}
}

// Dispose closes the hook, so that later payloads are refused. It does not wait. It has an effect
// even if ctx has ended, and does nothing if the hook is closed. The last event of the run lists
// accepted payloads that were not received as unread.
func (h *OpenHook[T]) Dispose(ctx Context) {
	ctx.gate().DisposeHook(h.inner)
}

// TokenConflictError reports that a hook was not opened because its token is in use.
type TokenConflictError struct {
	Token  string `json:"token"`
	Holder RunID  `json:"holder"` // run whose hook has the token
}

// Error returns a text that contains the run that holds the token. It omits the token, because any
// caller with the token can send to the run.
func (e *TokenConflictError) Error() string {
	return fmt.Sprintf("open hook: its token is in use by a hook of run %s", e.Holder)
}

func storeTokenConflict(e *TokenConflictError) *event.Failure {
	return flow.StoreError(wireConflict, event.CodeRefused, e.Error(), e, nil)
}

// Hooks returns the open hooks of the run and of its steps, in the order of the operations that
// opened them. It is for operators. It reads the new part of the run's log, and of the logs of the
// runs that execute steps for it. Treat the result as a secret, because any caller with a token can
// send to the run. A hook with a user-defined [Token] is listed when the store has granted the
// token. A run that has ended has no open hooks.
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
		more, err := h.c.handle(other).Hooks(ctx)
		if err != nil && !errors.Is(err, ErrRunNotFound) { // the run that executes a step may not exist yet, or was purged
			return all, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// hooksOf returns the hooks that are open at the end of a run's log, and the IDs of the runs that
// execute steps for the run.
func (c *client) hooksOf(ctx context.Context, run RunID) (all []HookInfo, remote []RunID, err error) {
	head, err := c.loadAgain(ctx, store.Load{Run: run, Limit: -1})
	if err != nil || head.Record.QueueState == store.StateEnded {
		return nil, nil, err
	}
	whole, bad := false, error(nil)
	err = c.Persist(ctx, "list hooks", func() error {
		return c.readLog(ctx, &head.Record, func(l *followedLog) {
			if whole = l.read >= head.Record.N; whole {
				all, remote, bad = l.openHooks(run)
			}
		})
	})
	if err == nil && !whole {
		return c.hooksAgain(ctx, run)
	}
	return all, remote, errors.Join(err, bad)
}

// hooksAgain reads the whole log of a run after follow could not read a part of it. It returns the
// error of the log, or the hooks if the log can be read.
func (c *client) hooksAgain(ctx context.Context, run RunID) ([]HookInfo, []RunID, error) {
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

// noteHook keeps the event that opens a hook until the hook is closed. It copies only the necessary
// data, so that the frame of the event is not kept.
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

// openHooks returns the hooks that are open at the end of the log, and the IDs of the runs that
// execute steps for the run.
func (l *followedLog) openHooks(run RunID) (all []HookInfo, remote []RunID, err error) {
	if l.state.Run.Terminal() {
		return nil, nil, nil
	}
	asked := map[string]bool{} // keys of the child runs that will hold a token when the store grants it
	open := slices.SortedFunc(l.state.Opens, byRef)
	for _, o := range open {
		if o.Name == event.HookRun && o.State == event.StateWaiting {
			asked[o.Key] = true
		}
	}
	for _, o := range open {
		e := l.hooks[o.Token]
		if _, is := event.StepOfRun(o.Name); is && o.Entity == event.EntityChild {
			remote = append(remote, o.Next)
		}
		if e == nil || asked[holdKey(o.Key)] {
			continue
		}
		info := HookInfo{Hook: e.Name, Token: e.Token, Run: run, ID: e.Correlation(run), Key: o.Key, Event: e.Seq, OpenedAt: e.Time, Attempt: e.Attempt, Due: e.Due}
		if err := info.describe(e.Meta); err != nil {
			return all, nil, err
		}
		all = append(all, info)
	}
	return all, remote, nil
}

// HookMeta is a description of a hook for people and for programs that present the hook, for
// example as a form. The runtime stores the description and does not interpret it. The endpoint
// that accepts payloads must check whether the sender may answer. The stored form has at most 64
// KiB. The title, each answerer and each label have at most 1 KiB.
type HookMeta struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Form describes the payload, usually as a JSON Schema. It may be any JSON. It is not checked
	// against the type of the hook.
	Form json.RawMessage `json:"form,omitempty"`
	// Answerers lists the names of users or groups that may answer. The program defines their
	// meaning.
	Answerers []string          `json:"answerers,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // any other data
}

// Describe opens a hook with a description. Holders of its token read the description with
// [Client.Hook], and operators read it with [Handle.Hooks]. The description is recorded when the
// hook is opened, and does not change. Code with another description remains compatible with open
// runs, whose hooks keep the old description.
func Describe(m HookMeta) HookOption { return func(o *hookOptions) { o.Describe = m.encode } }

// hookRecord is the stored form of a description.
type hookRecord struct {
	HookMeta
	flow.HookWeb
}

// encode returns the stored form of m and web, or nil if both are empty. The error is an
// *InvalidError.
func (m *HookMeta) encode(hook string, web flow.HookWeb) ([]byte, error) {
	what := func(part string) string { return part + " of hook " + hook }
	err := errors.Join(store.CheckName(what("title"), m.Title), store.CheckText(what("description"), m.Description, flow.MaxHookMeta))
	for _, who := range m.Answerers {
		err = errors.Join(err, store.CheckName(what("answerer"), who))
	}
	for name, value := range m.Labels {
		err = errors.Join(err, store.CheckName(what("label"), name), store.CheckName(what("label "+name), value))
	}
	if len(m.Form) > 0 {
		if bad := flow.ValidJSON(m.Form); bad != nil {
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
	case len(data) > flow.MaxHookMeta:
		return nil, &InvalidError{What: what("all metadata"), Value: m.Title, Reason: fmt.Sprintf("has %d bytes together, the limit is %d", len(data), flow.MaxHookMeta)}
	case string(data) == "{}":
		return nil, nil
	}
	return data, nil
}

// HookInfo describes the current state of a hook.
type HookInfo struct {
	Hook   string // declared name of the hook
	Token  string
	Run    RunID // run that opened the hook
	Closed bool  // the hook accepts no more payloads
	Meta   HookMeta
	// Respond is the time for which a request waits for a response, see [RespondWith]. If it is 0,
	// requests do not wait.
	Respond time.Duration
	// Request reports that the hook accepts whole requests, see [HookRequest]. Headers lists the
	// headers that it keeps.
	Request bool
	Headers []string
	// Attempt is the number of the attempt that opened the hook, see step.Later, and Due is the
	// time at which that attempt times out. Attempt is 0 if workflow code opened the hook.
	Attempt int
	Due     time.Time
	// ID is the ID of the hook, or of the step that opened it. Key is the key of the operation that
	// opened the hook, Event the number of its event, and OpenedAt the time of that event. They are
	// set only by [Handle.Hooks].
	ID       string
	Key      string
	Event    uint64
	OpenedAt time.Time
}

// Hook returns the description and state of the hook with this token, until its run is deleted.
// Closed is set for a closed hook. The error matches ErrHookNotFound if there is no such hook, as
// for [Hook.Send]. During an outage of the store, Hook waits until ctx ends.
func (c *Client) Hook(ctx context.Context, token string) (HookInfo, error) {
	h, err := c.inner().openHook(ctx, token, 2)
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

// describe sets the fields that the stored form of a description contains. If the description is
// sealed, its text is the sealed data in a form that can be shown.
func (i *HookInfo) describe(data []byte) error {
	if event.IsSealed(data) {
		i.Meta.Description = event.ShownText(string(data))
		return nil
	}
	r, err := decodeRecord(data)
	i.Meta, i.Respond, i.Request, i.Headers = r.HookMeta, r.Respond(), r.Request, r.Keep
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

// readHook reads the last chunks of the state of a run's hook. It returns at least one chunk or an
// error.
func (c *client) readHook(ctx context.Context, run RunID, token string, chunks int) (store.StreamPage, error) {
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
