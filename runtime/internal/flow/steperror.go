package flow

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Wire names of the error types of this package, as stored in logs.
const (
	wireStepError    = "flowgen.StepError"
	wirePayloadError = "flowgen.PayloadError"
)

func init() {
	failure.RegisterType(reflect.TypeFor[*StepError](), wireStepError)
	failure.RegisterType(reflect.TypeFor[*PayloadError](), wirePayloadError)
	failure.RegisterForm(storeStep, loadStep)
	failure.RegisterForm(storePayload, loadPayload)
}

// StepError is documented as workflow.StepError.
type StepError struct {
	Run      event.RunID
	Step     string // stored name of the step
	Key      string // key of the step within the run; the name of the step if the context ended before the call
	Attempts int    // number of attempts that were started
	Code     string

	failure *event.Failure
	cause   error // ErrCanceled or ErrTimeout of the calling context; nil: another reason
}

// Error returns a text that contains the step, the number of attempts and the cause.
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

// Stack returns the stack trace of the panic if the step panicked, and "" otherwise.
func (e *StepError) Stack() string {
	if e.failure == nil {
		return ""
	}
	return e.failure.Stack
}

// Unwrap returns ErrCanceled or ErrTimeout if the step ended because the calling context ended.
// Otherwise it returns the error of the step. That error does not have its original type, but
// errors.Is and errors.As match its stored type.
func (e *StepError) Unwrap() error {
	if e.cause != nil || e.failure == nil {
		return e.cause
	}
	return &failure.StoredError{F: e.failure}
}

// Is reports whether the error of the step matches target.
func (e *StepError) Is(target error) bool { return failure.Is(e.failure, target) }

// As sets target to the error of the step if it has the type of target. It reports whether it did.
func (e *StepError) As(target any) bool { return failure.As(e.failure, target) }

type storedStepError struct {
	Run      event.RunID `json:"run"`
	Step     string      `json:"step"`
	Key      string      `json:"key"`
	Attempts int         `json:"attempts"`
	Code     string      `json:"code"`
}

func storeStep(e *StepError) *event.Failure {
	return StoreError(wireStepError, e.Code, e.Error(), storedStepError{e.Run, e.Step, e.Key, e.Attempts, e.Code}, e.failure)
}

// StepErrorOf returns the StepError whose stored form is f, or nil if f is another failure.
func StepErrorOf(f *event.Failure) *StepError {
	e := &StepError{}
	if f.Type != wireStepError || loadStep(e, f) != nil || e.Step == "" { // without a name, its data are sealed
		return nil
	}
	return e
}

func loadStep(e *StepError, f *event.Failure) error {
	var s storedStepError
	cause, err := LoadError(f, &s)
	*e = StepError{Run: s.Run, Step: s.Step, Key: s.Key, Attempts: s.Attempts, Code: s.Code, failure: cause}
	return err
}

// StoreError returns the stored form of an error. data contains the fields of the error, and its
// encoding must not fail. cause may be nil.
func StoreError(typ, code, message string, data any, cause *event.Failure) *event.Failure {
	b, _ := json.Marshal(data)
	f := &event.Failure{Code: code, Type: typ, Message: message, Data: b}
	if cause != nil {
		f.Causes = []*event.Failure{cause}
	}
	return f
}

// LoadError decodes the data of a result of StoreError, and returns its cause.
func LoadError(f *event.Failure, data any) (cause *event.Failure, err error) {
	if len(f.Causes) > 0 {
		cause = f.Causes[0]
	}
	return cause, json.Unmarshal(f.Data, data)
}
