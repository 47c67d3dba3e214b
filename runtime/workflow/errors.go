package workflow

import (
	"bufio"
	"context"
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
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Errors of the client, for use with errors.Is.
var (
	// ErrRunNotFound means that no run has this ID or workflow ID.
	ErrRunNotFound = store.ErrRunNotFound
	// ErrRunBlocked means that the run was blocked when the wait of the caller ended, because the
	// code of the workers does not match its log. The error text and [RunInfo] contain the reason.
	ErrRunBlocked = errors.New("workflow: run is blocked")
	// ErrRunUnserved means that the run waits for a worker, and that no live worker serves its
	// workflow and queue. The error text and [RunInfo] contain the workflow and the queue.
	ErrRunUnserved = errors.New("workflow: run waits for a worker")
	// ErrWrongWorkflow means that the run belongs to another workflow than the handle or the
	// definition.
	ErrWrongWorkflow = errors.New("workflow: handle of another workflow")
	// ErrRunTerminal means that the run has ended and accepts no requests.
	ErrRunTerminal = errors.New("workflow: run has ended")
	// ErrStreamClosed means that the stream is closed and accepts no writes.
	ErrStreamClosed = store.ErrStreamClosed
	// ErrClaimLost means that the worker that executes a step has lost its claim of the run, or
	// that the run does not wait for the step. In both cases it is also the cause of the step's
	// context.
	ErrClaimLost = flow.ErrClaimLost
	// ErrHookNotFound means that no run has or had a hook with this token.
	ErrHookNotFound = errors.New("workflow: hook not found")
	// ErrHookDisposed means that the hook with this token is closed.
	ErrHookDisposed = errors.New("workflow: hook is closed")
	// ErrHookAnswered means that the hook of a step has accepted another outcome, or that the
	// payload of a hook was already answered.
	ErrHookAnswered = errors.New("workflow: hook was already answered by another caller")
)

// ActiveRunError reports that a run with the workflow ID is active.
type ActiveRunError = store.ActiveError

// InputDiffersError is the error of a start with [WithSameInput] if the active run with its
// workflow ID was started with another input.
type InputDiffersError struct {
	WorkflowID string
	Run        RunID // the active run
	// Unknown reports that the inputs could not be compared, because Run continues another run and
	// the first run of the chain was deleted.
	Unknown bool
}

// Error returns a text that contains the workflow ID, the run and the fix.
func (e *InputDiffersError) Error() string {
	what := "was started with another input"
	if e.Unknown {
		what = "continues a deleted run, whose input is unknown"
	}
	return fmt.Sprintf("workflow id %q: the active run %s %s: use another workflow id, or start again when the run has ended", e.WorkflowID, e.Run, what)
}

// FinishedRunError reports that a run with the workflow ID has ended and that the start does not
// allow reuse of the ID.
type FinishedRunError = store.FinishedError

// InvalidError reports a name or number that cannot be stored. A name, for example of a queue, tag
// or topic, is not valid if it is not UTF-8, contains a zero byte or is longer than 1 KiB. A
// priority must fit into 32 bits.
type InvalidError = store.InvalidError

// DeadlockError describes why a run failed with the code "deadlock". It contains the branches, what
// each of them waited for, and where. No event from outside could have continued a branch: no step,
// timer, child, message, payload or question. To get it from a [RunError], use errors.As.
type DeadlockError = replay.DeadlockError

// BranchWait describes what one branch waited for.
type BranchWait = replay.BranchWait

// Wire names of those error types whose stored form this package writes.
const (
	wireRunError = "flowgen.RunError"
	wireConflict = "flowgen.TokenConflictError"
	wireRefused  = "flowgen.RefusedError"
	wireAnswer   = "flowgen.AnswerError"
)

func init() {
	failure.RegisterType(reflect.TypeFor[*RunError](), wireRunError)
	failure.RegisterType(reflect.TypeFor[*LimitError](), "flowgen.LimitError")
	failure.RegisterType(reflect.TypeFor[*ActiveRunError](), "flowgen.ActiveRunError")
	failure.RegisterType(reflect.TypeFor[*FinishedRunError](), "flowgen.FinishedRunError")
	failure.RegisterType(reflect.TypeFor[*TokenConflictError](), wireConflict)
	failure.RegisterType(reflect.TypeFor[*RefusedError](), wireRefused)
	failure.RegisterType(reflect.TypeFor[*AnswerError](), wireAnswer)
	failure.RegisterType(reflect.TypeFor[*InvalidError](), "flowgen.InvalidError")
	failure.RegisterType(reflect.TypeFor[*DeadlockError](), replay.TypeDeadlock)
	failure.RegisterForm(storeRun, loadRun)
	failure.RegisterForm(storeRefused, loadRefused)
	failure.RegisterForm(storeAnswer, loadAnswer)
	failure.RegisterForm(storeTokenConflict, nil)
	failure.RegisterForm(storeRefusal, nil)
	for name, err := range map[string]error{
		"flowgen.ErrHookNotFound": ErrHookNotFound, "flowgen.ErrHookDisposed": ErrHookDisposed, "flowgen.ErrHookAnswered": ErrHookAnswered,
		"flowgen.ErrRunNotFound": ErrRunNotFound, "flowgen.ErrRunTerminal": ErrRunTerminal,
		"flowgen.ErrStreamClosed": ErrStreamClosed, "flowgen.ErrReceiveTimeout": ErrReceiveTimeout,
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

// StepError is the error of a durable call whose step has failed permanently. errors.Is and
// errors.As also match the error that the step returned, even after a replay from the log. Error
// types match by their stored name. Sentinels match if they were declared with //flow:error. If the
// step ended because the calling context ended, the error matches [ErrCanceled] or [ErrTimeout].
//
// Run is the run that called the step, Step the stored name of the step, Key its key within the run
// (the name of the step if the context ended before the call), and Attempts the number of attempts
// that were started. Code is one of "error", "fatal", "panic", "timeout" (of an attempt),
// "interrupted" (the worker crashed, and the step is not idempotent or has no attempts left),
// "cancelled" and "payload". Stack returns the stack trace of a panic.
type StepError = flow.StepError

// PayloadError reports that a value cannot be stored, or cannot be read unchanged. The value is too
// large, cannot be encoded or decoded, or contains a string that is not UTF-8. Err contains the
// position of such a string. Nothing was truncated, and nothing was written. What describes the
// value, for example "input of step orders.charge". Size and Limit are in bytes, and zero if the
// size is not the reason.
type PayloadError = flow.PayloadError

// FailedStep identifies the step whose error made a run fail.
type FailedStep struct {
	Run      RunID // run that called the step: the failed run or one of its descendants
	Step     string
	Key      string // key of the step within that run
	Attempts int
}

// FailedStepOf returns the step of the first step error that f and its causes contain. It returns
// nil if the run failed for another reason.
func FailedStepOf(f *event.Failure) *FailedStep {
	if f == nil {
		return nil
	}
	if s := flow.StepErrorOf(f); s != nil {
		return &FailedStep{Run: s.Run, Step: s.Step, Key: s.Key, Attempts: s.Attempts}
	}
	for _, cause := range f.Causes {
		if found := FailedStepOf(cause); found != nil {
			return found
		}
	}
	return nil
}

// RunError is the error of Result and Execute for a run that did not complete. errors.Is and
// errors.As also match the error that the workflow returned, as they do for [StepError].
type RunError struct {
	Run      RunID
	Workflow string
	Status   Status // StatusFailed or StatusCanceled
	// Code is the code of the [StepError] or RunError that the workflow returned unwrapped.
	// Otherwise it is one of "error", "panic", "timeout" (of the run), "cancelled", "terminated"
	// (see ops.Client.Terminate), "poisoned" (too many workers crashed while they executed the
	// run), "loglimit" (the log became too long), "deadlock" (the branches waited for one another,
	// see [DeadlockError]), "transitions" (a machine began too many steps) and "payload".
	Code   string
	Reason string // text of the error that the workflow returned
	// Undone lists the compensations that succeeded, and NotUndone those that failed, in the order
	// of execution. An entry contains the keys of the compensation and of the steps that it called.
	// An entry of NotUndone also contains the errors. Each list has at most about 64 KiB. If a list
	// was truncated, its last entry contains the number of omitted entries.
	Undone, NotUndone []string

	failure *event.Failure
}

// newRunError returns the error of a run that has failed or was canceled. f may be nil.
func newRunError(run RunID, workflow string, f *event.Failure, canceled bool) *RunError {
	e := &RunError{Run: run, Workflow: workflow, Status: StatusFailed, failure: f}
	if canceled {
		e.Status = StatusCanceled
	}
	if f != nil {
		e.Code, e.Reason, e.Undone, e.NotUndone = f.Code, f.Message, f.Undone, f.NotUndone
	}
	return e
}

// Error returns a text that contains the run, its workflow and status, the reason, and the
// compensations that failed.
func (e *RunError) Error() string {
	head, tail := e.around()
	return head + e.Reason + tail
}

// around returns the parts of the error text before and after the reason.
func (e *RunError) around() (head, tail string) {
	if len(e.NotUndone) > 0 {
		tail = fmt.Sprintf(" (not undone: %s)", strings.Join(e.NotUndone, "; "))
	}
	return fmt.Sprintf("run %s of %s %s: ", e.Run, e.Workflow, e.Status), tail
}

// Stack returns the stack trace of the panic if the workflow panicked, and "" otherwise.
func (e *RunError) Stack() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Stack
}

// Is reports whether the error of the workflow matches target. The error of a canceled run also
// matches [ErrCanceled].
func (e *RunError) Is(target error) bool {
	if target == ErrCanceled {
		return e.Status == StatusCanceled
	}
	return failure.Is(e.failure, target)
}

// As sets target to the error of the workflow if it has the type of target. It reports whether it
// did.
func (e *RunError) As(target any) bool { return failure.As(e.failure, target) }

// Unwrap returns the error of the workflow. If a child failed, errors.As finds the RunError of the
// child in it, with the code and stack of the child:
//
//	for inner := failed; errors.As(inner.Unwrap(), &inner); {
//		failed = inner // after the loop, the run that failed first
//	}
func (e *RunError) Unwrap() error {
	if e.failure == nil {
		return nil
	}
	return &failure.StoredError{F: e.failure}
}

func storeRun(e *RunError) *event.Failure {
	// Reason is not stored separately, because it is part of the message.
	return flow.StoreError(wireRunError, e.Code, e.Error(), storedRunError{e.Run, e.Workflow, e.Status, e.Code, e.Undone, e.NotUndone}, e.failure)
}

type storedRunError struct {
	Run      RunID  `json:"run"`
	Workflow string `json:"workflow"`
	Status   Status `json:"status"`
	Code     string `json:"code"`

	Undone    []string `json:"undone,omitempty"`
	NotUndone []string `json:"notUndone,omitempty"`
}

func loadRun(e *RunError, f *event.Failure) error {
	var s storedRunError
	cause, err := flow.LoadError(f, &s)
	*e = RunError{Run: s.Run, Workflow: s.Workflow, Status: s.Status, Code: s.Code, Undone: s.Undone, NotUndone: s.NotUndone, failure: cause}
	head, tail := e.around()
	e.Reason = strings.TrimSuffix(strings.TrimPrefix(f.Message, head), tail)
	return err
}

// wrongWorkflow returns an error that contains the run and both workflows.
func wrongWorkflow(run RunID, got, want string) error {
	return fmt.Errorf("run %s is of workflow %s, not of %s: %w", run, got, want, ErrWrongWorkflow)
}

// terminalError makes the TerminalError of a store match ErrRunTerminal.
type terminalError struct{ *store.TerminalError }

func (e terminalError) Is(target error) bool { return target == ErrRunTerminal }
func (e terminalError) Unwrap() error        { return e.TerminalError }

// EventError reports an event of a log that cannot be read.
type EventError struct {
	Run   RunID
	Frame uint64 // number of the frame, from 1
	Err   error
}

// Error returns a text that contains the run and the frame.
func (e *EventError) Error() string {
	return fmt.Sprintf("read log of run %s: frame %d: %v", e.Run, e.Frame, e.Err)
}

// Unwrap returns the cause.
func (e *EventError) Unwrap() error { return e.Err }

// LagError reports that a reader of a stream cannot continue at its position, because the next
// chunk was deleted or the store has lost it. [Handle.Events] never returns a LagError, because
// events stay in a log until the run is purged.
type LagError struct {
	Run    RunID
	Stream string
	Wanted uint64 // number of the chunk that the reader wanted to read
	Next   uint64 // number of the chunk at which the reader can continue: From(Next)
}

// Error returns a text that contains the stream, the missing chunk and the chunk at which to
// continue.
func (e *LagError) Error() string {
	if e.Next < e.Wanted {
		return fmt.Sprintf("stream %s of run %s ends before chunk %d, which existed: the store has lost writes; continue with chunk %d",
			e.Stream, e.Run, e.Wanted-1, e.Next)
	}
	return fmt.Sprintf("chunk %d of stream %s of run %s is no longer stored: continue with chunk %d", e.Wanted, e.Stream, e.Run, e.Next)
}

// KeyConflictError reports that an idempotency key was used for a different request.
type KeyConflictError struct {
	Verb string // requested operation
	Run  RunID  // run of which a rerun was requested
	New  RunID  // run that the key has made
}

// Error returns a text that contains the runs and the fix.
func (e *KeyConflictError) Error() string {
	return fmt.Sprintf("%s run %s: the idempotency key was used before for another request, which created run %s: use another key", e.Verb, e.Run, e.New)
}
