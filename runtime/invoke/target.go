package invoke

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Target is a function that a dispatcher calls.
type Target struct {
	// URL is the address of a [Handler], with the scheme http or https. The secret is not sent, so
	// http is safe against forgery. It shows the IDs of runs to the network.
	URL string
	// Secret is one of the secrets of the handler.
	Secret []byte
	// Concurrency bounds how many runs the target executes at once on behalf of this dispatcher. The
	// default is 64.
	Concurrency int
	// Header is added to each request, for example for the authentication of a platform. It must not
	// contain the headers of this package.
	Header http.Header
}

// TargetError reports a target that a dispatcher cannot use.
type TargetError struct {
	URL string
	Err error
}

func (e *TargetError) Error() string { return fmt.Sprintf("invoke: target %q: %v", e.URL, e.Err) }
func (e *TargetError) Unwrap() error { return e.Err }

// check returns a *TargetError if the target is not valid.
func (t *Target) check() error {
	fail := func(format string, args ...any) error {
		return &TargetError{t.URL, fmt.Errorf(format, args...)}
	}
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // the rest is the URL, which may contain a password
		}
		return &TargetError{t.URL[strings.LastIndexByte(t.URL, '@')+1:], fmt.Errorf("%w: use a URL such as https://orders.example.com/", err)}
	case u.Scheme != "http" && u.Scheme != "https":
		return fail("the scheme is %q: use http or https", u.Scheme)
	case u.Hostname() == "":
		return fail("it names no host")
	case u.User != nil:
		return &TargetError{u.Redacted(), errors.New("it contains credentials: set Target.Header instead")}
	case u.Fragment != "":
		return fail("it has a fragment, which is not sent")
	case len(t.Secret) < minSecret:
		return fail("its secret has %d bytes: it must have at least %d", len(t.Secret), minSecret)
	case t.Concurrency < 0:
		return fail("its concurrency %d is negative", t.Concurrency)
	}
	for name := range t.Header {
		switch http.CanonicalHeaderKey(name) {
		case HeaderTime, HeaderNonce, HeaderSignature, "Content-Type", "Content-Length":
			return fail("Header sets %s, which the dispatcher sets itself", name)
		}
	}
	return nil
}

// answerMost bounds the size of an answer. The routes of a function with thousands of workflows fit.
const answerMost = 1 << 20

// call sends a request and returns the answer of the function. The error is an *Error. If the request
// may have reached the function, its run may have been executed.
func (t *Target) call(ctx context.Context, client *http.Client, run event.RunID) (Answer, error) {
	body, err := json.Marshal(ask{Run: run})
	if err != nil {
		return Answer{}, &Error{Code: CodeMalformed, Message: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{}, &Error{Code: CodeUnreachable, Message: err.Error()}
	}
	for name, values := range t.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	Sign(req.Header, t.Secret, time.Now(), string(run), body)
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, &Error{Code: CodeUnreachable, Message: err.Error()}
	}
	defer func() { _ = resp.Body.Close() }()
	return t.read(resp)
}

// read reads an answer. It must be a JSON object of bounded size with a known status.
func (t *Target) read(resp *http.Response) (Answer, error) {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return Answer{}, &Error{Code: CodeRedirect, Message: fmt.Sprintf("it redirects to %q", resp.Header.Get("Location")), Fix: "configure the address of the function itself"}
	}
	garbage := func(format string, args ...any) error {
		return &Error{Code: CodeNotFunction, Message: fmt.Sprintf("status %d: ", resp.StatusCode) + fmt.Sprintf(format, args...), Fix: "check that the URL is that of an invoke.Handler"}
	}
	if m, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || m != "application/json" {
		return Answer{}, garbage("the content type is %q", resp.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMost+1))
	switch {
	case err != nil:
		return Answer{}, &Error{Code: CodeUnreachable, Message: "read the answer: " + err.Error()}
	case len(body) > answerMost:
		return Answer{}, garbage("the answer is larger than %d bytes", answerMost)
	}
	var got struct {
		Answer
		Error *Error `json:"error"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return Answer{}, garbage("%v", err)
	}
	switch {
	case got.Error != nil && got.Error.Code != "" && resp.StatusCode >= 400:
		e := got.Error
		return Answer{}, &Error{Code: cut(e.Code, 64), Message: cut(e.Message, textMost), Fix: cut(e.Fix, textMost)}
	case resp.StatusCode != http.StatusOK:
		return Answer{}, garbage("the answer contains no error")
	}
	switch got.Status {
	case StatusDone, StatusParked, StatusYielded, StatusAnnounced:
		return got.Answer, nil
	}
	return Answer{}, garbage("the answer has the status %q", got.Status)
}

// textMost bounds the length of texts of a function that a dispatcher logs, in bytes.
const textMost = 1 << 10

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// announced is a valid announcement of a function.
type announced struct {
	routes      []store.Route
	fingerprint string
	build       string
	budget      time.Duration
}

// announce reads what the function serves.
func (t *Target) announce(ctx context.Context, client *http.Client) (announced, error) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	a, err := t.call(ctx, client, "")
	if err != nil {
		return announced{}, err
	}
	budget, err := time.ParseDuration(a.Budget)
	if a.Status != StatusAnnounced || err != nil || budget <= 0 || len(a.Routes) == 0 {
		return announced{}, &Error{Code: CodeNotFunction, Message: "its announcement has no routes or no budget"}
	}
	for _, c := range a.Routes {
		if err := cmp.Or(store.CheckName("queue", c.Queue), store.CheckName("workflow", c.Workflow)); err != nil {
			return announced{}, &Error{Code: CodeInvalidRoute, Message: err.Error()}
		}
	}
	return announced{a.Routes, a.Fingerprint, a.Build, budget}, nil
}

// announceTime bounds a request to announce a function. It includes the start of a process.
const announceTime = 30 * time.Second
