package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// HookResponse is the answer to a request that came to a hook.
type HookResponse struct {
	// Status is that of HTTP, from 200 to 599; 0: 200.
	Status int
	// Header has what the response says beside its body: Content-Type, Content-Language, Location, Retry-After, and names that
	// begin with X-. Without a Content-Type, JSON is application/json, and any other body application/octet-stream.
	Header map[string]string
	Body   []byte
}

// storedResponse is the stored form of a response.
type storedResponse struct {
	Status     int               `json:"status,omitempty"`
	Header     map[string]string `json:"header,omitempty"`
	JSON       json.RawMessage   `json:"json,omitempty"` // the body, if it was given as a value
	Body       string            `json:"body,omitempty"`
	BodyBase64 []byte            `json:"bodyBase64,omitempty"`
}

// MarshalJSON returns the stored form.
func (r HookResponse) MarshalJSON() ([]byte, error) {
	s := storedResponse{Status: r.Status, Header: r.Header}
	if utf8.Valid(r.Body) {
		s.Body = string(r.Body)
	} else {
		s.BodyBase64 = r.Body
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads the stored form.
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
			r.say(contentType, "application/json")
		}
	case len(s.BodyBase64) > 0:
		r.Body = s.BodyBase64
	}
	return nil
}

// kind returns the content type that the response says.
func (r *HookResponse) kind() string {
	for name, value := range r.Header {
		if strings.EqualFold(name, contentType) {
			return value
		}
	}
	return ""
}

func (r *HookResponse) say(name, value string) {
	all := map[string]string{name: value}
	maps.Copy(all, r.Header)
	r.Header = all
}

// check refuses what is no response, or would change more than the answer to one request.
func (r *HookResponse) check(hook string) error {
	bad := func(value, why string) error {
		return &InvalidError{What: "answer of hook " + hook, Value: value, Reason: why}
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		return bad(fmt.Sprint(r.Status), "is no status from 200 to 599")
	}
	for name, value := range r.Header {
		switch {
		case !headerName(name) || !answerHeader(name):
			return bad(fmt.Sprintf("%.100q", name), "is no header that a hook answers with: use Content-Type, Content-Language, Location, Retry-After, or one that begins with X-")
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

// Answer answers the payload that this branch has received last from the hook, by Receive or by a [Select] that
// its case has won; in a branch that has received none, the one that the branch which has opened it had received
// then: so a branch for each payload answers its own. The hook was opened with [RespondWith], and may be closed by now.
//
// response is a [HookResponse], or anything else: then the response has the status 200 and response as JSON.
//
// It does not wait, and works on a context that has ended. The answer is recorded, and nobody is told of it before it is
// durable. A request that has stopped waiting can be sent again with the same Idempotency-Key, and gets the answer
// then; one without a key cannot. Errors, after which nothing was answered: one that matches ErrHookAnswered if this payload was answered before; a
// *[PayloadError] if the response is too large or has no JSON form; an *[InvalidError] if it is no response.
func (h *OpenHook[T]) Answer(ctx Context, response any) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	what := "answer of hook " + h.hook.name
	payload, err := ctx.encodeResponse(h.hook.name, what, response)
	if err == nil {
		err = b.AnswerHook(h.inner, payload)
	}
	if errors.Is(err, replay.ErrAnswered) {
		return fmt.Errorf("%s: %w", what, ErrHookAnswered)
	}
	return err
}

// encodeResponse returns the stored form of a response.
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
	value, err := marshal(what, response)
	if err != nil {
		return nil, err
	}
	return ctx.encode(what, storedResponse{JSON: value})
}

// HookCall is a request that a hook has accepted.
type HookCall struct {
	// Run is the run that has opened the hook.
	Run RunID
	// Respond is how long the answer is waited for; 0: there will be none.
	Respond time.Duration

	asking *asking
	since  time.Time
}

// CallHook delivers a request to the hook with a token. When it returns nil the payload is durable; [HookCall.Answer] waits for the answer. It is
// for public endpoints; package admin/hooks is one. Of a hook of [HookRequest] the payload is the request, of any other its
// body; one without a body has null. With an [IdempotencyKey] the request arrives once, and each call with the key gets the same
// answer, while the run is kept.
//
// Errors are those of [Client.SendToHook].
func (c *Client) CallHook(ctx context.Context, token string, r HookRequest, opts ...SendOption) (*HookCall, error) {
	call, err := c.callHook(ctx, token, &r, opts)
	if err != nil {
		return nil, fmt.Errorf("send to a hook: %w", err)
	}
	return call, nil
}

func (c *Client) callHook(ctx context.Context, token string, r *HookRequest, opts []SendOption) (*HookCall, error) {
	h, err := c.openHook(ctx, token, 2)
	if err != nil {
		return nil, err
	}
	record, err := decodeRecord(h.meta)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", h.run, err)
	}
	id, keyed := itemOf("hook "+token, opts)
	call := &HookCall{Run: h.run, Respond: record.respond()}
	if call.Respond > 0 {
		call.asking = &asking{reader: reader{c: c, run: h.run, what: "answer of hook " + h.state.Name, stream: effects.AnswerStream(id)}, id: id}
		if err := call.asking.begin(ctx, keyed); err != nil {
			return nil, err
		}
		if call.asking.found != nil {
			return call, nil // it was accepted, and answered
		}
	}
	payload, err := record.payload(&c.limits, h.state.Name, r)
	if err == nil {
		err = c.deliverToHook(ctx, h, id, keyed, &event.Event{Type: event.HookReceived, Payload: payload}, opts)
	}
	call.since = c.store.Clock().Now()
	return call, err
}

// Answer waits for the answer, but no longer than Respond after the request was accepted. false: there is none, not in time, or
// because the run has ended. Errors: that of ctx; others say nothing of whether there is an answer, or will be.
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
	err = decode(h.asking.what, h.asking.found.Payload, &r)
	return r, err == nil, err
}
