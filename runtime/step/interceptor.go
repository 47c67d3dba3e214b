package step

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
)

// Interceptor wraps the attempts of steps. It is a workflow.Interceptor, which documents the rules
// that it must keep, and is configured in worker.Config.Interceptors.
type Interceptor interface {
	// InterceptStep wraps one attempt, within its timeout. next must be called with ctx or a context
	// derived from it. If the code of the step panics, next returns a *[PanicError]. The attempt
	// ends as if the step had returned the error of the interceptor. Misuse and a panic fail the
	// attempt, which is retried according to the policy of the step.
	InterceptStep(ctx context.Context, call Call, next func(context.Context) error) error
}

// PanicError is the error that an [Interceptor] receives if the code of the step has panicked. If
// the interceptor returns it, also wrapped, the attempt fails as it would without an interceptor.
type PanicError = attempt.PanicError

// Logger returns the logger of the worker, with the attributes run, workflow, step and attempt, and
// with the attribute trace if the run has a W3C traceparent, see [workflow.WithAttribute].
func Logger(ctx context.Context) *slog.Logger {
	a := current(ctx, "Logger")
	l := cmp.Or(a.Logger, slog.Default()).With("run", string(a.Run), "workflow", a.Workflow, "step", a.Step, "attempt", a.Number)
	if a.Spec == nil {
		return l
	}
	if parts := strings.Split(a.Spec.Attributes["traceparent"], "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		l = l.With("trace", parts[1])
	}
	return l
}
