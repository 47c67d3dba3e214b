package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// InputError reports a request that is invalid in any state of the store.
type InputError struct {
	What string
	Fix  string
}

// Error returns the reason and the fix.
func (e *InputError) Error() string { return e.What + ": " + e.Fix }

// Problem is an error in the form for operators and programs. Its JSON form is that of RFC 9457
// with additional fields.
type Problem struct { //nolint:errname // RFC 9457 calls it so
	Type   string   `json:"type"`             // URL of the page that explains the code
	Title  string   `json:"title"`            // short description of the code
	Status int      `json:"status"`           // HTTP status
	Detail string   `json:"detail"`           // text of the error
	Code   string   `json:"code"`             // one of the codes below, such as [CodeInput]
	Exit   int      `json:"exit"`             // exit code of the command
	Fix    string   `json:"fix,omitempty"`    // advice on how to solve the problem
	Run    string   `json:"run,omitempty"`    // ID of the run concerned
	Undone []string `json:"undone,omitempty"` // compensations that have undone results which the request needs
	Faults []Fault  `json:"faults,omitempty"` // positions at which an input does not match the schema of its workflow
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// The codes of problems.
const (
	CodeInput           = "input"           // the request is invalid in any state of the store
	CodeNotFound        = "notFound"        // nothing with this name exists
	CodeRefused         = "refused"         // the present state does not allow the request
	CodePrecondition    = "precondition"    // the state has changed since the request was prepared
	CodeLag             = "lag"             // the next entries for the reader are not retained
	CodeRejected        = "rejected"        // the code of the run rejected the request
	CodeUnauthenticated = "unauthenticated" // the caller is not authenticated
	CodeForbidden       = "forbidden"       // the caller lacks the rights
	CodeBusy            = "busy"            // too many requests
	CodeUnsupported     = "unsupported"     // the store does not support the request
	CodeTimeout         = "timeout"         // there was no answer in time
	CodeInterrupted     = "interrupted"     // the caller stopped waiting
	CodeDamaged         = "damaged"         // stored data are damaged and remain unreadable
	CodeNewer           = "newer"           // stored data were written by a newer release that this release cannot read
	CodeFailed          = "failed"          // the store, or the connection to it, failed
)

// kinds contains the common properties of the problems with each code.
var kinds = map[string]struct {
	title        string
	status, exit int
}{
	CodeInput:           {"The request is invalid", http.StatusBadRequest, 2},
	CodeNotFound:        {"The name does not exist", http.StatusNotFound, 3},
	CodeRefused:         {"The state does not allow it", http.StatusConflict, 4},
	CodePrecondition:    {"The state has changed since it was read", http.StatusPreconditionFailed, 4},
	CodeLag:             {"The following data is no longer stored", http.StatusGone, 4},
	CodeRejected:        {"The run has refused", http.StatusUnprocessableEntity, 4},
	CodeUnauthenticated: {"The caller is not authenticated", http.StatusUnauthorized, 6},
	CodeForbidden:       {"It is not allowed", http.StatusForbidden, 6},
	CodeBusy:            {"Too many requests at once", http.StatusTooManyRequests, 1},
	CodeUnsupported:     {"The store cannot do this", http.StatusNotImplemented, 1},
	CodeTimeout:         {"No answer arrived in time", http.StatusGatewayTimeout, 124},
	CodeInterrupted:     {"It was interrupted", http.StatusServiceUnavailable, 130},
	CodeDamaged:         {"What is stored is damaged", http.StatusInternalServerError, 1},
	CodeNewer:           {"A newer release has written it", http.StatusNotImplemented, 4},
	CodeFailed:          {"The store, or the way to it, has failed", http.StatusServiceUnavailable, 1},
}

// problemPages is the URL prefix of the pages that explain the codes.
const problemPages = "https://github.com/flowgen/flowgen/blob/main/docs/use/problems.md#"

// NewProblem returns a problem with a code and its usual status.
func NewProblem(code, detail, fix string) *Problem {
	k := kinds[code]
	return &Problem{Type: problemPages + strings.ToLower(code), Title: k.title, Status: k.status, Code: code, Exit: k.exit, Detail: detail, Fix: fix}
}

// Unreadable reports whether the problem is a log that cannot be read, because it is damaged or was
// written by a newer release. The record of the run and the events before the damage remain
// readable. Unreadable returns false for a nil Problem.
func (p *Problem) Unreadable() bool {
	return p != nil && (p.Code == CodeDamaged || p.Code == CodeNewer)
}

// newerFix is the fix for data written by a newer release.
const newerFix = "use the release that wrote it, or a newer one: nothing is damaged"

// damageFix is the fix for a log that cannot be read.
const damageFix = "flowctl fsck shows what is wrong with the log and what a repair can do; restore other losses from a backup. Data before the damage can be read"

// ProblemOf converts an error to a problem. It returns nil for a nil error.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if p := problemOfRequest(err); p != nil {
		return p
	}
	if p := problemOfState(err); p != nil {
		return p
	}
	if p := problemOfBytes(err); p != nil {
		return p
	}
	is := func(code string) *Problem { return NewProblem(code, err.Error(), "") }
	switch {
	case errors.As(err, new(*store.StartRefusedError)):
		return is(CodeBusy)
	case errors.Is(err, workflow.ErrNotSupported), errors.Is(err, store.ErrNoLimits):
		return is(CodeUnsupported)
	case errors.Is(err, context.DeadlineExceeded):
		return NewProblem(CodeTimeout, err.Error(), "try again, or allow more time")
	case errors.Is(err, context.Canceled):
		return is(CodeInterrupted)
	}
	return is(CodeFailed)
}

// problemOfBytes returns the problem for an error about unreadable stored data, or nil.
func problemOfBytes(err error) *Problem {
	damage, isDamage := errors.AsType[*workflow.EventError](err)
	format, isFormat := errors.AsType[*store.VersionError](err)
	var p *Problem
	switch {
	case isFormat && format.Got < format.Known:
		return NewProblem(CodeRefused, err.Error(), format.Fix())
	case isFormat, errors.As(err, new(*event.VersionError)):
		p = NewProblem(CodeNewer, err.Error(), newerFix)
	case errors.As(err, new(*event.SealedError)):
		return NewProblem(CodeRefused, err.Error(), "use a program that has the key of the data")
	case isDamage:
		p = NewProblem(CodeDamaged, damage.Error(), damageFix)
	default:
		return nil
	}
	if isDamage {
		p.Detail, p.Run = damage.Error(), string(damage.Run)
	}
	return p
}

// problemOfRequest returns the problem for an error about a request or its caller, or nil.
func problemOfRequest(err error) *Problem {
	is := func(code string) *Problem { return NewProblem(code, err.Error(), "") }
	input, isInput := errors.AsType[*InputError](err)
	denied, isDenied := errors.AsType[*NotAllowedError](err)
	payload, isPayload := errors.AsType[*workflow.PayloadError](err)
	refused, isRefused := errors.AsType[*workflow.RefusedError](err)
	answer, isAnswer := errors.AsType[*workflow.AnswerError](err)
	lag, isLag := errors.AsType[*LagError](err)
	switch {
	case isDenied:
		return NewProblem(CodeForbidden, denied.What, denied.Fix)
	case errors.As(err, new(*UnauthenticatedError)):
		return NewProblem(CodeUnauthenticated, err.Error(), "give a token that is known and has not expired, as the header Authorization: Bearer TOKEN")
	case isAnswer: // checked first, because an error that the code of the run returned may wrap any error
		p := is(CodeRejected)
		p.Run = string(answer.Run)
		return p
	case isRefused && !refused.Ended:
		p := is(CodeRejected)
		p.Run = string(refused.Run)
		return p
	case isPayload:
		p := is(CodeInput)
		if payload.Limit > 0 {
			p.Status = http.StatusRequestEntityTooLarge
		}
		return p
	case isInput:
		return NewProblem(CodeInput, input.What, input.Fix)
	case isLag:
		return NewProblem(CodeLag, err.Error(), fmt.Sprintf("continue from %d", lag.Next))
	case errors.As(err, new(*workflow.InvalidError)), errors.As(err, new(*schedule.Error)):
		return is(CodeInput)
	}
	return nil
}

// notFound lists the errors for missing objects, and advice on how to find existing ones.
var notFound = []struct {
	err error
	fix string
}{
	{workflow.ErrRunNotFound, "flowctl runs lists the existing ones; a run is deleted some time after its end"},
	{workflow.ErrStepNotFound, "flowctl show RUN names its steps"},
	{workflow.ErrHookNotFound, "flowctl hooks lists those that are open"},
	{ops.ErrScheduleNotFound, "flowctl schedules lists the existing ones"},
	{ops.ErrLimitNotFound, "flowctl pools lists the existing ones"},
	{ops.ErrViewNotFound, "flowctl views lists the existing ones"},
}

// refusals lists the errors of commands that a state does not allow, and advice on the
// alternatives.
var refusals = []struct {
	err error
	fix string
}{
	{workflow.ErrRunTerminal, "a run that has ended never changes: retry, fork or restart makes a new run of it"},
	{workflow.ErrNotDebug, "only a run that was started with debugging executes single steps: start another run with it"},
	{workflow.ErrWrongWorkflow, "flowctl show RUN names its workflow"},
	{workflow.ErrHookDisposed, "flowctl hooks lists those that are open"},
	{workflow.ErrHookAnswered, "flowctl hooks lists those that are open"},
	{ops.ErrViewsFull, "delete one that is not used: flowctl views lists them"},
}

// problemOfState returns the problem for an error about a state that does not allow a request, or
// nil.
func problemOfState(err error) *Problem {
	is := func(code string) *Problem { return NewProblem(code, err.Error(), "") }
	status, isStatus := errors.AsType[*workflow.StatusError](err)
	missing, isMissing := errors.AsType[*store.MissingError](err)
	imported, isImported := errors.AsType[*store.ImportError](err)
	readOnly, isReadOnly := errors.AsType[*store.ReadOnlyError](err)
	internal, isInternal := errors.AsType[*workflow.InternalRunError](err)
	if errors.As(err, new(*ops.BuildStateError)) {
		return is(CodeRefused)
	}
	if errors.As(err, new(*ops.UnknownBuildError)) {
		return NewProblem(CodeNotFound, err.Error(), "flowctl deploys lists the known builds")
	}
	for _, n := range notFound {
		if errors.Is(err, n.err) {
			p := is(CodeNotFound)
			p.Fix = n.fix
			return p
		}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			p := is(CodeRefused)
			p.Fix = r.fix
			return p
		}
	}
	active, isActive := errors.AsType[*workflow.ActiveRunError](err)
	finished, isFinished := errors.AsType[*workflow.FinishedRunError](err)
	switch {
	case isActive:
		p := is(CodeRefused)
		p.Run, p.Fix = string(active.Run), "wait for the end of the active run, cancel it, or use another workflow id"
		return p
	case isFinished:
		p := is(CodeRefused)
		p.Run, p.Fix = string(finished.Run), "use another workflow id, or a policy that allows a new run after that one"
		return p
	case isMissing:
		p := is(CodeNotFound)
		p.Fix = missing.Fix()
		return p
	case isStatus:
		p := is(CodeRefused)
		p.Run, p.Fix, p.Undone = string(status.Run), status.Fix, status.Undone
		return p
	case isInternal:
		p := is(CodeRefused)
		p.Run, p.Fix = string(internal.Run), internal.Fix()
		return p
	case isImported:
		p := is(CodeRefused)
		p.Run, p.Fix = string(imported.Run), imported.Fix()
		return p
	case isReadOnly:
		p := is(CodeRefused)
		p.Fix = readOnly.Fix()
		return p
	case errors.As(err, new(*workflow.KeyConflictError)), errors.As(err, new(*workflow.InputDiffersError)),
		errors.Is(err, store.ErrForeign):
		return is(CodeRefused)
	}
	return nil
}
