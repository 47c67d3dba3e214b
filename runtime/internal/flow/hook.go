package flow

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/shape"
	"github.com/flowgen/flowgen/runtime/store"
)

// Hook is the representation of a workflow.Hook.
type Hook struct {
	name   string
	stored reflect.Type // type of the stored form of payloads
}

// NewHook returns the hook with the given name, whose payloads have the stored form of a type. The
// type is HookRequest if the payloads are whole requests.
func NewHook(name string, stored reflect.Type) Hook { return Hook{name, stored} }

// Name returns the name of the hook.
func (h Hook) Name() string { return h.name }

// Declared panics for the zero Hook.
func (h Hook) Declared() { Declared("Hook", h.name) }

// Declared panics if a value of a declared type, such as Hook, is zero. name is the name that the
// declaration sets.
func Declared(typ, name string) {
	if name == "" {
		panic(&replay.MisuseError{Text: "workflow: zero " + typ + ": declare it with workflow.New" + typ})
	}
}

// Shape returns the stored form of the shape of payloads.
func (h Hook) Shape() []byte { return shape.Of(h.stored) }

// OfStep returns the hook for an attempt of a step. It refuses a user-defined token, because the
// runtime gives each attempt its own token. The error is a *store.InvalidError.
func (h Hook) OfStep(o *HookOptions) (attempt.Hook, error) {
	h.Declared()
	if o.Own {
		return attempt.Hook{}, BadToken(o.Token, "is set by the program, but the runtime sets the token of a hook that an attempt of a step opens")
	}
	if o.Respond != nil {
		return attempt.Hook{}, h.badOption("RespondWith", o.Respond.String(), "is for hooks that the code of a workflow opens: hooks that a step has opened are not answered")
	}
	meta, err := h.Meta(o)
	return attempt.Hook{Name: h.name, Shape: h.Shape(), Meta: meta}, err
}

// Meta returns the stored form of the options that describe the hook, or nil if there are none. The
// error is a *store.InvalidError.
func (h Hook) Meta(o *HookOptions) ([]byte, error) {
	web, err := h.web(o)
	if err != nil {
		return nil, err
	}
	if o.Describe != nil {
		return o.Describe(h.name, web)
	}
	if web.RespondMs == 0 && !web.Request {
		return nil, nil
	}
	return json.Marshal(web)
}

// web returns the part of the options that concerns requests.
func (h Hook) web(o *HookOptions) (HookWeb, error) {
	w := HookWeb{Request: h.stored == reflect.TypeFor[HookRequest](), Keep: o.Keep}
	if o.Respond != nil {
		w.RespondMs = o.Respond.Milliseconds()
	}
	switch {
	case o.Respond != nil && (w.RespondMs < 1 || *o.Respond > MaxRespond):
		return w, h.badOption("RespondWith", o.Respond.String(), fmt.Sprintf("is not between 1ms and %v", MaxRespond))
	case len(o.Keep) > 0 && !w.Request:
		return w, h.badOption("KeepHeaders", strings.Join(o.Keep, ", "), "is for hooks of workflow.HookRequest: other hooks receive only the body")
	case len(o.Keep) > maxHeaders:
		return w, h.badOption("KeepHeaders", fmt.Sprint(len(o.Keep)), fmt.Sprintf("lists more than %d headers", maxHeaders))
	}
	for _, name := range o.Keep {
		if !HeaderName(name) || strings.EqualFold(name, "Cookie") {
			return w, h.badOption("KeepHeaders", fmt.Sprintf("%.100q", name), "is not a valid header name: names have letters, digits, - and _")
		}
	}
	return w, nil
}

func (h Hook) badOption(option, value, reason string) error {
	return &store.InvalidError{What: "option " + option + " of hook " + h.name, Value: value, Reason: reason}
}

// HookOptions are the options with which a hook is opened.
type HookOptions struct {
	Token string
	Own   bool // the program has set the token
	// Describe returns the stored form of a description and of web, or nil if both are empty. It is
	// nil if the hook has no description.
	Describe func(hook string, web HookWeb) ([]byte, error)
	// Respond is the time for which a request waits for a response. If it is nil, requests do not
	// wait.
	Respond *time.Duration
	Keep    []string // headers that the hook keeps
}

// maxHeaders is the maximum number of headers that a hook keeps.
const maxHeaders = 32

// HookWeb describes how a hook accepts requests. It is stored with the description of the hook.
type HookWeb struct {
	RespondMs int64    `json:"respondMs,omitempty"`
	Request   bool     `json:"request,omitempty"`
	Keep      []string `json:"keep,omitempty"`
}

// Respond returns the time for which a request waits for a response.
func (w HookWeb) Respond() time.Duration { return time.Duration(w.RespondMs) * time.Millisecond }

// HookRequest is the stored form of a workflow.HookRequest.
type HookRequest struct {
	Query      map[string][]string `json:"query,omitempty"`
	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
}

// HeaderName reports whether name is a valid header name.
func HeaderName(name string) bool {
	return name != "" && len(name) <= store.MaxName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// BadToken returns a *store.InvalidError that contains the token, truncated to the maximum length.
func BadToken(token, why string) error {
	return &store.InvalidError{What: "token", Value: fmt.Sprintf("%.*s", MaxName, token), Reason: why}
}
