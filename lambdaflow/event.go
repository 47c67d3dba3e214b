package lambdaflow

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// EventError reports an event that is not a request. AWS Lambda shows it as a function error of the
// type EventError.
type EventError struct {
	Reason string // what is wrong with the event, and the change that corrects it
}

func (e *EventError) Error() string { return "lambdaflow: unsupported event: " + e.Reason }

// event is a request to a function URL or to an HTTP API (payload format version 2.0), or a direct
// invocation. A direct invocation has only headers and a body.
type event struct {
	Version         string            `json:"version"`
	RawPath         string            `json:"rawPath"`
	RawQueryString  string            `json:"rawQueryString"`
	Cookies         []string          `json:"cookies"`
	Headers         map[string]string `json:"headers"`
	Body            *string           `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
	RequestContext  *struct {
		DomainName string `json:"domainName"`
		HTTP       struct {
			Method   string `json:"method"`
			SourceIP string `json:"sourceIp"`
		} `json:"http"`
	} `json:"requestContext"`
	HTTPMethod string `json:"httpMethod"` // payload format version 1.0, and load balancers
}

// check returns an EventError if e is not a request.
func (e *event) check() error {
	switch {
	case e.HTTPMethod != "":
		return &EventError{"its format is that of a REST API, of the payload format version 1.0 or of a load balancer: " +
			"use a function URL, or an HTTP API with the payload format version 2.0"}
	case e.RequestContext == nil && e.Version == "" && e.Headers != nil && e.Body != nil:
		return nil // direct
	case e.RequestContext != nil && e.RequestContext.HTTP.Method != "" && e.Version == "2.0":
		return nil
	}
	return &EventError{`it is neither a request to a function URL or an HTTP API (payload format version 2.0) nor a direct invocation, ` +
		`which has the form {"headers": {…}, "body": "…"}`}
}

// newRequest returns the request that an event contains.
func newRequest(ctx context.Context, payload []byte) (*http.Request, error) {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, &EventError{fmt.Sprintf("decode it: %v", err)}
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	method, host, from := http.MethodPost, "lambda", ""
	if c := e.RequestContext; c != nil {
		method, host, from = c.HTTP.Method, c.DomainName, c.HTTP.SourceIP
	}
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	at, err := url.ParseRequestURI(target(e.RawPath, e.RawQueryString))
	if err != nil {
		return nil, &EventError{fmt.Sprintf("parse its path: %v", err)}
	}
	at.Scheme, at.Host = "https", host
	r, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, &EventError{fmt.Sprintf("create a request: %v", err)}
	}
	r.RemoteAddr, r.RequestURI = from, at.RequestURI()
	for name, value := range e.Headers {
		r.Header.Add(name, value)
	}
	if len(e.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	if h := r.Header.Get("Host"); h != "" {
		r.Host = h
		r.Header.Del("Host")
	}
	return r, nil
}

func target(path, query string) string {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if query != "" {
		path += "?" + query
	}
	return path
}

func (e *event) body() ([]byte, error) {
	if e.Body == nil {
		return nil, nil
	}
	if !e.IsBase64Encoded {
		return []byte(*e.Body), nil
	}
	b, err := base64.StdEncoding.DecodeString(*e.Body)
	if err != nil {
		return nil, &EventError{fmt.Sprintf("decode its body: %v", err)}
	}
	return b, nil
}

// response is the result of an invocation. Function URLs and HTTP APIs answer the request with it.
type response struct {
	StatusCode      int               `json:"statusCode"`
	Headers         map[string]string `json:"headers"`
	Cookies         []string          `json:"cookies,omitempty"`
	Body            string            `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

// writer collects the answer of a handler.
type writer struct {
	status int // 0 until the header is written
	header http.Header
	sent   http.Header // a copy of header, when it was written
	body   bytes.Buffer
}

func (w *writer) Header() http.Header { return w.header }

func (w *writer) WriteHeader(status int) {
	if w.status != 0 || status < 200 { // the event has no place for an informational answer
		return
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *writer) response() *response {
	w.WriteHeader(http.StatusOK)
	if w.body.Len() > 0 && w.sent.Get("Content-Type") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	res := &response{StatusCode: w.status, Headers: map[string]string{}, Cookies: w.sent.Values("Set-Cookie")}
	w.sent.Del("Set-Cookie")
	for name, values := range w.sent {
		res.Headers[name] = strings.Join(values, ",")
	}
	if res.IsBase64Encoded = !utf8.Valid(w.body.Bytes()); res.IsBase64Encoded {
		res.Body = base64.StdEncoding.EncodeToString(w.body.Bytes())
	} else {
		res.Body = w.body.String()
	}
	return res
}
