package workflow

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// RunID names a run. It is a type of its own, so that a workflow id in a
// variable does not compile where a run id is wanted.
type RunID = event.RunID

// ParseRunID checks the form of a run id that came as text.
func ParseRunID(s string) (RunID, error) { return event.ParseRunID(s) }

// Status names the state of a run, for people and filters.
type Status = event.Status

// The statuses. A run is pending until a worker starts it, and ends as
// completed, failed, cancelled or continued; the others are finer names for a
// run that has not ended.
const (
	StatusPending   = event.StatusPending
	StatusRunning   = event.StatusRunning
	StatusCompleted = event.StatusCompleted
	StatusFailed    = event.StatusFailed
	StatusCanceled  = event.StatusCanceled
	StatusContinued = event.StatusContinued
	StatusHeld      = event.StatusHeld
	StatusPaused    = event.StatusPaused
	StatusSleeping  = event.StatusSleeping
	StatusWaiting   = event.StatusWaiting
	StatusBlocked   = event.StatusBlocked
)

// Identity has the properties of a run that never change.
type Identity struct {
	ID         RunID
	WorkflowID string // empty: none
	Workflow   string // stored name
	Queue      string
	Tags       map[string]string
	Parent     RunID // empty: none
	Root       RunID // the run itself if it has no parent
	Depth      int   // 0: no parent
	// CreatedAt is when the store created the run. To the code of the run it is the time
	// of the first event of its log, which may be some milliseconds earlier.
	CreatedAt time.Time
}

// Singleton reports whether the run is one of a workflow of which one run for each key is active.
func (i *Identity) Singleton() bool { return strings.HasPrefix(i.WorkflowID, i.Workflow+":") }

func identityOf(id RunID, spec *event.Spec, created time.Time) Identity {
	root := spec.Root
	if root == "" {
		root = id
	}
	return Identity{
		ID: id, WorkflowID: spec.WorkflowID, Workflow: spec.Workflow, Queue: spec.Queue, Tags: maps.Clone(spec.Tags),
		Parent: spec.Parent, Root: root, Depth: spec.Depth, CreatedAt: created,
	}
}

// Info returns the identity of the run that the code belongs to.
func Info(ctx Context) Identity {
	r := ctx.branch().Run()
	return identityOf(r.ID(), r.State().Spec, r.State().CreatedAt)
}

// LogLength returns how many events the log has so far. Every replay sees the
// same number at the same place. Of those that were there before the code began, such as the messages that the run before this
// one has not received, a thousand count at most: so that code which continues as new at some length gets somewhere, however many wait.
func LogLength(ctx Context) int { return ctx.branch().LogLength() }

// Logger returns the logger of the client, with the run's id and workflow. It is
// silent while the code replays the log, so that a line appears once;
// a line may be lost if the worker dies, and may be repeated if it dies before
// its next commit.
func Logger(ctx Context) *slog.Logger {
	b := ctx.branch()
	base := ctx.env.logger.Handler()
	return slog.New(&replaySilent{Handler: base, replaying: b.Replaying}).
		With("run", string(b.Run().ID()), "workflow", b.Spec().Workflow)
}

// replaySilent drops what is logged during a replay.
type replaySilent struct {
	slog.Handler
	replaying func() bool
}

func (h *replaySilent) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.replaying() && h.Handler.Enabled(ctx, l)
}

func (h *replaySilent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &replaySilent{h.Handler.WithAttrs(attrs), h.replaying}
}

func (h *replaySilent) WithGroup(name string) slog.Handler {
	return &replaySilent{h.Handler.WithGroup(name), h.replaying}
}
