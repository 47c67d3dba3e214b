package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS1_AnErrorIsOneProblemEverywhere proves that an error is converted to the same problem in
// every interface, however often it is wrapped.
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
		{&workflow.FinishedRunError{}, 409, 4, admin.CodeRefused},
		{&workflow.InputDiffersError{}, 409, 4, admin.CodeRefused},
		{workflow.ErrWrongWorkflow, 409, 4, admin.CodeRefused},
		{&workflow.RefusedError{Ended: true}, 409, 4, admin.CodeRefused},
		{&workflow.RefusedError{}, 422, 4, admin.CodeRejected},
		{&workflow.AnswerError{}, 422, 4, admin.CodeRejected},
		{&workflow.PayloadError{Err: errors.New("no JSON")}, 400, 2, admin.CodeInput},
		{&workflow.PayloadError{Size: 3, Limit: 2}, 413, 2, admin.CodeInput},
		{&store.StartRefusedError{}, 429, 1, admin.CodeBusy},
		{&admin.UnauthenticatedError{What: "no token"}, 401, 6, admin.CodeUnauthenticated},
		{&admin.NotAllowedError{What: "no", Fix: "yes"}, 403, 6, admin.CodeForbidden},
		{&store.MissingError{}, 404, 3, admin.CodeNotFound},
		{&workflow.EventError{Err: event.ErrCorrupt}, 500, 1, admin.CodeDamaged},
		{&workflow.EventError{Err: &event.VersionError{Got: 2, Known: 1}}, 501, 4, admin.CodeNewer},
		{&event.VersionError{Got: 2, Known: 1}, 501, 4, admin.CodeNewer},
		{&store.VersionError{Got: 9, Known: 1}, 501, 4, admin.CodeNewer},
		{&store.VersionError{Got: 1, Known: 2}, 409, 4, admin.CodeRefused},
		{workflow.ErrNotSupported, 501, 1, admin.CodeUnsupported},
		{context.DeadlineExceeded, 504, 124, admin.CodeTimeout},
		{context.Canceled, 503, 130, admin.CodeInterrupted},
		{errors.New("the disk is full"), 503, 1, admin.CodeFailed},
	} {
		for _, err := range []error{tt.err, fmt.Errorf("do it: %w", tt.err)} {
			p := admin.ProblemOf(err)
			if p.Status != tt.status || p.Exit != tt.exit || p.Code != tt.code || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, "#"+strings.ToLower(tt.code)) {
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
