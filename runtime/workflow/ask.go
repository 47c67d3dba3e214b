package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Ask is a named request to a run that has not ended. The request may change the run and returns a
// result. Declare an Ask once as a package variable, and use it in workflow code and in callers:
//
//	var SetLimit = workflow.NewAsk[int, int]("set-limit")
type Ask[Q, A any] struct{ name string }

// NewAsk returns the ask with the given name. Names are kebab-case, unique in a module and at most
// 200 bytes long. NewAsk panics if the name is empty or longer than that.
func NewAsk[Q, A any](name string) Ask[Q, A] {
	checkName("NewAsk", name)
	return Ask[Q, A]{name: name}
}

// Name returns the name of the ask.
func (a Ask[Q, A]) Name() string { return a.name }

func (a Ask[Q, A]) question() string { return "question of ask " + a.name }
func (a Ask[Q, A]) reply() string    { return "answer of ask " + a.name }

func (a Ask[Q, A]) declared() { flow.Declared("Ask", a.name) }

// Handle makes the run answer questions from this call until its end, including questions that
// arrived earlier. Handle does not wait. A second call for the same ask replaces the first handler.
//
// validate returns the reason for refusing a question, or nil. A nil validate accepts all
// questions. It is called when a question arrives, while no other code of the run executes. It may
// read the variables of the workflow, but must not change them or wait. A refused question is not
// recorded, unless it arrived before the call of Handle.
//
// An accepted question is recorded. answer is durable code that runs in its own branch under ctx,
// so several questions may be answered concurrently. It runs to its end despite crashes, and its
// result is recorded and published in one atomic action. A panic of answer fails the run, as in
// every branch.
//
// A run that continues as new first answers the accepted questions. Questions that arrive meanwhile
// go to the new run. If answers change the state that is passed to the new run, call [CloseAsks]
// first. If the run ends in another way, calls that wait for an answer return a [RefusedError].
func (a Ask[Q, A]) Handle(ctx Context, validate func(Q) error, answer func(Context, Q) (A, error)) {
	a.declared()
	ctx.gate().Handle(a.name, &replay.Handler{
		Validate: func(payload []byte) *event.Failure {
			var q Q
			err := flow.Decode(a.question(), payload, &q)
			if err == nil && validate != nil {
				err = validate(q)
			}
			return failureOf(err)
		},
		Answer: func(nb *replay.Branch, payload []byte) ([]byte, *event.Failure) {
			ctx := Context(flow.Context(ctx).On(nb))
			var q Q
			if err := flow.Decode(a.question(), payload, &q); err != nil {
				return nil, failureOf(err)
			}
			v, err := answer(ctx, q)
			if err != nil {
				return nil, failureOf(err)
			}
			payload, err = ctx.encode(a.reply(), v)
			return payload, failureOf(err)
		},
	})
}

// CloseAsks stops accepting questions and waits until the accepted ones are answered. Call it
// before the code reads state that answers change and that it returns or passes to
// [Definition.ContinueAsNew]. Later questions go to the new run, or are refused when the run has
// ended. [Ask.Handle] opens all asks again.
func CloseAsks(ctx Context) {
	ctx.gate().CloseAsks()
}

// failureOf returns the stored form of err, or nil if err is nil.
func failureOf(err error) *event.Failure {
	if err == nil {
		return nil
	}
	return flow.Failure(err)
}

// Ask sends a question to a run, or to its continuation, and waits for the answer. During an outage
// of the store it keeps waiting. It returns at the latest when ctx ends. If the run does not handle
// this ask, the question waits in the run until it does.
//
// With an [IdempotencyKey], the run receives the question once, however many callers send it, and
// all callers receive the same answer. If a call fails with an error that leaves the answer
// unknown, such as the error of ctx, the question may have been accepted. Use a key to repeat such
// a call. The answers to at least the last 1,000 questions are available immediately. Ask searches
// the logs of the run for older answers after one second. The store may forget a key after 24
// hours.
//
// Errors: a *[RefusedError] if the question was not accepted, or if the run has ended without
// answering it; an *[AnswerError] if the run answered with an error; ErrRunNotFound; a
// *[PayloadError]; or the error of ctx.
func (a Ask[Q, A]) Ask(ctx context.Context, of Target, q Q, opts ...SendOption) (A, error) {
	a.declared()
	h := of.target()
	call := &ClientCall{Operation: OperationAsk, Name: a.name, Run: h.id}
	if !h.c.intercepts() {
		return a.ask(ctx, h, call, q, opts)
	}
	var v A
	err := h.c.intercept(ctx, call, func(ctx context.Context) (err error) {
		v, err = a.ask(ctx, h, call, q, opts)
		return err
	})
	return v, err
}

func (a Ask[Q, A]) ask(ctx context.Context, h *Handle, to *ClientCall, q Q, opts []SendOption) (A, error) {
	var v A
	payload, err := h.c.limits.Encode(a.question(), q, false)
	var attributes map[string]string
	if err == nil {
		attributes, err = flow.Attributes(ctx)
	}
	var run RunID
	if err == nil {
		run, err = persist(ctx, h.c, "find run", func() (RunID, error) { return h.commandable(ctx, "ask") })
	}
	if err != nil {
		return v, fmt.Errorf("ask %s: %w", a.name, err)
	}
	to.Run = run
	id, keyed := itemOf("ask "+a.name, opts)
	call := &asking{reader: reader{c: h.c, run: run, what: a.reply(), stream: effects.AnswerStream(id)}, id: id}
	got, err := call.ask(ctx, &event.Event{Type: event.AskReceived, Name: a.name, Payload: payload, Attributes: attributes}, keyed)
	switch {
	case errors.Is(err, errUnanswered):
		return v, &RefusedError{Run: run, Ask: a.name, Reason: err.Error(), Ended: true}
	case err != nil:
		return v, fmt.Errorf("ask %s: %w", a.name, err)
	case got.Refused:
		return v, &RefusedError{Run: run, Ask: a.name, Reason: got.Failure.Message, failure: got.Failure}
	case got.Failure != nil:
		return v, &AnswerError{Run: run, Ask: a.name, Code: got.Failure.Code, Reason: got.Failure.Message, failure: got.Failure}
	}
	err = flow.Decode(a.reply(), got.Payload, &v)
	return v, err
}

// asking is one question and the search for its answer.
type asking struct {
	reader
	id    event.ItemID
	next  uint64    // next chunk to read; earlier ones were read or do not exist
	lost  bool      // some chunks were removed before they were read
	until time.Time // time at which the search in the logs begins
	found *effects.Answer
	ended bool // no chunk will follow
}

// askPatience is the time for which a caller waits for an answer before it searches the logs. It
// applies only if chunks that may contain the answer were removed.
const askPatience = time.Second

// errUnanswered means that the run has ended without answering the question.
var errUnanswered = errors.New("the run has ended without answering")

// ask delivers the question and waits for the answer. If the question has a key, an earlier request
// with that key may have been answered.
func (a *asking) ask(ctx context.Context, question *event.Event, keyed bool) (*effects.Answer, error) {
	if err := a.begin(ctx, keyed); err != nil || a.found != nil {
		return a.found, err
	}
	refused := a.c.deliverAgain(ctx, a.run, store.Item{ID: a.id, Scope: store.ScopeChain}, question)
	if refused != nil && !errors.Is(refused, ErrRunTerminal) {
		return nil, refused
	}
	return a.await(ctx, refused == nil)
}

// begin determines the first chunk that can contain the answer. A question with a key may have been
// answered earlier, so all chunks are read.
func (a *asking) begin(ctx context.Context, keyed bool) error {
	if keyed {
		a.next = 1
		return a.read(ctx)
	}
	page, err := a.page(ctx, store.ReadStream{Limit: -1})
	a.next = page.Last + 1
	return err
}

// await waits for the answer. refusable reports that the question was delivered. If neither the
// logs nor the inbox contain such a question, the run has refused it.
func (a *asking) await(ctx context.Context, refusable bool) (*effects.Answer, error) {
	for {
		if err := a.read(ctx); err != nil || a.found != nil {
			return a.found, err
		}
		if a.lost && (a.ended || !a.c.store.Clock().Now().Before(a.until)) {
			a.lost = false
			if err := a.lookBack(ctx, refusable); err != nil || a.found != nil {
				return a.found, err
			}
		}
		if a.ended {
			return nil, errUnanswered
		}
		if err := a.wait(ctx); err != nil {
			return nil, a.wrap(ctx, err)
		}
	}
}

// wait waits for a new chunk. If chunks were lost, it also returns when the search in the logs must
// begin.
func (a *asking) wait(ctx context.Context) error {
	if !a.lost {
		return a.hear(ctx, a.next-1)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := a.c.store.Clock()
	defer clock.AfterFunc(max(a.until.Sub(clock.Now()), time.Millisecond), cancel)()
	err := a.hear(limited, a.next-1)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// read reads the chunks that have not been read, until one contains the answer.
func (a *asking) read(ctx context.Context) error {
	for {
		page, err := a.page(ctx, store.ReadStream{From: a.next})
		if err != nil {
			return err
		}
		if page.Last+1 < a.next { // the store has lost writes, and later chunks have the same indexes as the lost ones
			a.next = 1
			continue
		}
		if page.First > a.next {
			a.next, a.lost, a.until = page.First, true, a.c.store.Clock().Now().Add(askPatience)
		}
		for _, c := range page.Chunks {
			a.next = c.Index + 1
			answer, err := effects.DecodeAnswer(c.Body)
			if err != nil {
				return a.wrap(ctx, err)
			}
			if answer.ID == a.id {
				a.found = answer
				return nil
			}
		}
		if a.next > page.Last {
			a.ended = page.Ended
			return nil
		}
	}
}

// lookBack searches the logs of the chain for an answer whose chunk was removed. If the question
// was delivered and no log or inbox contains it, the run has refused it.
func (a *asking) lookBack(ctx context.Context, refusable bool) error {
	known := false
	run, err := a.first(ctx)
	var chain event.Loop
	for err == nil && run != "" && a.found == nil {
		if chain.Closed(run) {
			return goesRound(run)
		}
		var here bool
		run, here, err = a.search(ctx, run)
		known = known || here
	}
	if err != nil || a.found != nil || known || !refusable {
		return err
	}
	if err := a.read(ctx); err != nil || a.found != nil {
		return err // the refusal may have been published during the search
	}
	a.found = &effects.Answer{ID: a.id, Refused: true, Failure: &event.Failure{
		Code: event.CodeRefused, Message: "the validation refused it, and its reason is no longer stored",
	}}
	return nil
}

// first returns the oldest run of the chain that exists.
func (a *asking) first(ctx context.Context) (RunID, error) {
	var chain event.Loop
	for run := a.run; ; {
		if chain.Closed(run) {
			return "", goesRound(run)
		}
		l, err := a.c.loadAgain(ctx, store.Load{Run: run, Limit: 1})
		if err != nil {
			return "", a.wrap(ctx, err)
		}
		events, err := (&logReader{run: run}).events(l.Frames)
		if err != nil {
			return "", err
		}
		before := events[0].Spec.ContinuedOf
		if before == "" {
			return run, nil
		}
		if _, err := a.c.loadAgain(ctx, store.Load{Run: before, Limit: -1}); errors.Is(err, ErrRunNotFound) {
			return run, nil
		}
		run = before
	}
}

// search reads the log of a run and sets a.found if it contains the answer. known reports that the
// log or the inbox contains the question. next is the run that continues this run.
func (a *asking) search(ctx context.Context, run RunID) (next RunID, known bool, err error) {
	l, err := a.c.loadAgain(ctx, store.Load{Run: run, Inbox: true})
	if err != nil {
		return "", false, a.wrap(ctx, err)
	}
	events, err := (&logReader{run: run}).all(&l)
	if err != nil {
		return "", false, err
	}
	for i := range events {
		e := &events[i]
		known = known || e.Item == a.id || slices.Contains(e.Unread, a.id)
		switch {
		case e.Type == event.RunContinued:
			next = e.Next
		case (e.Type == event.AskAnswered || e.Type == event.AskRefused || e.Type == event.HookAnswered) && e.Key == string(a.id):
			a.found = &effects.Answer{ID: a.id, Payload: e.Payload, Failure: e.Failure, Refused: e.Type == event.AskRefused}
		}
	}
	return next, known || slices.ContainsFunc(l.Inbox, func(i store.Item) bool { return i.ID == a.id }), nil
}

// RefusedError reports that a run has refused a question, or has ended without answering it.
// errors.Is and errors.As also match the error of the validation. If the run has ended, errors.Is
// matches [ErrRunTerminal].
type RefusedError struct {
	Run    RunID
	Ask    string
	Reason string
	// Ended reports that the run has ended without answering. It may have accepted the question.
	Ended bool

	failure *event.Failure
}

// Error returns a text that contains the ask, the run and the reason.
func (e *RefusedError) Error() string { return e.head() + e.Reason }

func (e *RefusedError) head() string { return fmt.Sprintf("ask %s: run %s refused: ", e.Ask, e.Run) }

// Is reports whether the error of the validation matches target. If the run has ended, it also
// reports true for ErrRunTerminal.
func (e *RefusedError) Is(target error) bool {
	return e.Ended && target == ErrRunTerminal || failure.Is(e.failure, target)
}

// As sets target to the error of the validation if it has the type of target. It reports whether it
// did.
func (e *RefusedError) As(target any) bool { return failure.As(e.failure, target) }

func storeRefused(e *RefusedError) *event.Failure {
	return flow.StoreError(wireRefused, event.CodeRefused, e.Error(), storedAnswer{Run: e.Run, Ask: e.Ask, Ended: e.Ended}, e.failure)
}

func loadRefused(e *RefusedError, f *event.Failure) error {
	var s storedAnswer
	cause, err := flow.LoadError(f, &s)
	*e = RefusedError{Run: s.Run, Ask: s.Ask, Ended: s.Ended, failure: cause}
	e.Reason = strings.TrimPrefix(f.Message, e.head())
	return err
}

// AnswerError reports that a run has accepted a question and answered it with an error. errors.Is
// and errors.As also match that error.
type AnswerError struct {
	Run    RunID
	Ask    string
	Code   string // code of the error, as in [RunError]
	Reason string

	failure *event.Failure
}

// Error returns a text that contains the ask, the run and the reason.
func (e *AnswerError) Error() string { return e.head() + e.Reason }

func (e *AnswerError) head() string { return fmt.Sprintf("ask %s: run %s answered: ", e.Ask, e.Run) }

// Is reports whether the error in the answer matches target.
func (e *AnswerError) Is(target error) bool { return failure.Is(e.failure, target) }

// As sets target to the error in the answer if it has the type of target. It reports whether it
// did.
func (e *AnswerError) As(target any) bool { return failure.As(e.failure, target) }

func storeAnswer(e *AnswerError) *event.Failure {
	return flow.StoreError(wireAnswer, e.Code, e.Error(), storedAnswer{Run: e.Run, Ask: e.Ask, Code: e.Code}, e.failure)
}

func loadAnswer(e *AnswerError, f *event.Failure) error {
	var s storedAnswer
	cause, err := flow.LoadError(f, &s)
	*e = AnswerError{Run: s.Run, Ask: s.Ask, Code: s.Code, failure: cause}
	e.Reason = strings.TrimPrefix(f.Message, e.head())
	return err
}

// storedAnswer is the stored form of RefusedError and AnswerError. The message of the failure
// contains the reason.
type storedAnswer struct {
	Run   RunID  `json:"run"`
	Ask   string `json:"ask"`
	Code  string `json:"code,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}
