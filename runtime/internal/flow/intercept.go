package flow

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// InterceptorError is the representation of workflow.InterceptorError.
type InterceptorError struct {
	Interceptor string
	Misuse      string
	Err         error
}

// Error returns a text that contains the interceptor, its mistake and the error that it hid, if any.
func (e *InterceptorError) Error() string {
	text := fmt.Sprintf("interceptor %s %s", e.Interceptor, e.Misuse)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error that the interceptor hid, or nil.
func (e *InterceptorError) Unwrap() error { return e.Err }

// Links are the interceptors around one operation. C is the type of its context.
type Links[C any] struct {
	// Names are the interceptors for errors, in the order in which they are called.
	Names []string
	// Call calls the interceptor with this index.
	Call func(i int, ctx C, next func(C) error) error
	// Check returns what is wrong with a context that an interceptor has passed on, or "".
	Check func(ctx C) string
	// Code is the operation.
	Code func(ctx C) error
	// Wait makes Intercept wait for an operation that an interceptor has started on a goroutine.
	Wait bool

	misuse atomic.Pointer[InterceptorError] // the first one
}

// States of a link.
const (
	linkOpen    int32 = iota // next was not called
	linkRunning              // next was called and has not returned
	linkDone                 // next has returned
	linkClosed               // the interceptor has returned
)

// Intercept calls the operation through its interceptors. Each interceptor may call next at most
// once, before it returns, and must not return nil unless the operation has succeeded. Any other use
// makes Intercept return an [*InterceptorError], whatever the interceptor returns.
func (l *Links[C]) Intercept(ctx C) error {
	err := l.from(0, ctx)
	if misuse := l.misuse.Load(); misuse != nil {
		return misuse
	}
	return err
}

// from calls the interceptors from index i.
func (l *Links[C]) from(i int, ctx C) error {
	if i == len(l.Names) {
		return l.Code(ctx)
	}
	var state atomic.Int32
	var inner error
	var ended chan struct{}
	if l.Wait {
		ended = make(chan struct{})
	}
	wrong := func(text string, err error) error {
		e := &InterceptorError{Interceptor: l.Names[i], Misuse: text, Err: err}
		l.misuse.CompareAndSwap(nil, e)
		return e
	}
	err := l.Call(i, ctx, func(ctx C) error {
		if text := l.Check(ctx); text != "" {
			return wrong(text, nil)
		}
		switch {
		case state.CompareAndSwap(linkOpen, linkRunning):
		case state.Load() == linkClosed:
			return wrong("called next after it had returned", nil)
		default:
			return wrong("called next twice", nil)
		}
		defer func() {
			if state.CompareAndSwap(linkRunning, linkDone); ended != nil {
				close(ended)
			}
		}()
		inner = errUnwound // remains if the operation panics
		inner = l.from(i+1, ctx)
		return inner
	})
	was := state.Swap(linkClosed)
	if was == linkRunning && l.Wait {
		<-ended
	}
	switch {
	case was == linkRunning:
		return wrong("returned while next was running", nil)
	case was == linkOpen && err == nil:
		return wrong("returned nil without calling next", nil)
	case was == linkDone && err == nil && inner != nil:
		return wrong("returned nil although next had failed", inner)
	}
	return err
}

// errUnwound stands for the error of an operation that has panicked.
var errUnwound = errors.New("panic")

// Around calls the code of a workflow through the interceptors of a worker.
type Around func(ctx Context, code func(Context) error) error

// execute calls the code of a workflow.
func execute(ctx Context, around *Around, run Code, input []byte) (payload []byte, err error) {
	if around == nil {
		return run(ctx, input)
	}
	err = (*around)(ctx, func(ctx Context) (err error) {
		payload, err = run(ctx, input)
		return err
	})
	return payload, err
}
