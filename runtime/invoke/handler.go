package invoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Values of [Answer.Status].
const (
	StatusDone      = "done"      // the run has ended
	StatusParked    = "parked"    // the run waits until Due, or for a message if Due is nil
	StatusYielded   = "yielded"   // the budget is exhausted: the run is ready and continues with the next invocation
	StatusAnnounced = "announced" // the answer to a request without a run
)

// Answer is the body of a successful response.
type Answer struct {
	Status string     `json:"status"`
	Due    *time.Time `json:"due,omitempty"`

	// The following fields are set if Status is StatusAnnounced.

	Routes      []store.Route `json:"routes,omitempty"`
	Build       string        `json:"build,omitempty"`
	Fingerprint string        `json:"fingerprint,omitempty"`
	Budget      string        `json:"budget,omitempty"` // duration, for example 50s
}

// ask is the body of a request.
type ask struct {
	Run event.RunID `json:"run,omitempty"`
}

const (
	bodyMost = 4 << 10
	bodyTime = 5 * time.Second

	// declareEvery is the minimum interval between declarations of what the function serves.
	declareEvery = 10 * time.Minute

	// scanTime bounds the scan for alerts during an announcement.
	scanTime = 10 * time.Second
)

// handler executes runs on request.
type handler struct {
	Config
	invoker  flow.Invoker
	code     flow.Prepared
	log      *slog.Logger
	seen     *seen
	turns    turns
	declared atomic.Int64 // time of the last declaration in nanoseconds since 1970
}

// Handler returns a handler that executes the workflows and steps which register registers. The
// client must be open as long as the handler is used. It returns a *[StepTimeoutError] if a step may
// take longer than an invocation. Other errors concern the configuration; if Worker is invalid, they
// wrap the error of its method Check.
func Handler(c *workflow.Client, register func(workflow.Registrar), cfg Config) (http.Handler, error) {
	if c == nil {
		return nil, errors.New("invoke: the client is nil: create one with workflow.NewClient")
	}
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Worker.Heartbeat, cfg.Worker.ClaimExpiry = cfg.Lease/2, cfg.Lease
	if err := cfg.Worker.Check(); err != nil {
		return nil, fmt.Errorf("invoke: Config.Worker: %w", err)
	}
	w := worker.New(c, cfg.Worker)
	if register != nil {
		register(w)
	}
	invoker := (*flow.Registry)(w.Registry()).Kit().Invoker
	code, err := invoker.Prepare()
	if err != nil {
		return nil, fmt.Errorf("invoke: %w", err)
	}
	if len(code.Routes) == 0 {
		return nil, errors.New("invoke: no workflow and no step on a queue is registered: call the generated Register of their packages")
	}
	if err := slowSteps(code.Steps, cfg.Budget); err != nil {
		return nil, err
	}
	return &handler{
		Config: cfg, invoker: invoker, code: code, log: cmp.Or(cfg.Worker.Logger, (*flow.Client)(c).Engine().Logger()), seen: newSeen(seenMost),
		turns: turns{most: cfg.Concurrency},
	}, nil
}

// ServeHTTP executes the run that the request names.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not supported if the body is in memory
	run, failed := h.read(w, r)
	if failed == nil {
		failed = h.checkDeadline(r.Context())
	}
	if failed != nil {
		failed.write(w) // the server may read the rest of the body until the deadline
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	// If the caller disconnects, the run continues: another invocation could not execute it sooner.
	ctx := context.WithoutCancel(r.Context())
	var answer Answer
	if run == "" {
		answer, failed = h.announce(ctx)
	} else {
		answer, failed = h.invoke(ctx, run)
	}
	if failed != nil {
		failed.write(w)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// afterBudget is how long an invocation takes after its budget if its steps end when they are canceled.
const afterBudget = 5 * time.Second

// checkDeadline refuses a request that ends before its invocation. The platform would end the process
// during the invocation. A step could then be cut off again and again, and the run would be suspected
// of killing its process.
func (h *handler) checkDeadline(ctx context.Context) *Error {
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); ok && left < h.Budget+afterBudget {
		return &Error{
			Code: CodeDeadline, Message: fmt.Sprintf("the request ends in %v, and an invocation with the budget %v may take longer", left.Round(time.Millisecond), h.Budget),
			Fix: "set the timeout of the platform to the budget and 15s, or lower Config.Budget",
		}
	}
	return nil
}

// read reads and verifies a request. It returns the run, or "" for a request to announce the
// function.
func (h *handler) read(w http.ResponseWriter, r *http.Request) (event.RunID, *Error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return "", &Error{Code: CodeMethod, Message: "the method is " + r.Method, Fix: "send a POST"}
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return "", &Error{
			Code: CodeContentType, Message: fmt.Sprintf("the content type is %q", r.Header.Get("Content-Type")), Fix: "send the body with the header Content-Type: application/json",
		}
	}
	at, failed := checkTime(r.Header, time.Now())
	if failed != nil {
		return "", failed
	}
	body, failed := readBody(w, r)
	if failed != nil {
		return "", failed
	}
	var a ask
	if err := json.Unmarshal(body, &a); err != nil {
		return "", &Error{Code: CodeMalformed, Message: "the body is not an object with a run: " + err.Error(), Fix: `send {"run": ID}, or {} to announce the function`}
	}
	if failed := checkSignature(r.Header, h.Secrets, string(a.Run), body); failed != nil {
		return "", failed
	}
	if a.Run != "" {
		if _, err := event.ParseRunID(string(a.Run)); err != nil {
			return "", &Error{Code: CodeMalformed, Message: err.Error(), Fix: "send the ID of a run, not its workflow ID"}
		}
	}
	if !h.seen.add(r.Header.Get(HeaderNonce), at, time.Now()) {
		return "", &Error{Code: CodeReplayed, Message: "the request was received before", Fix: "sign each request anew with invoke.Sign"}
	}
	return a.Run, nil
}

// readBody reads a body of bounded size.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Error) {
	if r.ContentLength > bodyMost {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMost))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge()
	}
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		w.Header().Set("Connection", "close")
		return nil, &Error{Code: CodeTooSlow, Message: fmt.Sprintf("the body has not arrived within %v", bodyTime), Fix: "send the whole body at once"}
	}
	if err != nil {
		return nil, &Error{Code: CodeMalformed, Message: "the body cannot be read: " + err.Error(), Fix: "send the request again"}
	}
	return body, nil
}

func tooLarge() *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes", bodyMost), Fix: "send only the ID of the run"}
}

// announce returns what the function serves. It first does what a starting worker does.
func (h *handler) announce(ctx context.Context) (Answer, *Error) {
	if now := time.Now(); now.Sub(time.Unix(0, h.declared.Load())) >= declareEvery {
		if err := h.invoker.Declare(ctx); err != nil {
			return Answer{}, h.explain(err)
		}
		h.declared.Store(now.UnixNano())
	}
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	if err := h.invoker.Scan(ctx); err != nil {
		h.log.WarnContext(ctx, "the scan for alerts is incomplete and will be repeated", "error", err)
	}
	return Answer{
		Status: StatusAnnounced, Routes: h.code.Routes, Build: h.code.Build, Fingerprint: h.invoker.Fingerprint(), Budget: h.Budget.String(),
	}, nil
}

func (h *handler) stopping() bool {
	select {
	case <-h.Stop:
		return true
	default:
		return false
	}
}

// invoke executes a run.
func (h *handler) invoke(ctx context.Context, run event.RunID) (Answer, *Error) {
	if h.stopping() {
		return Answer{}, &Error{Code: CodeBusy, Message: "the process is stopping", Fix: "call again: another process answers"}
	}
	got, err := h.invoker.Invoke(ctx, flow.Invocation{Run: run, Budget: h.Budget, Lease: h.Lease, Enter: h.turns.enter}, h.Stop)
	waits, isParked := errors.AsType[*flow.NotReadyError](err)
	switch {
	case isParked && waits.State == store.StateParked:
		return parked(waits.Due), nil
	case err != nil:
		return Answer{}, h.explain(err)
	}
	switch got.Effect {
	case store.EffectFinish, store.EffectContinue:
		return Answer{Status: StatusDone}, nil
	case store.EffectPark:
		return parked(got.Due), nil
	case store.EffectBlock:
		return Answer{}, &Error{Code: CodeBlocked, Message: got.Why, Fix: "deploy code that matches the log of the run"}
	case store.EffectNone, store.EffectYield:
	}
	return Answer{Status: StatusYielded}, nil
}

func parked(due time.Time) Answer {
	a := Answer{Status: StatusParked}
	if !due.IsZero() {
		a.Due = &due
	}
	return a
}

// isPinned reports whether the runs of a route are pinned to a build.
func isPinned(r store.Route) bool {
	_, build := event.SplitQueue(r.Queue)
	return build != ""
}

// explain returns the answer to a request whose run could not be executed.
func (h *handler) explain(err error) *Error {
	e := &Error{Message: err.Error()}
	route, isRoute := errors.AsType[*flow.RouteError](err)
	busy, isBusy := errors.AsType[*flow.BusyError](err)
	switch {
	case isBusy:
		return &Error{Code: CodeBusy, Message: busy.Message, Fix: busy.Fix}
	case errors.Is(err, store.ErrRunNotFound):
		e.Code, e.Fix = CodeUnknownRun, "check the ID, and that the function has the store of the run"
	case errors.As(err, new(*store.TerminalError)):
		e.Code, e.Fix = CodeEnded, "call no function for a run that has ended"
	case errors.Is(err, store.ErrOwned):
		e.Code, e.Fix = CodeOwned, "wait: the owner continues the run, or its lease expires"
	case isRoute && isPinned(route.Route):
		e.Code, e.Fix = CodeWrongBuild, "send the run to a function of the build to which it is pinned; this one has build "+h.code.Build
	case isRoute:
		e.Code, e.Fix = CodeUnserved, "register the workflow, or send the run to a function that serves it"
	case errors.As(err, new(*flow.NotReadyError)), errors.Is(err, store.ErrNotClaimable):
		e.Code, e.Fix = CodeNotReady, "call again when the run is ready"
	case store.Unknown(err), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrExpired):
		e.Code, e.Fix = CodeUnavailable, "check the store, and the network between the function and it"
	default:
		e.Code, e.Fix = CodeUnexpected, "read the log of the function"
	}
	return e
}
