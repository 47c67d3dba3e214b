package step

import (
	"cmp"
	"context"
	"log/slog"

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

// Logger returns the logger of the worker, with the run, the workflow, the step, the attempt and the
// trace to which ctx belongs.
func Logger(ctx context.Context) *slog.Logger {
	a := current(ctx, "Logger")
	return cmp.Or(a.Logger, slog.Default()).With("run", string(a.Run), "workflow", a.Workflow, "step", a.Step, "attempt", a.Number)
}
