package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Hook is a token by which others reach the run, and what came for it.
type Hook struct {
	topic
	HookSpec
	Token string // that of the spec, or what was made
	ref   uint64
	holds *Op // the child that holds a token of the user's own; nil: there is none
	run   *Run
}

// hooks are those of a run.
type hooks struct {
	open  map[string]*Hook // by token
	byRef map[uint64]*Hook // the same
	holds map[string]*Op   // the last child that holds a token
}

// HookSpec says what a hook is.
type HookSpec struct {
	Name  string
	Token string // empty: one that nobody can guess
	Shape []byte // of its payloads; nil: any
	Meta  []byte // what it says of itself; a replay does not compare it
	// Check says why a payload cannot be read as what the code wants; nil: any can.
	Check func(payload []byte) error
	// Answers lets branches know what they have received last, for [Branch.AnswerHook].
	Answers bool
}

// taken is a payload that a branch has received. The branches that it opens after that share it.
type taken struct {
	item     event.ItemID
	answered bool
}

// NewHook opens a hook. For an empty token secret makes one, once; the log keeps it.
// The log also keeps the shape of payloads, by which others refuse what does not fit:
// it is that of the code which has opened the hook, and so is what the hook says of itself.
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

// AwaitRelease blocks until the child has ended by which the run has held a token
// before, if there was one.
func (b *Branch) AwaitRelease(token string) {
	b.enter()
	if op := b.run.hooks.holds[token]; op != nil {
		_ = b.AwaitChild(op) // it is not left alone
	}
}

// HoldBy says which child holds the token of a hook.
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

// DisposeHook closes a hook, even if the scope of the caller has ended. Branches that
// wait for a payload are notified. Doing it again does nothing.
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

// shut forgets the hook. What came for it and was not taken is missed.
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

// ReceiveHook takes the next payload of a hook. due and errors are as in Receive, and
// ErrClosed.
func (b *Branch) ReceiveHook(s *Scope, h *Hook, due time.Time) (*event.Event, error) {
	b.enter()
	e, err := b.receive(s, &h.topic, event.WaitHook, h.Name, due)
	b.took(h, e)
	return e, err
}

// took takes note of a payload that the branch has received; nil: of none.
func (b *Branch) took(h *Hook, e *event.Event) {
	if e == nil || h == nil || !h.Answers {
		return
	}
	if b.taken == nil {
		b.taken = map[*Hook]*taken{}
	}
	b.taken[h] = &taken{item: e.Item}
}

// ErrAnswered is the end of an answer to a payload that was answered before.
var ErrAnswered = errors.New("the payload was answered before")

// AnswerHook answers the payload that the branch has received last from a hook, also one that is closed by now, or
// else the one that the branch which has opened this one had received then. A payload is answered once.
func (b *Branch) AnswerHook(h *Hook, answer []byte) error {
	b.enter()
	t := b.taken[h]
	switch {
	case !h.Answers:
		panic(&MisuseError{"workflow: Answer on hook " + h.Name + ", for whose answers nobody waits: open it with workflow.RespondWith"})
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

// hookReceived gives a payload to its hook. While the run was paused the hook may
// have been closed by what came before.
func (r *Run) hookReceived(e *event.Event) {
	if h := r.hooks.byRef[e.Ref]; h != nil {
		h.push(e)
		return
	}
	r.miss(e)
}

// JudgePayload says why the code of the open hook with a token cannot read a payload
// that has come and is not recorded yet; nil if it can, or if there is no such hook.
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

// endsAttempt reports whether an event of a step ends the attempt before it, and closes the hook
// that this may have opened.
func endsAttempt(t event.Type) bool {
	return t == event.StepStarted || t == event.StepRetrying || t == event.StepCompleted || t == event.StepFailed
}

// noteStepHook keeps which step a token belongs to while that can be finished with it.
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
		_ = json.Unmarshal(e.Payload, &op.Closes) // nothing: it closes none
	}
}

// StepHook returns the event that has created the step which can be finished with a token, 0 if
// there is none.
func (r *Run) StepHook(token string) uint64 {
	ref := r.stepHooks[token]
	if o := r.state.Open(ref); o == nil || o.Token != token {
		return 0 // canceled by the code between two events
	}
	return ref
}

// miss keeps that something was received which nobody takes.
func (r *Run) miss(e *event.Event) {
	r.missed = append(r.missed, &event.Event{Seq: e.Seq, Type: e.Type, Item: e.Item})
}

// Hook returns the event that has created the open hook with a token, 0 if there is
// none.
func (r *Run) Hook(token string) uint64 {
	if h := r.hooks.open[token]; h != nil {
		return h.ref
	}
	return 0
}
