package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

func TestAttemptContext_ThatIsAskedForLateSaysWhyItHasEnded(t *testing.T) {
	cut, late, base := errors.New("the run was lost"), &runloop.TimeoutError{After: time.Second}, errors.New("the process ends")
	for name, tt := range map[string]struct {
		do         func(a *attempt, end context.CancelCauseFunc)
		err, cause error
	}{
		"nothing has happened": {func(*attempt, context.CancelCauseFunc) {}, nil, nil},
		"it was stopped":       {func(a *attempt, _ context.CancelCauseFunc) { a.stop(cut) }, context.Canceled, cut},
		"its time is up":       {func(a *attempt, _ context.CancelCauseFunc) { a.stop(late) }, context.DeadlineExceeded, late},
		"its code has returned": {
			func(a *attempt, _ context.CancelCauseFunc) { a.stop(nil) }, context.Canceled, context.Canceled,
		},
		"the first stop counts": {
			func(a *attempt, _ context.CancelCauseFunc) { a.stop(late); a.stop(cut) }, context.DeadlineExceeded, late,
		},
		"the base has ended": {func(_ *attempt, end context.CancelCauseFunc) { end(base) }, context.Canceled, base},
		"the base has ended before": {
			func(a *attempt, end context.CancelCauseFunc) { end(base); a.stop(late) }, context.Canceled, base,
		},
		"the base has ended after": {
			func(a *attempt, end context.CancelCauseFunc) { a.stop(late); end(base) }, context.DeadlineExceeded, late,
		},
	} {
		for _, early := range []bool{false, true} {
			ctx, end := context.WithCancelCause(t.Context())
			a := &attempt{steps: &steps{env: &env{base: ctx}}}
			if early {
				a.ending() // the code used the context before the attempt ended
			}
			tt.do(a, end)
			if got := a.endCause(); !errors.Is(got, tt.cause) && !errors.Is(tt.cause, context.Canceled) {
				t.Errorf("%s: the attempt ends with %v, want %v", name, got, tt.cause)
			}
			if err, cause := a.context().Err(), context.Cause(a.context()); err != tt.err || !errors.Is(cause, tt.cause) {
				t.Errorf("%s: the context says %v, because of %v, want %v and %v", name, err, cause, tt.err, tt.cause)
			}
			select {
			case <-a.context().Done():
				if tt.err == nil {
					t.Errorf("%s: the context has ended", name)
				}
			default:
				if tt.err != nil {
					t.Errorf("%s: the context has not ended", name)
				}
			}
			end(nil)
		}
	}
}
