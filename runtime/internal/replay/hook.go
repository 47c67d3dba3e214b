package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Hook is an open hook of a run: a token with which others can send payloads to the run, and the
// payloads received so far.
type Hook struct {
	topic
	HookSpec
	Token string // the token in the HookSpec, or a generated one
	ref   uint64
	holds *Op // the child that holds a token chosen by the user; nil if there is none
	run   *Run
}

// hooks contains the hooks of a run.
type hooks struct {
	open  map[string]*Hook // open hooks by token
	byRef map[uint64]*Hook // open hooks by the number of their creating event
	holds map[string]*Op   // for each token, the last child that has held it
}

// HookSpec describes a hook.
type HookSpec struct {
	Name  string
	Token string // empty means that an unguessable token is generated
	Shape []byte // shape of the payloads; nil accepts any payload
	Meta  []byte // description of the hook, which a replay does not compare
	// Check returns an error if a payload cannot be decoded into the type that the code expects. A
	// nil Check accepts all payloads.
	Check func(payload []byte) error
	// Answers makes branches remember the last payload that they have received, for
	// [Branch.AnswerHook].
	Answers bool
}

// taken is a payload that a branch has received. Branches that are opened by that branch afterwards
// share it.
type taken struct {
	item     event.ItemID
	answered bool
}

// NewHook opens a hook. If the token is empty, it calls secret once, and the log keeps the result.
// The log also keeps the shape of the payloads, so that payloads with another shape can be
// rejected, and the description of the hook. A replay keeps the recorded shape and description.
func (b *Branch) NewHook(key string, spec HookSpec, secret func() string) *Hook {
	b.enter()
	r := b.run
	token := spec.Token
	asked := event.Event{Type: event.HookCreated, Name: spec.Name, Key: key, Token: token, Payload: spec.Shape, Meta: spec.Meta}
	rec := r.expect(&asked, func(rec *event.Event) string {
		if token == "" || rec.Token == token {
			return ""
		}
		return "- token " + rec.Token + "\n+ token " + token
	})
	r.abortOnError()
	if rec == nil {
		if token == "" {
			asked.Token = secret()
		}
		rec = r.emit(&asked)
		r.abortOnError()
	}
	h := &Hook{HookSpec: spec, Token: rec.Token, ref: rec.Seq, run: r}
	if r.hooks.open == nil {
		r.hooks = hooks{open: map[string]*Hook{}, byRef: map[uint64]*Hook{}, holds: map[string]*Op{}}
	}
	r.hooks.open[h.Token], r.hooks.byRef[h.ref] = h, h
	return h
}

// Holds reports whether an open hook of the run has the token.
func (b *Branch) Holds(token string) bool { return b.run.hooks.open[token] != nil }

// AwaitRelease blocks until the child has ended that last held the token for this run. It returns
// at once if there was none.
func (b *Branch) AwaitRelease(token string) {
	b.enter()
	if op := b.run.hooks.holds[token]; op != nil {
		_ = b.AwaitChild(op) // the error is nil, because the child is never CloseAbandon
	}
}

// HoldBy records the child that holds the token of a hook.
func (b *Branch) HoldBy(h *Hook, op *Op) {
	b.enter()
	h.holds, b.run.hooks.holds[h.Token] = op, op
}

// ConflictHook closes a hook whose token is held by another run.
func (b *Branch) ConflictHook(h *Hook, holder event.RunID) event.RunID {
	b.enter()
	rec := b.run.command(&event.Event{Type: event.HookConflict, Ref: h.ref, Token: h.Token, Next: holder}, nil)
	h.shut()
	return rec.Next
}

// DisposeHook closes a hook, even if the scope of the caller has ended. Branches that wait for a
// payload are notified. Calls for a closed hook do nothing.
func (b *Branch) DisposeHook(h *Hook) {
	b.enter()
	if h.closed {
		return
	}
	b.run.command(&event.Event{Type: event.HookDisposed, Ref: h.ref, Token: h.Token}, nil)
	h.shut()
	if h.holds != nil {
		b.CancelChild(h.holds, "the hook was closed")
	}
}

// shut removes the hook from the run. Payloads that the code has not received are recorded as
// missed.
func (h *Hook) shut() {
	r := h.run
	delete(r.hooks.open, h.Token)
	delete(r.hooks.byRef, h.ref)
	for _, e := range h.unread {
		r.miss(e)
	}
	h.unread = nil
	h.close()
}

// ReceiveHook returns the next payload of a hook. due and the errors are as in Receive. If the hook
// is closed, the error is ErrClosed.
func (b *Branch) ReceiveHook(s *Scope, h *Hook, due time.Time) (*event.Event, error) {
	b.enter()
	e, err := b.receive(s, &h.topic, event.WaitHook, h.Name, due)
	b.took(h, e)
	return e, err
}

// took records the message that the branch has received, or the payload if h is not nil. e may be
// nil.
func (b *Branch) took(h *Hook, e *event.Event) {
	b.received(e)
	if e == nil || h == nil || !h.Answers {
		return
	}
	if b.taken == nil {
		b.taken = map[*Hook]*taken{}
	}
	b.taken[h] = &taken{item: e.Item}
}

// ErrAnswered is the error of a second answer to a payload.
var ErrAnswered = errors.New("the payload was answered before")

// AnswerHook answers the last payload that the branch has received from a hook, even if the hook is
// closed. If the branch has received none, it answers the payload that the opener of the branch had
// received when it opened the branch. A payload can be answered once.
func (b *Branch) AnswerHook(h *Hook, answer []byte) error {
	b.enter()
	t := b.taken[h]
	switch {
	case !h.Answers:
		panic(&MisuseError{"workflow: Answer on hook " + h.Name + ", whose answers are not awaited: open it with workflow.RespondWith"})
	case t == nil:
		panic(&MisuseError{"workflow: Answer on hook " + h.Name + " in a branch that has received nothing from it: call it after Receive, or after a Select that its case has won"})
	case t.answered:
		return ErrAnswered
	}
	t.answered = true
	asked := event.Event{Type: event.HookAnswered, Name: h.Name, Key: string(t.item), Token: h.Token, Payload: answer}
	b.run.command(&asked, func(rec *event.Event) string { return DiffJSON(rec.Payload, answer) })
	return nil
}

// hookReceived passes a payload to its hook. An earlier event may have closed the hook if the run
// was paused.
func (r *Run) hookReceived(e *event.Event) {
	if h := r.hooks.byRef[e.Ref]; h != nil {
		h.push(e)
		return
	}
	r.miss(e)
}

// JudgePayload returns the reason if the code cannot decode a payload for the open hook with the
// given token. The payload was received, but is not recorded. It returns nil if the code can decode
// the payload or if there is no such hook.
func (r *Run) JudgePayload(token string, payload []byte) error {
	h := r.hooks.open[token]
	if h == nil || h.Check == nil {
		return nil
	}
	var err error
	if c := r.aside("the decoding of a payload of hook "+h.Name, func() { err = h.Check(slices.Clone(payload)) }); c != nil {
		return errors.New("decoding panicked: " + c.text)
	}
	return err
}

// endsAttempt reports whether an event of a step ends the current attempt. Such an event closes the
// hook of the attempt.
func endsAttempt(t event.Type) bool {
	return t == event.StepStarted || t == event.StepRetrying || t == event.StepCompleted || t == event.StepFailed
}

// noteStepHook maintains the map from tokens to the steps whose attempts can be finished with them.
func (r *Run) noteStepHook(e *event.Event) {
	switch {
	case e.Token == "":
	case e.Type == event.StepHookCreated:
		if r.stepHooks == nil {
			r.stepHooks = map[string]uint64{}
		}
		r.stepHooks[e.Token] = e.Ref
	case endsAttempt(e.Type):
		delete(r.stepHooks, e.Token)
	}
	if op := r.ops.Get(e.Ref); op != nil && e.Type == event.StepPending {
		op.Closes = nil
		_ = json.Unmarshal(e.Payload, &op.Closes) // no stream is closed if the payload is empty
	}
}

// StepHook returns the number of the event that created the step whose attempt can be finished with
// a token. It returns 0 if there is none.
func (r *Run) StepHook(token string) uint64 {
	ref := r.stepHooks[token]
	if o := r.state.Open(ref); o == nil || o.Token != token {
		return 0 // the code has canceled the step while it handled an earlier event
	}
	return ref
}

// miss records a received payload or message that no branch can receive.
func (r *Run) miss(e *event.Event) {
	r.missed = append(r.missed, &event.Event{Seq: e.Seq, Type: e.Type, Item: e.Item})
}

// Hook returns the number of the event that created the open hook with a token. It returns 0 if
// there is none.
func (r *Run) Hook(token string) uint64 {
	if h := r.hooks.open[token]; h != nil {
		return h.ref
	}
	return 0
}
