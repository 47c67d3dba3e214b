package workflow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// RefusedError reports that a run has refused a question, or has ended before answering it.
// errors.Is and errors.As also match the error of the validation; if the run has ended, it matches
// [ErrRunTerminal].
type RefusedError struct {
	Run    RunID
	Ask    string
	Reason string
	// Ended reports that the run has ended. It may have accepted the question before.
	Ended bool

	failure *event.Failure
}

// Error returns a text with the ask, the run and the reason.
func (e *RefusedError) Error() string {
	return e.head() + e.Reason
}

func (e *RefusedError) head() string { return fmt.Sprintf("ask %s: run %s refused: ", e.Ask, e.Run) }

// Is reports whether the error of the validation matches target. ErrRunTerminal matches if the run
// has ended.
func (e *RefusedError) Is(target error) bool {
	return e.Ended && target == ErrRunTerminal || failure.Is(e.failure, target)
}

// As finds the error of the validation as the type of target.
func (e *RefusedError) As(target any) bool { return failure.As(e.failure, target) }

// MarshalFailure returns the stored form of e.
func (e *RefusedError) MarshalFailure() *event.Failure {
	return stored(wireRefused, event.CodeRefused, e.Error(), storedAnswer{Run: e.Run, Ask: e.Ask, Ended: e.Ended}, e.failure)
}

// UnmarshalFailure restores e from the result of MarshalFailure.
func (e *RefusedError) UnmarshalFailure(f *event.Failure) error {
	s, cause, err := storedIn(f)
	*e = RefusedError{Run: s.Run, Ask: s.Ask, Ended: s.Ended, failure: cause}
	e.Reason = strings.TrimPrefix(f.Message, e.head())
	return err
}

// AnswerError reports that a run has accepted a question and answered with an error. errors.Is and
// errors.As also match that error.
type AnswerError struct {
	Run    RunID
	Ask    string
	Code   string // code of the error, as in [RunError]
	Reason string

	failure *event.Failure
}

// Error returns a text with the ask, the run and the reason.
func (e *AnswerError) Error() string {
	return e.head() + e.Reason
}

func (e *AnswerError) head() string { return fmt.Sprintf("ask %s: run %s answered: ", e.Ask, e.Run) }

// Is reports whether the error in the answer matches target.
func (e *AnswerError) Is(target error) bool { return failure.Is(e.failure, target) }

// As finds the error in the answer as the type of target.
func (e *AnswerError) As(target any) bool { return failure.As(e.failure, target) }

// MarshalFailure returns the stored form of e.
func (e *AnswerError) MarshalFailure() *event.Failure {
	return stored(wireAnswer, e.Code, e.Error(), storedAnswer{Run: e.Run, Ask: e.Ask, Code: e.Code}, e.failure)
}

// UnmarshalFailure restores e from the result of MarshalFailure.
func (e *AnswerError) UnmarshalFailure(f *event.Failure) error {
	s, cause, err := storedIn(f)
	*e = AnswerError{Run: s.Run, Ask: s.Ask, Code: s.Code, failure: cause}
	e.Reason = strings.TrimPrefix(f.Message, e.head())
	return err
}

// storedAnswer is the stored form of RefusedError and AnswerError. The reason is part of the
// message.
type storedAnswer struct {
	Run   RunID  `json:"run"`
	Ask   string `json:"ask"`
	Code  string `json:"code,omitempty"`
	Ended bool   `json:"ended,omitempty"`
}

func stored(wire, code, message string, data storedAnswer, cause *event.Failure) *event.Failure {
	b, _ := json.Marshal(data) // strings always encode
	f := &event.Failure{Code: code, Type: wire, Message: message, Data: b}
	if cause != nil {
		f.Causes = []*event.Failure{cause}
	}
	return f
}

func storedIn(f *event.Failure) (s storedAnswer, cause *event.Failure, err error) {
	if err := json.Unmarshal(f.Data, &s); err != nil {
		return s, nil, err
	}
	if len(f.Causes) > 0 {
		cause = f.Causes[0]
	}
	return s, cause, nil
}
