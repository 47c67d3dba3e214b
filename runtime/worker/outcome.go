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

// outcome is the outcome of an attempt, in its stored form. The goroutine of the attempt creates
// it, because encoding an error calls methods of user code, which may panic or take long.
type outcome struct {
	payload []byte
	failure *event.Failure // nil if the attempt completed
	gone    bool           // the code has ended its goroutine; the failure is not created yet
	fatal   bool           // another attempt is useless
	stopped bool           // it failed after the stopping worker had canceled it
	after   *time.Duration // delay before the next attempt, if the step set one
	hold    time.Duration  // for how long the rates of the step are closed
	closes  []string       // streams that are closed if the attempt completed
	pending bool           // the code has left the outcome to the holder of its hook's token
	item    event.ItemID   // item that carried an outcome from outside; empty if the code returned the outcome
	key     string         // idempotency key of that item
	sender  string         // sender of that item; empty if unknown
	unfit   error          // the stored arguments do not fit this code; nil if they do
}

// failed returns the outcome of an attempt that the runtime itself has ended.
func failed(err error, code string) outcome {
	f := failure.Encode(err, code)
	f.Code = code
	return outcome{failure: f}
}

func panicked(text string) outcome {
	return outcome{failure: failure.Panicked(text, debug.Stack())}
}

// exited returns the outcome of an attempt whose code has ended its goroutine.
func exited() outcome {
	return outcome{failure: &event.Failure{Code: event.CodePanic, Message: "the step called runtime.Goexit"}}
}

// callStep calls the user's code and stores its outcome in out. A panic is a failed attempt with
// its stack. If the code ends its goroutine (runtime.Goexit, as FailNow of a test does), callStep
// does not return, but out is set.
func callStep(ctx context.Context, fn engine.StepFunc, judge func(error) outcome, args []byte, out *outcome) {
	*out = outcome{gone: true} // the default if the code ends its goroutine
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

// judge returns the outcome for the error of an attempt.
func judge(err error, fatal func(error) bool) outcome {
	f := failure.Encode(err, event.CodeError)
	if f.Code != event.CodePayload {
		f.Code = event.CodeError // even if it is the error of another run, which has its own code
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

// isFatal calls the user's predicate. A panic counts as false.
func isFatal(fatal func(error) bool, err error) (yes bool) {
	defer func() { _ = recover() }()
	return fatal(err)
}
