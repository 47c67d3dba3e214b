package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// stored encodes an error into its stored form and decodes it.
func stored(t *testing.T, err error) error {
	t.Helper()
	b, merr := json.Marshal(failure.Encode(err, event.CodeError))
	if merr != nil {
		t.Fatal(merr)
	}
	f := &event.Failure{}
	if err := json.Unmarshal(b, f); err != nil {
		t.Fatal(err)
	}
	return &failure.StoredError{F: f}
}

func TestErrCanceledAndErrTimeout_AreThoseOfPackageContext(t *testing.T) {
	for _, tt := range []struct{ err, is, not error }{
		{workflow.ErrCanceled, context.Canceled, context.DeadlineExceeded},
		{workflow.ErrTimeout, context.DeadlineExceeded, context.Canceled},
	} {
		if !errors.Is(tt.err, tt.is) || errors.Is(tt.err, tt.not) || !errors.Is(fmt.Errorf("a: %w", tt.err), tt.err) {
			t.Errorf("%v does not match as it should", tt.err)
		}
		if errors.Is(stored(t, tt.err), tt.err) {
			t.Errorf("%v matches after it went through a log", tt.err)
		}
	}
}

func TestStepError_KeepsItsFieldsThroughTheLog(t *testing.T) {
	want := workflow.StepError{Run: "wrun_1", Step: "p.s", Key: "w/p.s#1", Attempts: 3, Code: "timeout"}
	var got *workflow.StepError
	if err := stored(t, fmt.Errorf("a: %w", &want)); !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(fields(&want), fields(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func fields(e *workflow.StepError) []any {
	return []any{e.Run, e.Step, e.Key, e.Attempts, e.Code, e.Error(), e.Stack()}
}

func TestStepError_SaysHowOftenItWasTried(t *testing.T) {
	for attempts, want := range map[int]string{0: "before its first attempt", 1: "after 1 attempt:", 5: "after 5 attempts"} {
		err := &workflow.StepError{Step: "p.s", Key: "k", Attempts: attempts, Code: "error"}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%d attempts: got %q", attempts, err)
		}
	}
}

func TestRunError_MatchesErrCanceledOnlyIfTheRunWasCanceled(t *testing.T) {
	for status, want := range map[workflow.Status]bool{workflow.StatusCanceled: true, workflow.StatusFailed: false} {
		err := error(&workflow.RunError{Run: "wrun_1", Workflow: "w", Status: status, Code: "error", Reason: "r"})
		var back *workflow.RunError
		if !errors.As(stored(t, err), &back) || back.Status != status || back.Reason != "r" || back.Error() != err.Error() {
			t.Errorf("%s: read back as %v", status, back)
		}
		for name, e := range map[string]error{"live": err, "read back": back} {
			if errors.Is(e, workflow.ErrCanceled) != want || errors.Is(e, workflow.ErrTimeout) {
				t.Errorf("%s, %s: ErrCanceled %v, ErrTimeout %v", status, name, errors.Is(e, workflow.ErrCanceled), errors.Is(e, workflow.ErrTimeout))
			}
		}
	}
}

func TestPayloadError_KeepsItsFieldsThroughTheLog(t *testing.T) {
	for name, want := range map[string]*workflow.PayloadError{
		"too large": {What: "input of step p.s", Size: 300, Limit: 200},
		"encoding":  {What: "result", Err: errors.New("no chan")},
	} {
		var got *workflow.PayloadError
		if err := stored(t, want); !errors.As(err, &got) || got.Error() != want.Error() || got.Size != want.Size || got.Limit != want.Limit || got.What != want.What {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// slice is the type of an error that is not comparable.
type slice []int

func (slice) Error() string { return "slice" }

func TestErrors_AnswerUncomparableTargetsWithFalse(t *testing.T) {
	for _, err := range []error{
		&workflow.StepError{}, &workflow.RunError{}, &workflow.RunError{Status: workflow.StatusCanceled}, stored(t, slice{1}),
	} {
		if errors.Is(err, slice{1}) {
			t.Errorf("%T matches", err)
		}
	}
}

func TestErrors_NilPointersAreStoredAsText(t *testing.T) {
	for _, err := range []error{(*workflow.StepError)(nil), (*workflow.RunError)(nil), (*workflow.PayloadError)(nil)} {
		got := stored(t, fmt.Errorf("a: %w", err))
		if failed, ok := errors.AsType[*workflow.StepError](got); ok {
			t.Errorf("%T was read back as %v", err, failed)
		}
	}
}
