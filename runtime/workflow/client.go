package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/internal/environ"
	"github.com/flowgen/flowgen/internal/recent"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
)

// DefaultMaxPayload is the default of ClientConfig.MaxPayload in bytes. Payloads are arguments,
// results, messages and recorded values.
const DefaultMaxPayload = 2 << 20

// ErrClientClosed is the error of calls on a closed client.
var ErrClientClosed = errors.New("workflow: client is closed")

// ClientConfig configures a client. The zero value is the default.
type ClientConfig struct {
	// MaxPayload is the size in bytes above which payloads are refused. Zero means
	// [DefaultMaxPayload]. If the codec keeps large payloads in a blob store, MaxPayload applies to
	// what the store keeps of a payload, and the codec limits the payload itself.
	MaxPayload int `env:"FLOWGEN_CLIENT_MAX_PAYLOAD" default:"2MiB" form:"size"`
	// WarnPayload is the size in bytes above which payloads are logged. Zero means
	// 256 KiB, or no warning if the codec keeps large payloads in a blob store.
	WarnPayload int `env:"FLOWGEN_CLIENT_WARN_PAYLOAD" default:"256KiB" form:"size"`
	// Logger is the logger of the client and of its workers. Nil means slog.Default().
	Logger *slog.Logger
	// Interceptors wrap the starts, messages, payloads of hooks and questions that the client sends.
	// Each must be a [ClientInterceptor]. The first one is the outermost.
	Interceptors []Interceptor
	// Codec converts all user data before the store keeps them: see package codec. Nil keeps them as
	// JSON. All programs that use a store should have the same codec. If it encrypts, log lines of the
	// runtime, alerts, failure groups and reasons of blocked runs contain the codes of failures instead
	// of their messages. Lines that the user's code and its observers log are not changed.
	Codec store.Codec
}

// ClientConfigFromEnv returns the configuration in the FLOWGEN_CLIENT_* environment variables, which
// the tags of the fields name. Fields without a variable are zero, and the program may change all
// fields before it calls [NewClient]. Errors are *[store.UnknownVariableError] and
// *[store.VariableError], possibly joined.
func ClientConfigFromEnv() (ClientConfig, error) {
	var c ClientConfig
	if err := environ.Load(&c); err != nil {
		return ClientConfig{}, err
	}
	return c, nil
}

// Client starts and follows runs on a store. It is safe for concurrent use.
type Client flow.Client

// client is the implementation of a Client. Its exported methods are those of flow.Engine.
type client struct {
	face   Client // the Client that c implements
	store  store.Store
	limits flow.Limits
	logger *slog.Logger
	closed atomic.Bool
	build  atomic.Pointer[string] // nil: flow.ProgramBuild
	hosts  hosts
	pins   *pins.Picker
	outage *outage.Log
	logs   *recent.Cache[RunID, followedLog]

	interceptors clientInterceptors
}

// NewClient returns a client for the store. The caller must close the client before the store.
// NewClient panics if an element of Interceptors is no [ClientInterceptor], or if a Codec is set and
// the store lacks an optional interface that contains user data.
func NewClient(s store.Store, cfg ClientConfig) *Client {
	if s == nil {
		panic("workflow: NewClient: the store is nil: open one, for example sqlitestore.Open(\"flows.db\")")
	}
	warns := cfg.WarnPayload != 0
	environ.SetDefaults(&cfg)
	limits := flow.Limits{Max: cfg.MaxPayload, Warn: cfg.WarnPayload}
	if cfg.Codec != nil {
		with, err := sealed.New(s, cfg.Codec)
		if err != nil {
			panic("workflow: NewClient: " + err.Error())
		}
		s = with
		if most := with.MaxOffloaded(); most > 0 {
			with.Bound(cfg.MaxPayload)
			limits.Max = most
			if !warns {
				limits.Warn = most
			}
		}
	}
	logger := cmp.Or(cfg.Logger, slog.Default())
	c := &client{store: s, logger: logger, outage: outage.New(logger, slog.String("by", "client"), 4*persistMost)}
	c.interceptors = newClientInterceptors(cfg.Interceptors)
	c.pins = pins.New(s, flow.BuildOf)
	c.logs = recent.New[RunID, followedLog](mostFollowed)
	c.limits, c.limits.Logger = limits, logger
	c.face = Client(flow.NewClient(c))
	return &c.face
}

// inner returns the implementation of c. Only NewClient creates clients.
func (c *Client) inner() *client { return (*flow.Client)(c).Engine().(*client) }

// Close closes the client. Later calls fail with ErrClientClosed. Close does not close the store.
func (c *Client) Close() error {
	c.inner().closed.Store(true)
	return nil
}

func (c *client) Check() error {
	if c.closed.Load() {
		return ErrClientClosed
	}
	return nil
}

// Store returns the store of the client. Packages such as fsck use it to read the whole store. If the
// client has a codec, the store seals and opens user data. The caller must not close the store, because the client does not own it.
func (c *Client) Store() store.Store { return c.inner().store }

// Run returns a handle of the run with this ID. It makes no request. If the run does not exist, the
// methods of the handle return ErrRunNotFound.
func (c *Client) Run(id RunID) *Handle { return c.inner().handle(id) }

func (c *client) handle(id RunID) *Handle { return &Handle{c: c, id: id} }

// RunByID returns a handle of the active run with a workflow ID. If no run is active, the handle
// refers to the latest run. Each method of the handle looks the run up.
func (c *Client) RunByID(workflowID string) *Handle { return c.inner().handleByID(workflowID) }

func (c *client) handleByID(workflowID string) *Handle { return &Handle{c: c, workflowID: workflowID} }

// pause waits for d, measured by the store's clock.
func (c *client) pause(ctx context.Context, d time.Duration) error {
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

// load reads the record of a run and up to l.Limit frames.
func (c *client) load(ctx context.Context, l store.Load) (store.Loaded, error) {
	if err := c.Check(); err != nil {
		return store.Loaded{}, err
	}
	loaded, err := c.store.Load(ctx, []store.Load{l})
	if err != nil {
		return store.Loaded{}, err
	}
	return loaded[0], loaded[0].Err
}

// loadAll reads several runs in one request. Each element contains the error of its run.
func (c *client) loadAll(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	if err := c.Check(); err != nil || len(loads) == 0 {
		return nil, err
	}
	return c.store.Load(ctx, loads)
}

// OnBehalfOf returns a context that carries the name of the person or system for which a program
// acts, for example of an operator who has logged in. The logs of runs record the name as
// event.Event.By for all requests made with this context: starts, reruns, commands such as
// [Handle.Cancel] and [Handle.Pause], messages, payloads of hooks, questions and requests to
// schedules. Consequences of such a request carry no name, for example the cancellation of a child
// with its parent.
//
// The name is not verified and has no effect on runs. A name longer than 1 KiB is truncated, and
// invalid UTF-8 in it is replaced. If the name is empty, no name is recorded.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return flow.OnBehalfOf(ctx, name)
}

// hosts contains the workers of a client.
type hosts struct {
	all atomic.Pointer[[]localstart.Host]
}

func (h *hosts) add(host localstart.Host) (leave func()) {
	h.change(func(all []localstart.Host) []localstart.Host { return append(all, host) })
	return func() {
		h.change(func(all []localstart.Host) []localstart.Host {
			return slices.DeleteFunc(all, func(other localstart.Host) bool { return other == host })
		})
	}
}

func (h *hosts) change(f func([]localstart.Host) []localstart.Host) {
	for {
		before := h.all.Load()
		all := f(slices.Clone(h.list()))
		if h.all.CompareAndSwap(before, &all) {
			return
		}
	}
}

func (h *hosts) list() []localstart.Host {
	if all := h.all.Load(); all != nil {
		return *all
	}
	return nil
}

// take offers a start to the workers. It reports whether one of them accepted the start.
func (h *hosts) take(s *localstart.Start) bool {
	return slices.ContainsFunc(h.list(), func(host localstart.Host) bool { return host.Take(s) })
}

// follow waits for the end of a run that a worker of this process executes. It returns false if no
// worker of this process executes the run.
func (h *hosts) follow(ctx context.Context, run RunID) (*localstart.End, bool) {
	for _, host := range h.list() {
		if end, ok := host.Follow(ctx, run); ok {
			return end, true
		}
	}
	return nil, false
}

// patience is the time for which a client waits until a worker begins a start. Then it withdraws
// the start. Workflow code that runs for long before its first wait must not delay the caller of
// Start.
const patience = 100 * time.Millisecond

// create stores runs. A worker of this process stores each start that it can begin at once, and the
// client stores the others. Each start is stored at most once, see [localstart.Start].
func (c *client) create(ctx context.Context, starts []*localstart.Start) ([]store.Created, error) {
	answers := make([]store.Created, len(starts))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var given, left []int
	for i, s := range starts {
		if c.hosts.take(s) {
			given = append(given, i)
		} else {
			left = append(left, i)
		}
	}
	if err := c.createAlone(ctx, starts, left, answers); err != nil {
		return nil, err
	}
	if len(given) == 0 {
		return answers, nil
	}
	left = left[:0]
	late := make(chan struct{})
	defer time.AfterFunc(patience, func() { close(late) }).Stop()
	for _, i := range given {
		a, err := awaitStart(ctx, starts[i], late)
		switch {
		case err != nil:
			return nil, err
		case a.Declined:
			left = append(left, i)
		default:
			answers[i] = a.Created
		}
	}
	return answers, c.createAlone(ctx, starts, left, answers)
}

// awaitStart waits for the answer to a start that a worker has accepted. When late is closed, it
// withdraws the start, unless the worker has begun it.
func awaitStart(ctx context.Context, s *localstart.Start, late <-chan struct{}) (localstart.Answer, error) {
	select {
	case <-s.Answered:
		return s.Outcome, s.Outcome.Err
	case <-late:
	case <-ctx.Done():
	}
	if s.Withdraw() {
		return localstart.Answer{Declined: true}, ctx.Err()
	}
	select {
	case <-s.Answered:
		return s.Outcome, s.Outcome.Err
	case <-ctx.Done():
		return localstart.Answer{}, ctx.Err()
	}
}

// createAlone stores those starts whose indexes are in which, without workers of this process.
func (c *client) createAlone(ctx context.Context, starts []*localstart.Start, which []int, answers []store.Created) error {
	if len(which) == 0 {
		return nil
	}
	requests := make([]store.Create, len(which))
	for i, n := range which {
		var err error
		if requests[i], err = starts[n].Request(); err != nil {
			return err
		}
	}
	created, err := c.request(ctx, requests)
	if err != nil {
		return err
	}
	for i, n := range which {
		answers[n] = created[i]
	}
	return nil
}

// request sends starts to the store. It retries starts that share a run during an outage, because a
// start that the caller retried might join a run twice. The store recognizes a repeated start for
// the time Horizon.
func (c *client) request(ctx context.Context, starts []store.Create) ([]store.Created, error) {
	if starts[0].Collect == nil {
		return c.store.Create(ctx, starts)
	}
	ctx, cancel := context.WithTimeout(ctx, store.Horizon/2)
	defer cancel()
	return persist(ctx, c, "start a run", func() ([]store.Created, error) { return c.store.Create(ctx, starts) })
}

// atOnce is the number of concurrent requests of one call, if the store has no request for many
// runs.
const atOnce = 16

// Infos returns the same data about runs as [Client.List], in the order of the arguments, with one
// request to the store. It does not include data that is only in logs, such as the reasons of
// blocked runs. The error of a run, such as [ErrRunNotFound], has the index of the run. If the
// request fails, all runs have its error.
func (c *Client) Infos(ctx context.Context, runs ...RunID) (infos []RunInfo, errs []error) {
	infos, errs = make([]RunInfo, len(runs)), make([]error, len(runs))
	loaded, err := c.inner().records(ctx, runs)
	for i, run := range runs {
		if errs[i] = err; err == nil {
			errs[i] = loaded[i].Err
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("get info of run %s: %w", run, errs[i])
		} else {
			infos[i] = infoOf(&loaded[i].Record)
		}
	}
	return infos, errs
}

func (c *client) CancelMany(ctx context.Context, reason string, runs []RunID) []error {
	return c.cancelMany(ctx, reason, runs, c.refuseInternals(ctx, "cancel", runs))
}

// cancelMany requests the cancellation of the runs whose elements of errs are nil, like
// [Handle.Cancel] but with fewer requests to the store. It finds all runs that no worker serves,
// and ends them together. It returns errs with the errors of Cancel. The error of a run is nil if
// its request is durable.
func (c *client) cancelMany(ctx context.Context, reason string, runs []RunID, errs []error) []error {
	wrong := store.CheckText("reason", reason, store.MaxReason)
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, run := range runs {
		if wrong != nil {
			errs[i] = wrong
		}
		if errs[i] != nil {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			// All cancel requests for a run have the same ID, so that only the first one is
			// recorded.
			item := store.Item{ID: "cancel", Scope: store.ScopeChain}
			errs[i] = c.deliver(ctx, run, item, &event.Event{Type: event.CancelRequested, Reason: reason}, time.Time{})
		})
	}
	all.Wait()
	c.endCanceled(ctx, runs, errs)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("cancel: %w", err)
		}
	}
	return errs
}

// endCanceled ends the runs that have no error in errs and that no worker serves. Delivering a
// repeated cancel request to a deleted run succeeds, so endCanceled sets the errors of deleted
// runs.
func (c *client) endCanceled(ctx context.Context, runs []RunID, errs []error) {
	var asked []RunID
	var at []int
	for i, run := range runs {
		if errs[i] == nil {
			asked, at = append(asked, run), append(at, i)
		}
	}
	loaded, err := c.records(ctx, asked)
	for i := range loaded {
		if errors.Is(loaded[i].Err, ErrRunNotFound) {
			errs[at[i]] = fmt.Errorf("run %s: %w", asked[i], loaded[i].Err)
		}
	}
	if err == nil {
		_, err = c.endLoaded(ctx, loaded)
	}
	if err != nil { // an error here is not returned, because the requests are durable
		c.logger.Debug("canceled runs were left to their workers", "runs", len(asked), "error", err)
	}
}

// records reads the records of runs without their logs.
func (c *client) records(ctx context.Context, runs []RunID) ([]store.Loaded, error) {
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Limit: -1}
	}
	return c.loadAll(ctx, loads)
}

// firsts returns the first runs of the chains of loaded runs, with their first frames. A run that
// does not continue another run is its own first run. firsts reads the other first runs in one
// request.
func (c *client) firsts(ctx context.Context, loaded []store.Loaded) ([]store.Loaded, error) {
	firsts := slices.Clone(loaded)
	var which []int
	var loads []store.Load
	for n := range loaded {
		if r := &loaded[n].Record; loaded[n].Err == nil && r.Chain != r.Run {
			which, loads = append(which, n), append(loads, store.Load{Run: r.Chain, Limit: 1})
		}
	}
	found, err := c.loadAll(ctx, loads)
	for k := range found {
		firsts[which[k]] = found[k]
	}
	return firsts, err
}

// startedWith reports whether a run was started with the given input. l contains the first frame of
// the run.
func startedWith(l *store.Loaded, input []byte) (bool, error) {
	if l.Err != nil {
		return false, l.Err
	}
	events, err := (&logReader{run: l.Record.Run}).events(l.Frames)
	return err == nil && equalJSON(events[0].Payload, input), err
}

// equalJSON reports whether two encoded values are equal. Each may be empty. It ignores white
// space, escapes and the order of members. It compares numbers as text.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var values [2]any
	for n, data := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if d.Decode(&values[n]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
