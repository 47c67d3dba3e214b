package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// An error is the same problem on each face, and however often it was wrapped.
func TestOPS1_AnErrorIsOneProblemEverywhere(t *testing.T) {
	for _, tt := range []struct {
		err          error
		status, exit int
		code         string
	}{
		{&admin.InputError{What: "no", Fix: "yes"}, 400, 2, admin.CodeInput},
		{&workflow.InvalidError{}, 400, 2, admin.CodeInput},
		{workflow.ErrRunNotFound, 404, 3, admin.CodeNotFound},
		{workflow.ErrStepNotFound, 404, 3, admin.CodeNotFound},
		{&workflow.StatusError{}, 409, 4, admin.CodeRefused},
		{&workflow.ActiveRunError{}, 409, 4, admin.CodeRefused},
		{workflow.ErrRunTerminal, 409, 4, admin.CodeRefused},
		{workflow.ErrNotDebug, 409, 4, admin.CodeRefused},
		{&store.MissingError{}, 404, 3, admin.CodeNotFound},
		{&store.OldFormatError{Migrates: true}, 409, 4, admin.CodeRefused},
		{workflow.ErrNotSupported, 501, 1, admin.CodeUnsupported},
		{context.DeadlineExceeded, 504, 124, admin.CodeTimeout},
		{context.Canceled, 503, 130, admin.CodeInterrupted},
		{errors.New("the disk is full"), 503, 1, admin.CodeFailed},
	} {
		for _, err := range []error{tt.err, fmt.Errorf("do it: %w", tt.err)} {
			p := admin.ProblemOf(err)
			if p.Status != tt.status || p.Exit != tt.exit || p.Code != tt.code || p.Title == "" || p.Detail == "" {
				t.Errorf("%v: got %+v, want status %d, exit %d, code %s", err, p, tt.status, tt.exit, tt.code)
			}
			if again := admin.ProblemOf(fmt.Errorf("once more: %w", p)); again != p {
				t.Errorf("%v: another problem when it is wrapped: %+v", err, again)
			}
		}
	}
	if p := admin.ProblemOf(nil); p != nil {
		t.Errorf("no error: %+v", p)
	}
}
