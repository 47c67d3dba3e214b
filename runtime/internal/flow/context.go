package flow

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Context is the representation of a workflow.Context. Packages of the runtime convert between the
// two types.
type Context struct {
	b      *replay.Branch
	s      *replay.Scope
	env    *Env
	values *value
	steps  *StepOptions
}

// Env contains the data of a worker that workflow code uses.
type Env struct {
	Limits     *Limits
	Partitions int // number of partitions of the store
	Logger     *slog.Logger
	Children   int                                      // maximum number of open children of a run
	Token      func(run event.RunID, key string) string // creates the token of a hook
}

// StepOptions are the options of a context that replace values of directives.
type StepOptions struct {
	Retry   *Retry
	Timeout time.Duration
	Key     *string
	Queue   string // empty: the queue of the directive
}

// value is an element of a linked list. The newest value is first.
type value struct {
	key, val any
	next     *value
}

// NewContext returns the context of a branch.
func NewContext(b *replay.Branch, s *replay.Scope, e *Env) Context {
	return Context{b: b, s: s, env: e}
}

// Branch returns the branch of the context. It panics for the zero Context.
func (ctx Context) Branch() *replay.Branch {
	if ctx.b == nil {
		panic(&replay.MisuseError{Text: "workflow: zero Context: workflow code gets its Context from the runtime; " +
			"start a run with its definition's Start, and branches with workflow.Go"})
	}
	return ctx.b
}

// Is reports whether the context belongs to branch b.
func (ctx Context) Is(b *replay.Branch) bool { return ctx.b == b }

// Scope returns the scope with whose end the context ends.
func (ctx Context) Scope() *replay.Scope { return ctx.s }

// Env returns the data of the worker.
func (ctx Context) Env() *Env { return ctx.env }

// On returns a copy of the context for another branch, with the same scope.
func (ctx Context) On(b *replay.Branch) Context {
	ctx.b = b
	return ctx
}

// Within returns a copy of the context with another scope.
func (ctx Context) Within(s *replay.Scope) Context {
	ctx.s = s
	return ctx
}

// Err returns nil if the context has not ended, and the reason if it has.
func (ctx Context) Err() error {
	ctx.Branch()
	return ctx.s.Err()
}

// Value returns the value that WithValue has set for key, or nil.
func (ctx Context) Value(key any) any {
	for v := ctx.values; v != nil; v = v.next {
		if v.key == key {
			return v.val
		}
	}
	return nil
}

// WithValue returns a copy of the context with a value.
func (ctx Context) WithValue(key, val any) Context {
	ctx.Branch()
	ctx.values = &value{key: key, val: val, next: ctx.values}
	return ctx
}

// WithSteps returns a copy of the context whose step options change has changed.
func (ctx Context) WithSteps(change func(*StepOptions)) Context {
	ctx.Branch()
	o := StepOptions{}
	if ctx.steps != nil {
		o = *ctx.steps
	}
	change(&o)
	ctx.steps = &o
	return ctx
}

// WithoutSteps returns a copy of the context without step options.
func (ctx Context) WithoutSteps() Context {
	ctx.steps = nil
	return ctx
}

// Encode returns the stored form of a value that workflow code has passed. During a replay it logs
// no warning about the size.
func (ctx Context) Encode(what string, v any) ([]byte, error) {
	return ctx.env.Limits.Encode(what, v, ctx.Branch().Replaying())
}

// Open executes f in a new branch with the given path, which was opened at a position of user code.
// The promise is resolved with the result of f.
func (ctx Context) Open(path string, at *replay.Trace, f func(Context) any) *replay.Promise {
	p := replay.NewPromise(ctx.s)
	ctx.Branch().Open(path, at, func(b *replay.Branch) {
		b.Makes(p)
		p.Resolve(f(ctx.On(b)))
	})
	return p
}
