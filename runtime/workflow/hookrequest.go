package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/store"
)

// HookRequest is an HTTP request that arrived at a hook through a public endpoint, such as that of
// package admin/hooks. A hook of this type accepts requests with any body:
//
//	var Stripe = workflow.NewHook[workflow.HookRequest]("stripe")
//
// A hook of any other type accepts only the body, which must be JSON of that type. Operators and
// [Client.SendToHook] send a HookRequest in its JSON form: {"query":…,"header":…,"body":"…"}, with
// "bodyBase64" for a body that is not text.
type HookRequest struct {
	// Query has the parameters of the URL.
	Query map[string][]string
	// Header has Content-Type, if the request has one, and the headers listed by [KeepHeaders],
	// spelled as in the list.
	Header map[string][]string
	// Body is the unchanged body, so that its signature can be verified.
	Body []byte
}

// storedRequest is the stored form of a request.
type storedRequest struct {
	Query      map[string][]string `json:"query,omitempty"`
	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"bodyBase64,omitempty"`
}

// MarshalJSON returns the stored form of r.
func (r HookRequest) MarshalJSON() ([]byte, error) {
	s := storedRequest{Query: r.Query, Header: r.Header}
	if utf8.Valid(r.Body) {
		s.Body = string(r.Body)
	} else {
		s.BodyBase64 = r.Body
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads the stored form.
func (r *HookRequest) UnmarshalJSON(data []byte) error {
	var s storedRequest
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*r = HookRequest{Query: s.Query, Header: s.Header, Body: []byte(s.Body)}
	if len(s.BodyBase64) > 0 {
		r.Body = s.BodyBase64
	}
	return nil
}

// MaxRespond is the maximum duration for [RespondWith].
const MaxRespond = 30 * time.Second

// RespondWith opens a hook whose requests wait for a response by [OpenHook.Answer], for at most d
// after the payload was accepted. A request without a response by then is reported as accepted. d
// is more than 0 and at most MaxRespond, in whole milliseconds. Only hooks opened by workflow code
// can have this option. It is recorded when the hook is opened, and not compared by a replay.
func RespondWith(d time.Duration) HookOption { return func(o *hookOptions) { o.respond = &d } }

// KeepHeaders opens a hook of [HookRequest] that keeps these headers of requests in addition to
// Content-Type. The values are stored in the log of the run, so list only headers that the code
// reads, such as a signature. At most 32 headers are allowed, and Cookie is not.
func KeepHeaders(names ...string) HookOption {
	return func(o *hookOptions) { o.keep = append(o.keep, names...) }
}

// contentType is the header that every hook keeps.
const contentType = "Content-Type"

// maxHeaders is the maximum number of headers that a hook keeps.
const maxHeaders = 32

// hookWeb describes how a hook accepts requests. It is stored with the hook's description.
type hookWeb struct {
	RespondMs int64    `json:"respondMs,omitempty"`
	Request   bool     `json:"request,omitempty"`
	Keep      []string `json:"keep,omitempty"`
}

func (w hookWeb) respond() time.Duration { return time.Duration(w.RespondMs) * time.Millisecond }

// says reports whether there is something to store.
func (w hookWeb) says() bool { return w.RespondMs > 0 || w.Request }

// web returns how the hook accepts requests. The error is an *InvalidError.
func (o *hookOptions) web(hook string, request bool) (hookWeb, error) {
	w := hookWeb{Request: request, Keep: o.keep}
	if o.respond != nil {
		if w.RespondMs = o.respond.Milliseconds(); w.RespondMs < 1 || *o.respond > MaxRespond {
			return w, &InvalidError{What: "option RespondWith of hook " + hook, Value: o.respond.String(), Reason: fmt.Sprintf("is not between 1ms and %v", MaxRespond)}
		}
	}
	if len(o.keep) > 0 && !request {
		return w, &InvalidError{What: "option KeepHeaders of hook " + hook, Value: strings.Join(o.keep, ", "), Reason: "is for hooks of workflow.HookRequest: others take the body alone"}
	}
	if len(o.keep) > maxHeaders {
		return w, &InvalidError{What: "option KeepHeaders of hook " + hook, Value: fmt.Sprint(len(o.keep)), Reason: fmt.Sprintf("lists more than %d headers", maxHeaders)}
	}
	for _, name := range o.keep {
		if !headerName(name) || strings.EqualFold(name, "Cookie") {
			return w, &InvalidError{What: "option KeepHeaders of hook " + hook, Value: fmt.Sprintf("%.100q", name), Reason: "is no header that a hook can take: names have letters, digits, - and _"}
		}
	}
	return w, nil
}

// headerName reports whether name is a valid header name.
func headerName(name string) bool {
	return name != "" && len(name) <= store.MaxName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// payload returns the part of a request that the hook accepts. The error is a *PayloadError.
func (w hookWeb) payload(l *limits, hook string, r *HookRequest) ([]byte, error) {
	what := "payload of hook " + hook
	if w.Request {
		return l.encode(what, w.kept(r))
	}
	body := r.Body
	if len(body) == 0 {
		body = []byte("null")
	}
	if err := l.check(what, len(body), false); err != nil {
		return nil, err
	}
	if err := validJSON(body); err != nil {
		return nil, &PayloadError{What: what, Err: fmt.Errorf("the body is no JSON, and the hook takes nothing else: declare it as a hook of workflow.HookRequest: %w", err)}
	}
	return body, nil
}

// kept returns the request with only the headers that the hook keeps. It replaces invalid UTF-8 in
// parameters and headers, because JSON cannot represent it.
func (w hookWeb) kept(r *HookRequest) HookRequest {
	k := HookRequest{Body: r.Body}
	for name, values := range r.Query {
		if k.Query == nil {
			k.Query = map[string][]string{}
		}
		name = strings.ToValidUTF8(name, "\uFFFD")
		k.Query[name] = append(k.Query[name], valid(values)...)
	}
	for _, name := range append(slices.Clone(w.Keep), contentType) {
		for given, values := range r.Header {
			if !strings.EqualFold(given, name) {
				continue
			}
			if k.Header == nil {
				k.Header = map[string][]string{}
			}
			k.Header[name] = valid(values)
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
