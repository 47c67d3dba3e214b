package workflow

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/internal/recent"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrClientClosed is the error of a client that has been closed.
var ErrClientClosed = errors.New("workflow: client is closed")

// ClientConfig configures a client. The zero value is the default.
type ClientConfig struct {
	// MaxPayload is the size in bytes above which payloads are refused. Zero means
	// [DefaultMaxPayload].
	MaxPayload int
	// WarnPayload is the size in bytes above which payloads are logged. Zero means
	// [DefaultWarnPayload].
	WarnPayload int
	// Logger is used by the client and by its workers. Nil means slog.Default().
	Logger *slog.Logger
}

// Client starts and follows runs on a store. It is safe for concurrent use.
type Client struct {
	store  store.Store
	limits limits
	logger *slog.Logger
	closed atomic.Bool
	hosts  hosts
	outage *outage.Log
	logs   *recent.Cache[RunID, followedLog]
}

// NewClient returns a client for the store. The caller must close the client first, then the store.
func NewClient(s store.Store, cfg ClientConfig) *Client {
	if s == nil {
		panic("workflow: NewClient: the store is nil: open one, for example sqlitestore.Open(\"flows.db\")")
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	c := &Client{store: s, logger: logger, logs: recent.New[RunID, followedLog](mostFollowed), limits: limits{max: cfg.MaxPayload, warn: cfg.WarnPayload, logger: logger}}
	c.outage = outage.New(logger, slog.String("by", "client"), 4*persistMost)
	if c.limits.max <= 0 {
		c.limits.max = DefaultMaxPayload
	}
	if c.limits.warn <= 0 {
		c.limits.warn = DefaultWarnPayload
	}
	return c
}

// Close closes the client: later calls fail with ErrClientClosed. It does not close the store.
func (c *Client) Close() error {
	c.closed.Store(true)
	return nil
}

func (c *Client) check() error {
	if c.closed.Load() {
		return ErrClientClosed
	}
	return nil
}

// Store returns the store of the client, for packages such as fsck that read the store as a whole.
// The caller must not close it; its owner does.
func (c *Client) Store() store.Store { return c.store }

// Run returns a handle of the run with this ID. It makes no round trip; a missing run is reported
// at the first use.
func (c *Client) Run(id RunID) *Handle { return &Handle{c: c, id: id} }

// RunByID returns a handle of the active run of a workflow ID, or of its latest run if none is
// active. Each use of the handle looks up the run.
func (c *Client) RunByID(workflowID string) *Handle { return &Handle{c: c, workflowID: workflowID} }

// pause waits for d, measured by the store's clock.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	stop := c.store.Clock().AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// load reads the record of a run, and frames up to l.Limit.
func (c *Client) load(ctx context.Context, l store.Load) (store.Loaded, error) {
	if err := c.check(); err != nil {
		return store.Loaded{}, err
	}
	loaded, err := c.store.Load(ctx, []store.Load{l})
	if err != nil {
		return store.Loaded{}, err
	}
	return loaded[0], loaded[0].Err
}

// loadAll reads several runs in one request. The error of a run is in its element.
func (c *Client) loadAll(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	if err := c.check(); err != nil || len(loads) == 0 {
		return nil, err
	}
	return c.store.Load(ctx, loads)
}

// lastEvent reads the last event of a log with n frames.
func (c *Client) lastEvent(ctx context.Context, run RunID, n uint64) (*event.Event, error) {
	l, err := c.load(ctx, store.Load{Run: run, After: n - 1, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(l.Frames) == 0 {
		return nil, &EventError{Run: run, Frame: n, Err: event.ErrCorrupt}
	}
	return lastOf(run, l.Frames[0], n)
}

// lastOf decodes frame n of a run and returns its last event.
func lastOf(run RunID, frame []byte, n uint64) (*event.Event, error) {
	f, err := event.DecodeFrame(frame)
	if err != nil {
		return nil, &EventError{Run: run, Frame: n, Err: err}
	}
	return &f.Events[len(f.Events)-1], nil
}

// OnBehalfOf returns a context that carries the name of the person or system for which a program
// acts, for example an operator who has logged in. The logs of runs record the name as
// event.Event.By for all requests made with this context: starts, reruns, and everything that is
// sent to a run, namely commands such as [Handle.Cancel] and [Handle.Pause], messages, payloads of
// hooks, questions and orders to schedules. Consequences of such a request, for example the
// cancellation of a child with its parent, carry no name.
//
// The name is not verified, and no run depends on it. A name longer than 1 KiB is truncated, and
// invalid UTF-8 in it is replaced. An empty name records none.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return engine.OnBehalfOf(ctx, name)
}
