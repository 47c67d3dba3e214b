package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Hook is a token through which others reach the run, and the payloads received for it.
type Hook struct {
	topic
	HookSpec
	Token string // the token of the spec, or a generated one
	ref   uint64
	holds *Op // the child that holds a token chosen by the user; nil if there is none
	run   *Run
}

// hooks are the hooks of a run.
type hooks struct {
	open  map[string]*Hook // open hooks by token
	byRef map[uint64]*Hook // open hooks by the number of their creating event
	holds map[string]*Op   // the last child that holds a token
}

// HookSpec describes a hook.
type HookSpec struct {
	Name  string
	Token string // empty: generate an unguessable one
	Shape []byte // shape of its payloads; nil: any
	Meta  []byte // description of the hook; a replay does not compare it
	// Check returns why a payload cannot be decoded as the type that the code expects. A nil Check
	// accepts all payloads.
	Check func(payload []byte) error
	// Answers makes branches remember the payload that they have received last, for
	// [Branch.AnswerHook].
	Answers bool
}

// taken is a payload that a branch has received. Branches that it opens afterwards share it.
type taken struct {
	item     event.ItemID
	answered bool
}

// NewHook opens a hook. For an empty token it calls secret once, and the log keeps the result. The
// log also keeps the shape of payloads, by which others reject payloads that do not match, and the
// description of the hook. Both are those of the code that has opened the hook.
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

// AwaitRelease blocks until the child has ended by which the run has held a token before, if there
// was one.
func (b *Branch) AwaitRelease(token string) {
	b.enter()
	if op := b.run.hooks.holds[token]; op != nil {
		_ = b.AwaitChild(op) // it is never CloseAbandon
	}
}

// HoldBy records which child holds the token of a hook.
func (b *Branch) HoldBy(h *Hook, op *Op) {
	b.enter()
	h.holds, b.run.hooks.holds[h.Token] = op, op
}

// ConflictHook closes a hook whose token another run holds.
func (b *Branch) ConflictHook(h *Hook, holder event.RunID) event.RunID {
	b.enter()
	rec := b.run.command(&event.Event{Type: event.HookConflict, Ref: h.ref, Token: h.Token, Next: holder}, nil)
	h.shut()
	return rec.Next
}

// DisposeHook closes a hook, even if the scope of the caller has ended. Branches that wait for a
// payload are notified. Further calls do nothing.
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

// shut removes the hook. Payloads that were not taken are missed.
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

// ReceiveHook takes the next payload of a hook. due and errors are as in Receive; in addition it
// returns ErrClosed.
func (b *Branch) ReceiveHook(s *Scope, h *Hook, due time.Time) (*event.Event, error) {
	b.enter()
	e, err := b.receive(s, &h.topic, event.WaitHook, h.Name, due)
	b.took(h, e)
	return e, err
}

// took records the payload that the branch has received, if any.
func (b *Branch) took(h *Hook, e *event.Event) {
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

// AnswerHook answers the payload that the branch has received last from a hook, even if the hook is
// closed now. If the branch has received none, this is the payload that the branch which has opened
// it had received at that time. A payload is answered once.
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
	b.run.command(&asked, func(rec *event.Event) string { return sameJSON(rec.Payload, answer) })
	return nil
}

// hookReceived passes a payload to its hook. If the run was paused, an earlier event may have
// closed the hook.
func (r *Run) hookReceived(e *event.Event) {
	if h := r.hooks.byRef[e.Ref]; h != nil {
		h.push(e)
		return
	}
	r.miss(e)
}

// JudgePayload returns why the code of the open hook with a token cannot decode a payload that was
// received and is not recorded yet. It returns nil if the code can, or if there is no such hook.
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

// endsAttempt reports whether an event of a step ends the step's previous attempt, and closes the
// hook that this attempt may have opened.
func endsAttempt(t event.Type) bool {
	return t == event.StepStarted || t == event.StepRetrying || t == event.StepCompleted || t == event.StepFailed
}

// noteStepHook records which step a token belongs to while the step can be finished with it.
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
	if op := r.ops[e.Ref]; op != nil && e.Type == event.StepPending {
		op.Closes = nil
		_ = json.Unmarshal(e.Payload, &op.Closes) // if it is empty, no stream is closed
	}
}

// StepHook returns the event that has created the step which can be finished with a token, or 0.
func (r *Run) StepHook(token string) uint64 {
	ref := r.stepHooks[token]
	if o := r.state.Open(ref); o == nil || o.Token != token {
		return 0 // canceled by the code between two events
	}
	return ref
}

// miss records a received payload or message that no branch can take.
func (r *Run) miss(e *event.Event) {
	r.missed = append(r.missed, &event.Event{Seq: e.Seq, Type: e.Type, Item: e.Item})
}

// Hook returns the event that has created the open hook with a token, or 0.
func (r *Run) Hook(token string) uint64 {
	if h := r.hooks.open[token]; h != nil {
		return h.ref
	}
	return 0
}
