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

// Prefix begins the paths of hooks; the token follows.
const Prefix = "/hooks/"

// Config configures a Handler. The zero value is good for a server on the internet.
type Config struct {
	// MaxBody bounds the body of a request, in bytes; 0: workflow.DefaultMaxPayload and 64 KiB.
	MaxBody int64
	// BodyTime is how long the body of a request may take; 0: 10 s.
	BodyTime time.Duration
	// AcceptTime is how long the store may take to accept a payload; 0: 10 s.
	AcceptTime time.Duration
	// Rate is how many requests with a token may come in a second, and at once; 0: 20.
	Rate int
	// Waiting is how many requests may wait for answers of workflows; those above that are told at once that they were accepted.
	// 0: 1,000.
	Waiting int
	// Bodies bounds how many bytes of bodies are in memory at once; 0: 256 MiB. Nothing is read of a body without a token that is one.
	Bodies int64
	// Now says what time it is, for the rate; nil: time.Now.
	Now func() time.Time
}

// Handler serves hooks.
type Handler struct {
	client  *workflow.Client
	cfg     Config
	rate    *rate.Limiter
	waiting chan struct{}
	bodies  *body.Budget
}

// New returns the handler of a client, which stays the caller's. It serves the paths that begin with Prefix.
func New(client *workflow.Client, cfg Config) *Handler {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, workflow.DefaultMaxPayload+64<<10)
	cfg.BodyTime = cmp.Or(cfg.BodyTime, 10*time.Second)
	cfg.AcceptTime = cmp.Or(cfg.AcceptTime, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Handler{client: client, cfg: cfg, rate: rate.New(cmp.Or(cfg.Rate, 20), cfg.Now), waiting: make(chan struct{}, cmp.Or(cfg.Waiting, 1000)), bodies: body.NewBudget(cmp.Or(cfg.Bodies, 256<<20))}
}

// ServeHTTP takes a request. The first thing that is wrong with it is the answer. Whether the token is one is asked before
// the body is read, and what comes before that is the same for all.
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

// always are the headers of all answers. An answer is that of a workflow, and may hold what a stranger has sent: a browser
// that is led here must neither guess its type nor run anything in it.
var always = map[string]string{
	"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
	"Referrer-Policy": "no-referrer",
}

// unknownTime is the least that the answer to an unknown token takes, so that the time says nothing of why it is one.
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

// unknown is the answer for all tokens that lead to no open hook.
func unknown() error {
	return admin.NewProblem(admin.CodeNotFound, "there is no open hook with this token", "use the token of a hook that is open")
}

// accepted is the answer to a payload that is durable.
var accepted = workflow.HookResponse{Status: http.StatusAccepted, Header: map[string]string{"Content-Type": "application/json"}, Body: []byte("{\"accepted\":true}\n")}

// take delivers a request to its hook, and returns what is answered.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) (workflow.HookResponse, error) {
	token, ok := tokenOf(r)
	if !ok {
		return accepted, unknown()
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p := admin.NewProblem(admin.CodeInput, r.Method+" is no method of a hook", "use POST")
		p.Status = http.StatusMethodNotAllowed
		return accepted, p
	}
	if wait := h.rate.Take(token); wait > 0 {
		retryAfter(w, int(wait/time.Second)+1)
		return accepted, admin.NewProblem(admin.CodeBusy, "more requests come with this token in a second than it may have", "send it again after the time of Retry-After, with the same Idempotency-Key")
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
		return accepted, admin.NewProblem(admin.CodeBusy, "too much is sent to hooks at once", "send it again after the time of Retry-After, with the same Idempotency-Key")
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

// tokenOf returns the token in a path. The path is taken as it is: nothing in it is cleaned, and a token is one part of it.
func tokenOf(r *http.Request) (string, bool) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !ok || rest == "" || rest == "." || rest == ".." || strings.Contains(rest, "/") || len(rest) > maxPath {
		return "", false
	}
	return strings.TrimPrefix(r.URL.Path, Prefix), strings.HasPrefix(r.URL.Path, Prefix)
}

// maxPath bounds a token with its escapes, in bytes.
const maxPath = 3 * 200

// maxKey bounds an Idempotency-Key, in bytes.
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

// read reads a request.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (workflow.HookRequest, error) {
	data, err := body.Read(w, r, h.cfg.MaxBody, h.cfg.BodyTime)
	return workflow.HookRequest{Query: r.URL.Query(), Header: r.Header, Body: data}, err
}

// find returns the hook of a token, before anything of the body is read: whoever has no token costs no memory.
func (h *Handler) find(ctx context.Context, w http.ResponseWriter, token string) (workflow.HookInfo, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.AcceptTime)
	defer cancel()
	info, err := h.client.Hook(limited, token)
	if err != nil {
		err = refused(w, &info, err)
	}
	return info, err
}

// deliver puts a request into the run. If the store does not answer in time it is not known whether that has worked.
func (h *Handler) deliver(ctx context.Context, w http.ResponseWriter, token string, info *workflow.HookInfo, r workflow.HookRequest, key []workflow.SendOption) (*workflow.HookCall, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.AcceptTime)
	defer cancel()
	if !info.Request && len(r.Body) > 0 { // what two readers could understand differently is no payload
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

// refused returns what is answered after an error of the client.
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

// hidden returns what is wrong with a payload, unless the hook is closed: that looks like one that was never there.
func hidden(info *workflow.HookInfo, err error) error {
	if info.Closed {
		return unknown()
	}
	return err
}

// await returns the answer of the workflow, or that the payload was accepted: also while too many wait.
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
	limited, cancel := context.WithTimeout(ctx, call.Respond+time.Second) // the store's clock says when; this is for one that stands
	defer cancel()
	r, answered, err := call.Answer(limited)
	if err != nil || !answered {
		return accepted
	}
	return r
}

// writeTime bounds how long a reader may take for what it is sent.
const writeTime = 30 * time.Second

// write answers as the workflow does. What all answers say it cannot say otherwise.
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

// fail answers with a problem.
func fail(w http.ResponseWriter, err error) {
	p := admin.ProblemOf(err)
	if p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusRequestTimeout {
		w.Header().Set("Connection", "close") // what is left of the body is not read
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // text always encodes
	w.Header().Set("Content-Type", "application/problem+json")
	send(w, p.Status, b.Bytes())
}

func send(w http.ResponseWriter, status int, data []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of a test has none
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
