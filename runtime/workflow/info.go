package workflow

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// RunID identifies a run. It is a distinct type, so that a workflow ID in a variable cannot be used
// as a run ID.
type RunID = event.RunID

// ParseRunID converts text to a run ID, and checks its form.
func ParseRunID(s string) (RunID, error) { return event.ParseRunID(s) }

// Status is the state of a run, for people and filters.
type Status = event.Status

// The statuses. A run is pending until a worker starts it, and ends as completed, failed, canceled
// or continued. The other statuses describe runs that have not ended in more detail.
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

// Identity contains the properties of a run that never change.
type Identity struct {
	ID         RunID
	WorkflowID string // empty: none
	Workflow   string // stored name
	Queue      string
	Tags       map[string]string
	Parent     RunID // empty: none
	Root       RunID // the run itself if it has no parent
	Depth      int   // 0: no parent
	// CreatedAt is when the store created the run. Code of the run gets the time of the first event
	// of its log instead, which may be some milliseconds earlier.
	CreatedAt time.Time
}

// Singleton reports whether the run belongs to a workflow that allows one active run per key.
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

// Info returns the identity of the run that executes the code.
func Info(ctx Context) Identity {
	r := ctx.branch().Run()
	return identityOf(r.ID(), r.State().Spec, r.State().CreatedAt)
}

// LogLength returns the current number of events in the log. Every replay gets the same number at
// the same place. Of the events recorded before the code began, such as messages that the previous
// run has not received, at most a thousand are counted, so that code which continues as new at a
// certain length makes progress even if many messages wait.
func LogLength(ctx Context) int { return ctx.branch().LogLength() }

// Logger returns the logger of the client, with the run's ID and workflow. It is silent during a
// replay, so that each line appears once. A line may be lost or repeated if the worker dies before
// its next commit.
func Logger(ctx Context) *slog.Logger {
	b := ctx.branch()
	base := ctx.env.logger.Handler()
	return slog.New(&replaySilent{Handler: base, replaying: b.Replaying}).
		With("run", string(b.Run().ID()), "workflow", b.Spec().Workflow)
}

// replaySilent drops records during a replay.
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
