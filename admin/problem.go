package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// InputError says that what was asked for makes no sense, whatever is stored.
type InputError struct {
	What string
	Fix  string
}

// Error says what is wrong, and the fix.
func (e *InputError) Error() string { return e.What + ": " + e.Fix }

// Problem is an error as operators and programs see it. Its JSON form is that of RFC 9457 with
// three fields more: code, exit and fix.
type Problem struct {
	Title  string   `json:"title"`            // the same for all problems of a code
	Status int      `json:"status"`           // as of HTTP
	Detail string   `json:"detail"`           // the error's text
	Code   string   `json:"code"`             // input, notFound, refused, unsupported, timeout, interrupted or failed
	Exit   int      `json:"exit"`             // of the command
	Fix    string   `json:"fix,omitempty"`    // what to do
	Run    string   `json:"run,omitempty"`    // that it is about
	Undone []string `json:"undone,omitempty"` // compensations that have undone what would be taken over
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// The codes of problems.
const (
	CodeInput       = "input"
	CodeNotFound    = "notFound"
	CodeRefused     = "refused"
	CodeUnsupported = "unsupported"
	CodeTimeout     = "timeout"
	CodeInterrupted = "interrupted"
	CodeFailed      = "failed"
)

// ProblemOf returns the problem that operators see in an error; nil of nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	p := &Problem{Title: "The store, or the way to it, has failed", Status: http.StatusServiceUnavailable, Code: CodeFailed, Exit: 1, Detail: err.Error()}
	set := func(title string, status int, code string, exit int) {
		p.Title, p.Status, p.Code, p.Exit = title, status, code, exit
	}
	input, isInput := errors.AsType[*InputError](err)
	invalid := errors.As(err, new(*workflow.InvalidError))
	status, isStatus := errors.AsType[*workflow.StatusError](err)
	old, isOld := errors.AsType[*store.OldFormatError](err)
	missing, isMissing := errors.AsType[*store.MissingError](err)
	switch {
	case isInput:
		set("The request makes no sense", http.StatusBadRequest, CodeInput, 2)
		p.Detail, p.Fix = input.What, input.Fix
	case invalid:
		set("The request makes no sense", http.StatusBadRequest, CodeInput, 2)
	case errors.Is(err, workflow.ErrRunNotFound), errors.Is(err, workflow.ErrStepNotFound), errors.Is(err, workflow.ErrHookNotFound):
		set("There is nothing of that name", http.StatusNotFound, CodeNotFound, 3)
	case isMissing:
		set("There is nothing of that name", http.StatusNotFound, CodeNotFound, 3)
		p.Fix = missing.Fix()
	case isStatus:
		set("The state does not allow it", http.StatusConflict, CodeRefused, 4)
		p.Run, p.Fix, p.Undone = string(status.Run), status.Fix, status.Undone
	case isOld:
		set("The state does not allow it", http.StatusConflict, CodeRefused, 4)
		p.Fix = old.Fix()
	case errors.Is(err, workflow.ErrRunTerminal), errors.Is(err, workflow.ErrNotDebug), errors.As(err, new(*workflow.ActiveRunError)),
		errors.As(err, new(*store.FleetError)), errors.Is(err, store.ErrForeign), errors.As(err, new(*store.VersionError)):
		set("The state does not allow it", http.StatusConflict, CodeRefused, 4)
	case errors.Is(err, workflow.ErrNotSupported):
		set("The store cannot do this", http.StatusNotImplemented, CodeUnsupported, 1)
	case errors.Is(err, context.DeadlineExceeded):
		set("There was no answer in time", http.StatusGatewayTimeout, CodeTimeout, 124)
		p.Fix = "try again, or allow more time"
	case errors.Is(err, context.Canceled):
		set("It was interrupted", http.StatusServiceUnavailable, CodeInterrupted, 130)
	}
	return p
}
