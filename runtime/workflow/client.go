package workflow

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/internal/recent"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrClientClosed is the error of a client that has been closed.
var ErrClientClosed = errors.New("workflow: client is closed")

// ClientConfig configures a client. The zero value is the default.
type ClientConfig struct {
	// MaxPayload refuses larger payloads, in bytes; 0: [DefaultMaxPayload].
	MaxPayload int
	// WarnPayload logs larger payloads, in bytes; 0: [DefaultWarnPayload].
	WarnPayload int
	// Logger is used by the client and by the workers on it; nil: slog.Default().
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

// NewClient returns a client of the store. The store stays the caller's: close
// the client first, then the store.
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

// Close ends the use of the client: later calls fail with ErrClientClosed. It
// does not close the store.
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

// Run returns a handle of the run with this id. It makes no round trip: whether
// the run exists shows at the first use.
func (c *Client) Run(id RunID) *Handle { return &Handle{c: c, id: id} }

// RunByID returns a handle of the active run of a workflow id, else of its
// latest run. The run is looked up at each use.
func (c *Client) RunByID(workflowID string) *Handle { return &Handle{c: c, workflowID: workflowID} }

// pause waits for d by the store's clock.
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

// load reads the record of a run, and its frames if limit allows.
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

// loadAll reads runs with one question. The error of a run is in its place.
func (c *Client) loadAll(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	if err := c.check(); err != nil || len(loads) == 0 {
		return nil, err
	}
	return c.store.Load(ctx, loads)
}

// lastEvent reads the last event of a log of n frames.
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

// lastOf returns the last event of frame n of a run.
func lastOf(run RunID, frame []byte, n uint64) (*event.Event, error) {
	f, err := event.DecodeFrame(frame)
	if err != nil {
		return nil, &EventError{Run: run, Frame: n, Err: err}
	}
	return &f.Events[len(f.Events)-1], nil
}
