package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// outcome is the outcome of an attempt, in its stored form. It is
// made on the goroutine of the attempt: encoding an error calls methods
// of the user, which may panic or take long.
type outcome struct {
	payload []byte
	failure *event.Failure // nil: the attempt completed
	gone    bool           // the code has ended its goroutine; the failure is still to be made
	fatal   bool           // another attempt is useless
	stopped bool           // it failed after the worker had told it to end
	after   *time.Duration // until the next attempt, if the step said so
	hold    time.Duration  // for which the rates of the step are closed
	closes  []string       // streams that are closed if the attempt completed
	pending bool           // the code has left the outcome to whoever has the token of its hook
	item    event.ItemID   // by which it was sent from outside; empty: it is that of the code
	key     string         // the idempotency key of that
	sender  string         // on whose behalf that was; empty: it is not known
	unfit   error          // the stored arguments do not fit this code; nil: they do
}

// failed is the outcome of an attempt that the runtime itself has ended.
func failed(err error, code string) outcome {
	f := failure.Encode(err, code)
	f.Code = code
	return outcome{failure: f}
}

func panicked(text string) outcome {
	return outcome{failure: failure.Panicked(text, debug.Stack())}
}

// exited is the outcome of an attempt whose code has ended its goroutine.
func exited() outcome {
	return outcome{failure: &event.Failure{Code: event.CodePanic, Message: "the step called runtime.Goexit"}}
}

// callStep calls the user's code and sets out to its outcome. A panic is a
// failed attempt with its stack. If the code ends its goroutine (runtime.Goexit,
// as FailNow of a test does) callStep does not return, but out is set.
func callStep(ctx context.Context, fn engine.StepFunc, judge func(error) outcome, args []byte, out *outcome) {
	*out = outcome{gone: true} // unless something else is found out
	defer func() {
		if r := recover(); r != nil {
			*out = panicked(fmt.Sprintf("panic: %v", r))
		}
	}()
	payload, err := fn(ctx, args)
	if err == nil {
		*out = outcome{payload: payload}
		return
	}
	*out = judge(err)
}

// judge reads the error of an attempt.
func judge(err error, fatal func(error) bool) outcome {
	f := failure.Encode(err, event.CodeError)
	if f.Code != event.CodePayload {
		f.Code = event.CodeError // even if it is the error of another run, which has a code of its own
	}
	out := outcome{failure: f}
	if r, ok := errors.AsType[*replay.RenamedError](err); ok {
		out.unfit = r
	}
	var stop *at.FatalError
	if errors.As(err, &stop) || fatal != nil && isFatal(fatal, err) {
		out.fatal = true
	}
	if later, ok := errors.AsType[*at.RetryAfterError](err); ok {
		delay := later.Delay
		if out.after = &delay; later.Hold {
			out.hold = delay
		}
	}
	return out
}

// isFatal asks the users' predicate; one that panics says no.
func isFatal(fatal func(error) bool, err error) (yes bool) {
	defer func() { _ = recover() }()
	return fatal(err)
}
