package workflow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Errors of the client. They match with errors.Is.
var (
	// ErrRunNotFound: there is no such run, or none of that workflow id.
	ErrRunNotFound = store.ErrRunNotFound
	// ErrRunBlocked: the run was still blocked when the time of whoever waits for it was
	// up: worker code does not fit its log. The text says why; so does [RunInfo].
	ErrRunBlocked = errors.New("workflow: run is blocked")
	// ErrRunUnserved: the run waits for a worker, and none that lives serves its workflow and
	// queue. The text names them; so does [RunInfo], which says it, too.
	ErrRunUnserved = errors.New("workflow: run waits for a worker")
	// ErrWrongWorkflow: the handle or definition is of another workflow than the run.
	ErrWrongWorkflow = errors.New("workflow: handle of another workflow")
	// ErrRunTerminal: the run has ended and takes nothing more.
	ErrRunTerminal = errors.New("workflow: run has ended")
	// ErrStreamClosed: nothing more can be written to the stream.
	ErrStreamClosed = store.ErrStreamClosed
	// ErrClaimLost: the worker that executes a step has lost the run, or the run does
	// not wait for the step any more. It is also the cause of the step's context then.
	ErrClaimLost = errors.New("workflow: the claim of the run was lost")
	// ErrHookNotFound: no run has or had a hook with this token.
	ErrHookNotFound = errors.New("workflow: hook not found")
	// ErrHookDisposed: the hook with this token is closed.
	ErrHookDisposed = errors.New("workflow: hook is closed")
	// ErrHookAnswered: the hook of a step has accepted another outcome before, or the payload of a hook was answered before.
	ErrHookAnswered = errors.New("workflow: hook was answered by somebody else before")
)

// ActiveRunError says that a workflow id already has an active run.
type ActiveRunError = store.ActiveError

// InputDiffersError is the error of a start with [WithSameInput] whose workflow id has an active run that was started with
// another input.
type InputDiffersError struct {
	WorkflowID string
	Run        RunID // the active one
	// Unknown reports that the inputs were not compared: Run has continued another run, and the first run of its chain, which
	// had the input, was deleted.
	Unknown bool
}

// Error names the workflow id, the run and the fix.
func (e *InputDiffersError) Error() string {
	what := "was started with another input"
	if e.Unknown {
		what = "continues a deleted run, whose input is not known"
	}
	return fmt.Sprintf("workflow id %q: the active run %s %s: use another workflow id, or start again when the run has ended", e.WorkflowID, e.Run, what)
}

// FinishedRunError says that a workflow id was used before, and that the start
// does not allow that.
type FinishedRunError = store.FinishedError

// InvalidError says that a name or a number cannot be kept as it is: a queue or
// tag or topic that is not valid UTF-8, holds a zero byte or has more than 1 KiB, or a
// priority of more than 32 bits.
type InvalidError = store.InvalidError

// DeadlockError says of a run that failed with the code "deadlock" which of its branches waited
// for which, and where. Nothing from outside could have woken one of them: no step, timer,
// child, message, payload or question. errors.As finds it in a [RunError].
type DeadlockError = replay.DeadlockError

// BranchWait says for what one branch has waited.
type BranchWait = replay.BranchWait

// Wire names of the errors of this package; they stand in logs.
const (
	wireStepError    = "flowgen.StepError"
	wireRunError     = "flowgen.RunError"
	wirePayloadError = "flowgen.PayloadError"
	wireLimitError   = "flowgen.LimitError"
	wireActiveError  = "flowgen.ActiveRunError"
	wireFinished     = "flowgen.FinishedRunError"
	wireConflict     = "flowgen.TokenConflictError"
	wireRefused      = "flowgen.RefusedError"
	wireAnswer       = "flowgen.AnswerError"
	wireInvalid      = "flowgen.InvalidError"
)

func init() {
	failure.RegisterType(reflect.TypeFor[*StepError](), wireStepError)
	failure.RegisterType(reflect.TypeFor[*RunError](), wireRunError)
	failure.RegisterType(reflect.TypeFor[*PayloadError](), wirePayloadError)
	failure.RegisterType(reflect.TypeFor[*LimitError](), wireLimitError)
	failure.RegisterType(reflect.TypeFor[*ActiveRunError](), wireActiveError)
	failure.RegisterType(reflect.TypeFor[*FinishedRunError](), wireFinished)
	failure.RegisterType(reflect.TypeFor[*TokenConflictError](), wireConflict)
	failure.RegisterType(reflect.TypeFor[*RefusedError](), wireRefused)
	failure.RegisterType(reflect.TypeFor[*AnswerError](), wireAnswer)
	failure.RegisterType(reflect.TypeFor[*InvalidError](), wireInvalid)
	failure.RegisterType(reflect.TypeFor[*DeadlockError](), replay.TypeDeadlock)
	failure.RegisterSentinel("flowgen.ErrHookNotFound", ErrHookNotFound)
	failure.RegisterSentinel("flowgen.ErrHookDisposed", ErrHookDisposed)
	failure.RegisterSentinel("flowgen.ErrHookAnswered", ErrHookAnswered)
	failure.RegisterSentinel("flowgen.ErrRunNotFound", ErrRunNotFound)
	failure.RegisterSentinel("flowgen.ErrRunTerminal", ErrRunTerminal)
	failure.RegisterSentinel("flowgen.ErrStreamClosed", ErrStreamClosed)
	failure.RegisterSentinel("flowgen.ErrReceiveTimeout", ErrReceiveTimeout)
	for name, err := range map[string]error{
		"context.Canceled": context.Canceled, "context.DeadlineExceeded": context.DeadlineExceeded,
		"io.EOF": io.EOF, "io.ErrUnexpectedEOF": io.ErrUnexpectedEOF, "io.ErrClosedPipe": io.ErrClosedPipe,
		"io.ErrNoProgress": io.ErrNoProgress, "io.ErrShortBuffer": io.ErrShortBuffer, "io.ErrShortWrite": io.ErrShortWrite,
		"fs.ErrNotExist": fs.ErrNotExist, "fs.ErrExist": fs.ErrExist, "fs.ErrPermission": fs.ErrPermission,
		"fs.ErrClosed": fs.ErrClosed, "fs.ErrInvalid": fs.ErrInvalid,
		"os.ErrDeadlineExceeded": os.ErrDeadlineExceeded, "os.ErrProcessDone": os.ErrProcessDone,
		"bufio.ErrTooLong": bufio.ErrTooLong, "strconv.ErrRange": strconv.ErrRange, "strconv.ErrSyntax": strconv.ErrSyntax,
		"errors.ErrUnsupported": errors.ErrUnsupported,
	} {
		failure.RegisterSentinel(name, err)
	}
}

// StepError is the error of a durable call whose step has failed for good.
// errors.Is and errors.As look through it at the error that the step returned, even
// after a replay from the log: error types match by their wire name, sentinels if
// they were declared with //flow:error.
type StepError struct {
	Run      RunID
	Step     string // stored name
	Key      string // within the run; the step's name if the context had ended before the call
	Attempts int    // that were started
	// Code is one of "error", "fatal", "panic", "timeout" (of an attempt),
	// "interrupted" (its worker died, and it is not idempotent or has no
	// attempts left), "cancelled" and "payload".
	Code string

	failure *event.Failure
	cause   error // ErrCanceled or ErrTimeout of the caller's context
}

// Error names the step, the attempts and the cause.
func (e *StepError) Error() string {
	attempts := "before its first attempt"
	switch {
	case e.Attempts == 1:
		attempts = "after 1 attempt"
	case e.Attempts > 1:
		attempts = fmt.Sprintf("after %d attempts", e.Attempts)
	}
	text := e.Code
	if e.failure != nil && e.failure.Message != "" {
		text = e.failure.Message
	}
	return fmt.Sprintf("step %s (%s) failed %s: %s", e.Step, e.Key, attempts, text)
}

// Stack returns the stack of the panic if the step panicked, else "".
func (e *StepError) Stack() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Stack
}

// Unwrap returns ErrCanceled or ErrTimeout if the step ended because the
// caller's context did, else the error that the step returned, as an error without a
// type of its own that Is and As look into.
func (e *StepError) Unwrap() error {
	if e.cause != nil {
		return e.cause
	}
	return storedError(e.failure)
}

// storedError returns a stored error as an error, nil if there is none.
func storedError(f *event.Failure) error {
	if f == nil {
		return nil
	}
	return &failure.StoredError{F: f}
}

// Is matches what the step returned.
func (e *StepError) Is(target error) bool { return failure.Is(e.failure, target) }

// As matches what the step returned.
func (e *StepError) As(target any) bool { return failure.As(e.failure, target) }

// FailedStep is the step with whose error a run has failed.
type FailedStep struct {
	Run      RunID // that has called it: the run itself, or a child of it
	Step     string
	Key      string // within that run
	Attempts int
}

// FailedStepOf returns the step that the failure of a run is about: the first one that is found among the failure and its causes.
// Nil: the run has failed with something else.
func FailedStepOf(f *event.Failure) *FailedStep {
	if f == nil {
		return nil
	}
	var s storedStepError
	if f.Type == wireStepError && json.Unmarshal(f.Data, &s) == nil {
		return &FailedStep{Run: s.Run, Step: s.Step, Key: s.Key, Attempts: s.Attempts}
	}
	for _, cause := range f.Causes {
		if found := FailedStepOf(cause); found != nil {
			return found
		}
	}
	return nil
}

type storedStepError struct {
	Run      RunID  `json:"run"`
	Step     string `json:"step"`
	Key      string `json:"key"`
	Attempts int    `json:"attempts"`
	Code     string `json:"code"`
}

// MarshalFailure returns the stored form.
func (e *StepError) MarshalFailure() *event.Failure {
	data, _ := json.Marshal(storedStepError{e.Run, e.Step, e.Key, e.Attempts, e.Code}) // strings and numbers always encode
	f := &event.Failure{Code: e.Code, Type: wireStepError, Message: e.Error(), Data: data}
	if e.failure != nil {
		f.Causes = []*event.Failure{e.failure}
	}
	return f
}

// UnmarshalFailure reads what MarshalFailure gave.
func (e *StepError) UnmarshalFailure(f *event.Failure) error {
	var s storedStepError
	if err := json.Unmarshal(f.Data, &s); err != nil {
		return err
	}
	*e = StepError{Run: s.Run, Step: s.Step, Key: s.Key, Attempts: s.Attempts, Code: s.Code}
	if len(f.Causes) > 0 {
		e.failure = f.Causes[0]
	}
	return nil
}

// RunError is the error of Result and Execute for a run that did not complete.
// errors.Is and errors.As look through it at the error that the workflow returned, as
// they do through a [StepError].
type RunError struct {
	Run      RunID
	Workflow string
	Status   Status // StatusFailed or StatusCanceled
	// Code is that of the [StepError] or RunError which the workflow returned as
	// it was, not wrapped; else one of "error", "panic", "timeout" (of the run),
	// "cancelled", "terminated" (see [Handle.Terminate]), "poisoned" (it killed too many workers), "loglimit" (its log became
	// too long), "deadlock" (its branches waited for one another: see [DeadlockError]),
	// "transitions" (a machine began too many steps) and "payload".
	Code   string
	Reason string // what the workflow's error said
	// Undone and NotUndone list the compensations that were executed, in that order,
	// by their keys and the steps that they called; those that failed with the error. Each
	// has about 64 KiB at most: its last entry then says how many others there were.
	Undone, NotUndone []string

	failure *event.Failure
}

// Error names the run, the workflow, its status, the reason, and what was to be
// undone and was not.
func (e *RunError) Error() string {
	head, tail := e.around()
	return head + e.Reason + tail
}

// around returns what the text of the error says before and after the reason.
func (e *RunError) around() (head, tail string) {
	if len(e.NotUndone) > 0 {
		tail = fmt.Sprintf(" (not undone: %s)", strings.Join(e.NotUndone, "; "))
	}
	return fmt.Sprintf("run %s of %s %s: ", e.Run, e.Workflow, e.Status), tail
}

// Stack returns the stack of the panic if the workflow panicked, else "".
func (e *RunError) Stack() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Stack
}

// Is matches what the workflow returned. A cancelled run matches [ErrCanceled].
func (e *RunError) Is(target error) bool {
	if target == ErrCanceled {
		return e.Status == StatusCanceled
	}
	return failure.Is(e.failure, target)
}

// As matches what the workflow returned.
func (e *RunError) As(target any) bool { return failure.As(e.failure, target) }

// Unwrap returns what the workflow returned, in which errors.As finds the RunError of
// a child that failed, if that was why, with its code and stack:
//
//	for inner := failed; errors.As(inner.Unwrap(), &inner); {
//		failed = inner // in the end the run in which it began
//	}
func (e *RunError) Unwrap() error { return storedError(e.failure) }

// MarshalFailure returns the stored form.
func (e *RunError) MarshalFailure() *event.Failure {
	// The reason is not stored twice: it is a part of the message.
	data, _ := json.Marshal(storedRunError{e.Run, e.Workflow, e.Status, e.Code, e.Undone, e.NotUndone}) // strings always encode
	f := &event.Failure{Code: e.Code, Type: wireRunError, Message: e.Error(), Data: data}
	if e.failure != nil {
		f.Causes = []*event.Failure{e.failure}
	}
	return f
}

type storedRunError struct {
	Run      RunID  `json:"run"`
	Workflow string `json:"workflow"`
	Status   Status `json:"status"`
	Code     string `json:"code"`

	Undone    []string `json:"undone,omitempty"`
	NotUndone []string `json:"notUndone,omitempty"`
}

// UnmarshalFailure reads what MarshalFailure gave.
func (e *RunError) UnmarshalFailure(f *event.Failure) error {
	var s storedRunError
	if err := json.Unmarshal(f.Data, &s); err != nil {
		return err
	}
	*e = RunError{Run: s.Run, Workflow: s.Workflow, Status: s.Status, Code: s.Code, Undone: s.Undone, NotUndone: s.NotUndone}
	head, tail := e.around()
	e.Reason = strings.TrimSuffix(strings.TrimPrefix(f.Message, head), tail)
	if len(f.Causes) > 0 {
		e.failure = f.Causes[0]
	}
	return nil
}

// wrongWorkflow names a run and both workflows.
func wrongWorkflow(run RunID, got, want string) error {
	return fmt.Errorf("run %s is of workflow %s, not of %s: %w", run, got, want, ErrWrongWorkflow)
}

// terminalError adapts a store's answer: it matches ErrRunTerminal and says the status.
type terminalError struct{ *store.TerminalError }

func (e terminalError) Is(target error) bool { return target == ErrRunTerminal }
func (e terminalError) Unwrap() error        { return e.TerminalError }

// EventError says that an event of a log cannot be read.
type EventError struct {
	Run   RunID
	Frame uint64 // counts from 1
	Err   error
}

// Error names the run and the frame.
func (e *EventError) Error() string {
	return fmt.Sprintf("read log of run %s: frame %d: %v", e.Run, e.Frame, e.Err)
}

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }
