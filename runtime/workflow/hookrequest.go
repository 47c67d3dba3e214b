package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// HookRequest is an HTTP request that arrived at a hook through a public endpoint, for example the
// endpoint of package admin/hooks. A hook of this type accepts requests with any body:
//
//	var Stripe = workflow.NewHook[workflow.HookRequest]("stripe")
//
// A hook of any other type accepts only the body, which must be JSON of that type. Operators and
// [Client.SendToHook] send a HookRequest in its JSON form: {"query":…,"header":…,"body":"…"}. If
// the body is not text, "bodyBase64" replaces "body".
type HookRequest struct {
	// Query contains the parameters of the URL.
	Query map[string][]string
	// Header contains Content-Type, if the request has one, and the headers that [KeepHeaders]
	// lists, spelled as in that list.
	Header map[string][]string
	// Body is the unchanged body, so that its signature can be verified.
	Body []byte
}

// MarshalJSON returns the stored form of r.
func (r HookRequest) MarshalJSON() ([]byte, error) {
	s := flow.HookRequest{Query: r.Query, Header: r.Header}
	if utf8.Valid(r.Body) {
		s.Body = string(r.Body)
	} else {
		s.BodyBase64 = r.Body
	}
	return json.Marshal(s)
}

// UnmarshalJSON sets r from its stored form.
func (r *HookRequest) UnmarshalJSON(data []byte) error {
	var s flow.HookRequest
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*r = HookRequest{Query: s.Query, Header: s.Header, Body: []byte(s.Body)}
	if len(s.BodyBase64) > 0 {
		r.Body = s.BodyBase64
	}
	return nil
}

// RespondWith opens a hook whose requests wait for a response by [OpenHook.Answer]. They wait for
// at most d after the payload was accepted. If there is no response by then, the request is
// reported as accepted. d is a positive number of whole milliseconds and at most 30 seconds. Only
// hooks that workflow code opens can have this option. It is recorded when the hook is opened. A
// replay does not compare it.
func RespondWith(d time.Duration) HookOption { return func(o *hookOptions) { o.Respond = &d } }

// KeepHeaders opens a hook of [HookRequest] that keeps these headers of requests in addition to
// Content-Type. The values are stored in the log of the run, so list only headers that the code
// reads, for example a signature. At most 32 headers are allowed. Cookie is not allowed.
func KeepHeaders(names ...string) HookOption {
	return func(o *hookOptions) { o.Keep = append(o.Keep, names...) }
}

// contentType is the header that every hook keeps.
const contentType = "Content-Type"

// acceptedPart returns the part of a request that the hook accepts. The error is a *PayloadError.
func acceptedPart(w flow.HookWeb, l *flow.Limits, hook string, r *HookRequest) ([]byte, error) {
	what := "payload of hook " + hook
	if w.Request {
		return l.Encode(what, keptPart(w, r), false)
	}
	body := r.Body
	if len(body) == 0 {
		body = []byte("null")
	}
	if err := l.Check(what, len(body), false); err != nil {
		return nil, err
	}
	if err := flow.ValidJSON(body); err != nil {
		return nil, &PayloadError{What: what, Err: fmt.Errorf("the body is not JSON, and the hook accepts only JSON: declare it as a hook of workflow.HookRequest: %w", err)}
	}
	return body, nil
}

// keptPart returns the request with only those headers that the hook keeps. It replaces invalid
// UTF-8 in parameters and headers, because JSON cannot represent it.
func keptPart(w flow.HookWeb, r *HookRequest) HookRequest {
	k := HookRequest{Body: r.Body, Query: map[string][]string{}, Header: map[string][]string{}}
	for name, values := range r.Query {
		name = strings.ToValidUTF8(name, "\uFFFD")
		k.Query[name] = append(k.Query[name], valid(values)...)
	}
	for _, name := range append(slices.Clone(w.Keep), contentType) {
		for given, values := range r.Header {
			if strings.EqualFold(given, name) {
				k.Header[name] = valid(values)
			}
		}
	}
	return k
}

func valid(values []string) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	return all
}

// HookResponse is the response to a request that was sent to a hook.
type HookResponse struct {
	// Status is the HTTP status, from 200 to 599; 0 means 200.
	Status int
	// Header may contain Content-Type, Content-Language, Location, Retry-After, and headers that
	// begin with X-. If there is no Content-Type, it is application/json for a JSON body and
	// application/octet-stream for any other body.
	Header map[string]string
	Body   []byte
}

// storedResponse is the stored form of a response.
type storedResponse struct {
	Status     int               `json:"status,omitempty"`
	Header     map[string]string `json:"header,omitempty"`
	JSON       json.RawMessage   `json:"json,omitempty"` // body that was given as a value
	Body       string            `json:"body,omitempty"`
	BodyBase64 []byte            `json:"bodyBase64,omitempty"`
}

// MarshalJSON returns the stored form of r.
func (r HookResponse) MarshalJSON() ([]byte, error) {
	s := storedResponse{Status: r.Status, Header: r.Header}
	if utf8.Valid(r.Body) {
		s.Body = string(r.Body)
	} else {
		s.BodyBase64 = r.Body
	}
	return json.Marshal(s)
}

// UnmarshalJSON sets r from its stored form.
func (r *HookResponse) UnmarshalJSON(data []byte) error {
	var s storedResponse
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*r = HookResponse{Status: s.Status, Header: s.Header, Body: []byte(s.Body)}
	switch {
	case len(s.JSON) > 0:
		r.Body = s.JSON
		if r.kind() == "" {
			r.Header = map[string]string{contentType: "application/json"}
			maps.Copy(r.Header, s.Header)
		}
	case len(s.BodyBase64) > 0:
		r.Body = s.BodyBase64
	}
	return nil
}

// kind returns the content type of the response, or "" if it has none.
func (r *HookResponse) kind() string {
	for name, value := range r.Header {
		if strings.EqualFold(name, contentType) {
			return value
		}
	}
	return ""
}

// check returns an error if the response is invalid, or if it has headers that would affect more
// than the response to one request.
func (r *HookResponse) check(hook string) error {
	bad := func(value, why string) error {
		return &InvalidError{What: "answer of hook " + hook, Value: value, Reason: why}
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		return bad(fmt.Sprint(r.Status), "is not a status from 200 to 599")
	}
	for name, value := range r.Header {
		switch {
		case !flow.HeaderName(name) || !answerHeader(name):
			return bad(fmt.Sprintf("%.100q", name), "is not a header that a hook can answer with: use Content-Type, Content-Language, Location, Retry-After, or one that begins with X-")
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return bad(fmt.Sprintf("%.100q", value), "has control characters, which header "+name+" cannot have")
		}
	}
	return nil
}

func answerHeader(name string) bool {
	switch name = strings.ToLower(name); name {
	case "content-type", "content-language", "location", "retry-after":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// Answer responds to the payload that this branch has received last from the hook, by Receive or by
// a [Select] that returned the hook's case. If this branch has received no payload, Answer responds
// to the last payload that the parent branch had received when it opened this branch. Therefore a
// branch that was opened for a payload responds to that payload. The hook must have been opened
// with [RespondWith]. It may have been closed.
//
// response is a [HookResponse], or any other value. For another value, the response has status 200
// and the value as JSON.
//
// Answer does not wait. It has an effect even if ctx has ended. The response is recorded, and is
// sent only when it is durable. If the wait of a request has ended, the caller can repeat the
// request with the same Idempotency-Key and receives the response. Without a key, the caller cannot
// receive it.
//
// If Answer returns an error, no response was recorded. The error matches ErrHookAnswered if the
// payload was already answered. It is a *[PayloadError] if the response is too large or has no JSON
// form, and an *[InvalidError] if the response is not valid.
func (h *OpenHook[T]) Answer(ctx Context, response any) error {
	b := ctx.gate()
	what := "answer of hook " + h.hook.Name()
	payload, err := ctx.encodeResponse(h.hook.Name(), what, response)
	if err == nil {
		err = b.AnswerHook(h.inner, payload)
	}
	if errors.Is(err, replay.ErrAnswered) {
		return fmt.Errorf("%s: %w", what, ErrHookAnswered)
	}
	return err
}

func (ctx Context) encodeResponse(hook, what string, response any) ([]byte, error) {
	if p, ok := response.(*HookResponse); ok && p != nil {
		response = *p
	}
	if r, ok := response.(HookResponse); ok {
		if err := r.check(hook); err != nil {
			return nil, err
		}
		return ctx.encode(what, r)
	}
	value, err := flow.Marshal(what, response)
	if err != nil {
		return nil, err
	}
	return ctx.encode(what, storedResponse{JSON: value})
}

// HookCall is a request that a hook has accepted.
type HookCall struct {
	// Run is the run that opened the hook.
	Run RunID
	// Respond is the maximum time to wait for a response. It is 0 if there will be no response.
	Respond time.Duration

	asking *asking
	since  time.Time
}

// CallHook delivers a request to the hook with this token. When it returns nil, the payload is
// durable, and [HookCall.Answer] waits for the response. CallHook is meant for public endpoints
// such as the endpoint of package admin/hooks.
//
// The payload of a hook of [HookRequest] is the request. The payload of any other hook is the body,
// or null if there is none. With an [IdempotencyKey], the request arrives once. Each call with the
// key receives the same response, as long as the run is kept. The errors are those of
// [Client.SendToHook].
func (c *Client) CallHook(ctx context.Context, token string, r HookRequest, opts ...SendOption) (*HookCall, error) {
	call, err := c.inner().callHook(ctx, token, &r, opts)
	if err != nil {
		return nil, fmt.Errorf("send to a hook: %w", err)
	}
	return call, nil
}

// callHook delivers a request to a hook through the interceptors.
func (c *client) callHook(ctx context.Context, token string, r *HookRequest, opts []SendOption) (call *HookCall, err error) {
	to := &ClientCall{Operation: OperationHook}
	if !c.intercepts() {
		return c.callToken(ctx, to, token, r, opts)
	}
	err = c.intercept(ctx, to, func(ctx context.Context) (err error) {
		call, err = c.callToken(ctx, to, token, r, opts)
		return err
	})
	return call, err
}

func (c *client) callToken(ctx context.Context, to *ClientCall, token string, r *HookRequest, opts []SendOption) (*HookCall, error) {
	attributes, err := flow.Attributes(ctx)
	if err != nil {
		return nil, err
	}
	h, err := c.openHook(ctx, token, 2)
	if err != nil {
		return nil, err
	}
	to.Name, to.Run = h.state.Name, h.run
	record, err := decodeRecord(h.meta)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", h.run, err)
	}
	id, keyed := itemOf("hook "+token, opts)
	call := &HookCall{Run: h.run, Respond: record.Respond()}
	if call.Respond > 0 {
		call.asking = &asking{reader: reader{c: c, run: h.run, what: "answer of hook " + h.state.Name, stream: effects.AnswerStream(id)}, id: id}
		if err := call.asking.begin(ctx, keyed); err != nil {
			return nil, err
		}
		if call.asking.found != nil {
			return call, nil // an earlier call with the same key was answered
		}
	}
	payload, err := acceptedPart(record.HookWeb, &c.limits, h.state.Name, r)
	if err == nil {
		err = c.deliverToHook(ctx, h, id, keyed, &event.Event{Type: event.HookReceived, Payload: payload, Attributes: attributes}, opts)
	}
	call.since = c.store.Clock().Now()
	return call, err
}

// Answer waits for the response until Respond has passed since the request was accepted. answered
// is false if there is no response by then, or if the run has ended without a response. If Answer
// returns an error, such as the error of ctx, it is unknown whether there is or will be a response.
func (h *HookCall) Answer(ctx context.Context) (r HookResponse, answered bool, err error) {
	if h.asking == nil {
		return r, false, nil
	}
	if h.asking.found == nil {
		clock := h.asking.c.store.Clock()
		left := h.since.Add(h.Respond).Sub(clock.Now())
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		defer clock.AfterFunc(max(left, 0), cancel)()
		_, err = h.asking.await(limited, false)
		switch {
		case errors.Is(err, errUnanswered), errors.Is(err, ErrRunNotFound), err != nil && limited.Err() != nil && ctx.Err() == nil:
			return r, false, nil
		case err != nil:
			return r, false, err
		}
	}
	err = flow.Decode(h.asking.what, h.asking.found.Payload, &r)
	return r, err == nil, err
}
