// Package hooks is the public HTTP endpoint of hooks. POST /hooks/{token} sends a payload to the run
// that opened the hook. Any program with a client of the store can mount it:
//
//	http.Handle(hooks.Prefix, hooks.New(client, hooks.Config{}))
//
// The token is the only credential. The payload of a hook of [workflow.HookRequest] is the request.
// The payload of any other hook is the body, which must be JSON of the type of the hook. An empty
// body means null. If a request with the header Idempotency-Key is repeated, its payload arrives
// once.
//
// # Responses
//
//   - 202: the payload is durable. The run receives it when its code requests it.
//   - The response of the workflow, if the hook was opened with [workflow.RespondWith] and the
//     response is available in time. If it is not, the status is 202, and a later repetition of the
//     request with the same Idempotency-Key returns the response.
//   - 404: the token is invalid, or its hook is closed. The response is the same in both cases, and
//     takes at least 100 ms.
//   - 400, 413, 422: the body is not JSON, is too large, or does not match the type of the hook.
//   - 408: the body did not arrive in time.
//   - 429: there were more than 20 requests per second with that token. The response has the header
//     Retry-After.
//   - 503: the store does not respond, and the payload may have arrived. Repeat the request with the
//     same Idempotency-Key after the time in the header Retry-After.
//
// Errors are problems; see [admin.Problem]. The journal of operators does not record payloads,
// because the log of the run contains them, and unauthenticated callers could fill the journal.
package hooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/body"
	"github.com/flowgen/flowgen/admin/internal/rate"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Prefix is the prefix of the paths of hooks. It is followed by the token.
const Prefix = "/hooks/"

// Config configures a Handler. The zero value is suitable for a server on the internet.
type Config struct {
	// MaxBody is the maximum size of the body of a request in bytes; 0 means
	// workflow.DefaultMaxPayload plus 64 KiB.
	MaxBody int64
	// BodyTime is the time limit for reading the body of a request; 0 means 10 s.
	BodyTime time.Duration
	// AcceptTime is the time within which the store must accept a payload; 0 means 10 s.
	AcceptTime time.Duration
	// Rate is the maximum number of requests per second with a token, and the maximum burst; 0
	// means 20.
	Rate int
	// Waiting is the maximum number of requests that wait for responses of workflows; 0 means
	// 1,000. Further requests get the status 202 immediately.
	Waiting int
	// Bodies is the maximum total size of the bodies in memory in bytes; 0 means 256 MiB. The body
	// of a request with an invalid token is not read.
	Bodies int64
	// Now is the clock for the rate limit; nil means time.Now.
	Now func() time.Time
}

// Handler serves the public endpoint of hooks.
type Handler struct {
	client  *workflow.Client
	cfg     Config
	rate    *rate.Limiter
	waiting chan struct{}
	bodies  *body.Budget
}

// New returns a handler that uses a client. The caller must close the client. The handler serves
// the paths that begin with Prefix.
func New(client *workflow.Client, cfg Config) *Handler {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, workflow.DefaultMaxPayload+64<<10)
	cfg.BodyTime = cmp.Or(cfg.BodyTime, 10*time.Second)
	cfg.AcceptTime = cmp.Or(cfg.AcceptTime, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Handler{client: client, cfg: cfg, rate: rate.New(cmp.Or(cfg.Rate, 20), cfg.Now), waiting: make(chan struct{}, cmp.Or(cfg.Waiting, 1000)), bodies: body.NewBudget(cmp.Or(cfg.Bodies, 256<<20))}
}

// ServeHTTP handles a request. The first check that fails determines the response. ServeHTTP checks
// the token before it reads the body. The checks before that do not depend on the token.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range always {
		w.Header().Set(name, value)
	}
	began := time.Now()
	body.Within(w, r, h.cfg.BodyTime)
	response, err := h.take(w, r)
	if err == nil {
		h.write(w, response)
		return
	}
	if p := admin.ProblemOf(err); p.Code == admin.CodeNotFound {
		if hide(r.Context(), time.Until(began.Add(unknownTime))) != nil {
			return
		}
		err = unknown()
	}
	fail(w, err)
}

// always contains the headers of every response. The response of a workflow may contain data from
// an attacker, so a browser must neither guess its type nor execute anything in it.
var always = map[string]string{
	"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
	"Referrer-Policy": "no-referrer",
}

// unknownTime is the minimum duration of the response to an invalid token. It hides why the token
// is invalid.
const unknownTime = 100 * time.Millisecond

func hide(ctx context.Context, left time.Duration) error {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unknown returns the error for every token without an open hook.
func unknown() error {
	return admin.NewProblem(admin.CodeNotFound, "there is no open hook with this token", "use the token of a hook that is open")
}

// accepted is the response after a payload has become durable, if there is no response of the
// workflow.
var accepted = workflow.HookResponse{Status: http.StatusAccepted, Header: map[string]string{"Content-Type": "application/json"}, Body: []byte("{\"accepted\":true}\n")}

// take delivers a request to its hook, and returns the response.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) (workflow.HookResponse, error) {
	token, ok := tokenOf(r)
	if !ok {
		return accepted, unknown()
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p := admin.NewProblem(admin.CodeInput, r.Method+" is not a method of a hook", "use POST")
		p.Status = http.StatusMethodNotAllowed
		return accepted, p
	}
	if wait := h.rate.Take(token); wait > 0 {
		retryAfter(w, int(wait/time.Second)+1)
		return accepted, admin.NewProblem(admin.CodeBusy, "the limit of requests per second of this token is reached", "send it again after the time of Retry-After, with the same Idempotency-Key")
	}
	key, err := keyOf(r)
	if err != nil {
		return accepted, err
	}
	info, err := h.find(r.Context(), w, token)
	if err != nil {
		return accepted, err
	}
	back := h.bodies.Take(r, h.cfg.MaxBody)
	if back == nil {
		retryAfter(w, 1)
		return accepted, admin.NewProblem(admin.CodeBusy, "the limit of concurrent requests to hooks is reached", "send it again after the time of Retry-After, with the same Idempotency-Key")
	}
	defer back()
	request, err := h.read(w, r)
	if err != nil {
		return accepted, err
	}
	call, err := h.deliver(r.Context(), w, token, &info, request, key)
	if err != nil {
		return accepted, err
	}
	return h.await(r.Context(), call), nil
}

// tokenOf returns the token in the path of a request. Paths are not cleaned, and a token is a
// single segment.
func tokenOf(r *http.Request) (string, bool) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !ok || rest == "" || rest == "." || rest == ".." || strings.Contains(rest, "/") || len(rest) > maxPath {
		return "", false
	}
	return strings.TrimPrefix(r.URL.Path, Prefix), strings.HasPrefix(r.URL.Path, Prefix)
}

// maxPath is the maximum length of an escaped token in bytes.
const maxPath = 3 * 200

// maxKey is the maximum length of an Idempotency-Key in bytes.
const maxKey = 255

func keyOf(r *http.Request) ([]workflow.SendOption, error) {
	given := r.Header.Values("Idempotency-Key")
	switch {
	case len(given) == 0:
		return nil, nil
	case len(given) > 1 || given[0] == "" || len(given[0]) > maxKey:
		return nil, &admin.InputError{What: "the header Idempotency-Key is empty, too long, or given more than once", Fix: fmt.Sprintf("give it once, with up to %d bytes", maxKey)}
	}
	return []workflow.SendOption{workflow.IdempotencyKey(given[0])}, nil
}

// read reads the body of a request within the limits.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (workflow.HookRequest, error) {
	data, err := body.Read(w, r, h.cfg.MaxBody, h.cfg.BodyTime)
	return workflow.HookRequest{Query: r.URL.Query(), Header: r.Header, Body: data}, err
}

// find returns the hook of a token. It is called before the body is read, so that requests with
// invalid tokens use no memory.
func (h *Handler) find(ctx context.Context, w http.ResponseWriter, token string) (workflow.HookInfo, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.AcceptTime)
	defer cancel()
	info, err := h.client.Hook(limited, token)
	if err != nil {
		err = refused(w, &info, err)
	}
	return info, err
}

// deliver delivers a request to the run. If the store does not respond in time, it is unknown
// whether the delivery has succeeded.
func (h *Handler) deliver(ctx context.Context, w http.ResponseWriter, token string, info *workflow.HookInfo, r workflow.HookRequest, key []workflow.SendOption) (*workflow.HookCall, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.AcceptTime)
	defer cancel()
	if !info.Request && len(r.Body) > 0 { // a payload that different parsers interpret differently is refused
		if bad := body.CheckAny(r.Body); bad != nil {
			return nil, hidden(info, bad)
		}
	}
	call, err := h.client.CallHook(limited, token, r, key...)
	if err != nil {
		return nil, refused(w, info, err)
	}
	return call, nil
}

// refused returns the problem for an error that the client returned.
func refused(w http.ResponseWriter, info *workflow.HookInfo, err error) error {
	if errors.Is(err, workflow.ErrHookNotFound) || errors.Is(err, workflow.ErrHookDisposed) || errors.Is(err, workflow.ErrRunNotFound) {
		return unknown()
	}
	if misfit, ok := errors.AsType[*workflow.PayloadError](err); ok {
		p := admin.ProblemOf(err)
		if misfit.Limit == 0 {
			p.Status = http.StatusUnprocessableEntity
		}
		return hidden(info, p)
	}
	retryAfter(w, 1)
	return admin.NewProblem(admin.CodeFailed, "the store does not answer: the payload may have arrived", "send it again with the same Idempotency-Key; without one it could arrive twice")
}

// hidden returns the error of a payload, unless the hook is closed. A caller cannot distinguish a
// closed hook from a missing one.
func hidden(info *workflow.HookInfo, err error) error {
	if info.Closed {
		return unknown()
	}
	return err
}

// await waits for the response of the workflow and returns it. It returns 202 if there is none in
// time, or if too many requests are waiting.
func (h *Handler) await(ctx context.Context, call *workflow.HookCall) workflow.HookResponse {
	if call.Respond == 0 {
		return accepted
	}
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		return accepted
	}
	limited, cancel := context.WithTimeout(ctx, call.Respond+time.Second) // the store's clock determines the end of the wait; this limit applies if the store does not respond
	defer cancel()
	r, answered, err := call.Answer(limited)
	if err != nil || !answered {
		return accepted
	}
	return r
}

// writeTime is the time limit for writing a response.
const writeTime = 30 * time.Second

// write sends the response of the workflow. The workflow cannot override the headers that every
// response has.
func (h *Handler) write(w http.ResponseWriter, r workflow.HookResponse) {
	for name, value := range r.Header {
		if always[http.CanonicalHeaderKey(name)] == "" {
			w.Header().Set(name, value)
		}
	}
	if len(r.Body) > 0 && w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	send(w, cmp.Or(r.Status, http.StatusOK), r.Body)
}

// fail sends a problem as the response.
func fail(w http.ResponseWriter, err error) {
	p := admin.ProblemOf(err)
	if p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // closes the connection, because the server does not read the rest of the body
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // a problem can always be encoded
	w.Header().Set("Content-Type", "application/problem+json")
	send(w, p.Status, b.Bytes())
}

func send(w http.ResponseWriter, status int, data []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // response recorders in tests do not support deadlines
	if status != http.StatusNoContent && status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	} else {
		data = nil
	}
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

func retryAfter(w http.ResponseWriter, seconds int) {
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
}
