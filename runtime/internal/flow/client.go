package flow

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/store"
)

// Client is the representation of a workflow.Client.
type Client struct{ engine Engine }

// NewClient returns the client that e implements.
func NewClient(e Engine) Client { return Client{e} }

// Engine returns the implementation of the client. It panics for the zero Client.
func (c *Client) Engine() Engine {
	if c.engine == nil {
		panic("workflow: zero Client: create one with workflow.NewClient")
	}
	return c.engine
}

// Engine is the part of a client that workers and package ops use.
type Engine interface {
	Operator
	Store() store.Store
	Logger() *slog.Logger
	// CheckPayload returns an error if a payload is larger than the client's limit. Errors name the
	// payload by kind and name.
	CheckPayload(kind, name string, size int) error
	// Limits returns the limits of the size of payloads.
	Limits() *Limits
	// Read is the code of the step that reads from other runs.
	Read(ctx context.Context, args []byte) (result []byte, err error)
	// ScheduleCode returns the code of the runs that implement schedules.
	ScheduleCode() Code
	// Declare creates or updates the schedules that the directives of workflows declare. The
	// declaration of the worker that began last takes precedence.
	Declare(ctx context.Context, r *Registry, began time.Time) error
	// SetAside carries out a pause that is in the inbox of a run in a limiter queue. Without
	// SetAside, the run would have to wait for its permits first. SetAside does nothing if the run
	// is not in a limiter queue, or if another client or worker has carried out the pause.
	SetAside(ctx context.Context, run event.RunID)
	// Rerun creates the rerun that the last event of a failed run requests, unless the run was
	// deleted or has a rerun. If no rerun can ever be created, Rerun returns the reason. After the
	// deadline it creates none, and the error matches store.ErrStale.
	Rerun(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
	// AddHost makes the client pass its local starts to a worker. The worker calls leave when it
	// accepts no further starts.
	AddHost(h localstart.Host) (leave func())
	// SetBuild sets the build that runs created by the client record, instead of [ProgramBuild].
	SetBuild(build string)
	// Pins determines the builds to which the runs of pinned workflows are pinned.
	Pins() *pins.Picker
}
