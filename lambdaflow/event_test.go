package lambdaflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/lambdaflow"
)

// seen contains the parts of a request that a handler has received.
type seen struct {
	Method, URI, Host, From, Body, Cookie string
	Signature, Type                       []string
	Length                                int64
}

// pass passes an event to a handler that records its request, and returns the record.
func pass(t *testing.T, event any) (seen, error) {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	_, err = lambdaflow.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s = seen{r.Method, r.RequestURI, r.Host, r.RemoteAddr, string(body), r.Header.Get("Cookie"), r.Header.Values("X-Signature"), r.Header.Values("Content-Type"), r.ContentLength}
	})).Invoke(t.Context(), payload)
	return s, err
}

func TestWrap_RequestsHaveWhatTheirEventsHave(t *testing.T) {
	headers := map[string]string{"host": "f.example", "x-signature": "s1", "content-type": "application/json"}
	url := events.LambdaFunctionURLRequest{
		Version: "2.0", RawPath: "/a%2Fb", RawQueryString: "q=1%202", Cookies: []string{"a=1", "b=2"}, Headers: headers, Body: `{"run":"r"}`,
		RequestContext: events.LambdaFunctionURLRequestContext{
			DomainName: "f.lambda-url.example", HTTP: events.LambdaFunctionURLRequestContextHTTPDescription{Method: "PUT", SourceIP: "192.0.2.7"},
		},
	}
	encoded := url
	encoded.Body, encoded.IsBase64Encoded = "AP8=", true
	tests := map[string]struct {
		event any
		want  seen
	}{
		"function URL":    {url, seen{"PUT", "/a%2Fb?q=1%202", "f.example", "192.0.2.7", `{"run":"r"}`, "a=1; b=2", []string{"s1"}, []string{"application/json"}, 11}},
		"encoded body":    {encoded, seen{"PUT", "/a%2Fb?q=1%202", "f.example", "192.0.2.7", "\x00\xff", "a=1; b=2", []string{"s1"}, []string{"application/json"}, 2}},
		"HTTP API":        {events.APIGatewayV2HTTPRequest{Version: "2.0", RouteKey: "$default", RawPath: "/x", Headers: headers, Body: "b", RequestContext: events.APIGatewayV2HTTPRequestContext{DomainName: "d.example", HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: "POST", SourceIP: "192.0.2.8"}}}, seen{"POST", "/x", "f.example", "192.0.2.8", "b", "", []string{"s1"}, []string{"application/json"}, 1}},
		"direct":          {map[string]any{"headers": headers, "body": "b"}, seen{"POST", "/", "f.example", "", "b", "", []string{"s1"}, []string{"application/json"}, 1}},
		"direct, no host": {map[string]any{"headers": map[string]string{}, "body": ""}, seen{"POST", "/", "lambda", "", "", "", nil, nil, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pass(t, tt.event)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the request differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrap_RefusesEventsThatAreNoRequests(t *testing.T) {
	tests := map[string]struct {
		event any
		want  string
	}{
		"REST API":       {events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/", Headers: map[string]string{}, Body: "b"}, "payload format version 2.0"},
		"load balancer":  {events.ALBTargetGroupRequest{HTTPMethod: "POST", Path: "/", Headers: map[string]string{}, Body: "b"}, "load balancer"},
		"queue":          {events.SQSEvent{Records: []events.SQSMessage{{Body: "b"}}}, "direct invocation"},
		"nothing":        {map[string]any{}, `{"headers": {…}, "body": "…"}`},
		"no headers":     {map[string]any{"body": "b"}, "direct invocation"},
		"no body":        {map[string]any{"headers": map[string]string{}}, "direct invocation"},
		"list":           {[]int{1}, "decode it"},
		"string":         {"x", "decode it"},
		"bad body":       {map[string]any{"headers": map[string]string{}, "body": "%%", "isBase64Encoded": true}, "decode its body"},
		"bad path":       {map[string]any{"version": "2.0", "rawPath": "/%zz", "requestContext": map[string]any{"http": map[string]any{"method": "GET"}}}, "parse its path"},
		"bad method":     {map[string]any{"version": "2.0", "rawPath": "/", "requestContext": map[string]any{"http": map[string]any{"method": "G T"}}}, "create a request"},
		"foreign format": {map[string]any{"version": "3.0", "rawPath": "/", "requestContext": map[string]any{"http": map[string]any{"method": "GET"}}}, "payload format version 2.0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := pass(t, tt.event)
			var refused *lambdaflow.EventError
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("got error %v, want an EventError about %q", err, tt.want)
			}
			if diff := cmp.Diff(seen{}, got); diff != "" {
				t.Errorf("the handler was called with\n%s", diff)
			}
		})
	}
}

func TestWrap_AnswersAsTheHandlerDoes(t *testing.T) {
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"nothing": {func(http.ResponseWriter, *http.Request) {}, `{"statusCode":200,"headers":{},"body":"","isBase64Encoded":false}`},
		"json": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			w.Header().Set("X-Late", "1")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"a":`)
			_, _ = io.WriteString(w, `"<ü>"}`)
		}, `{"statusCode":409,"headers":{"Content-Type":"application/json"},"body":"{\"a\":\"<ü>\"}","isBase64Encoded":false}`},
		"bytes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte{0, 0xff})
		}, `{"statusCode":200,"headers":{"Content-Type":"application/octet-stream"},"body":"AP8=","isBase64Encoded":true}`},
		"type and values": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("X-V", "1")
			w.Header().Add("X-V", "2")
			http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
			http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "text")
		}, `{"statusCode":200,"headers":{"Content-Type":"text/plain; charset=utf-8","X-V":"1,2"},"cookies":["a=1","b=2"],"body":"text","isBase64Encoded":false}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := lambdaflow.Wrap(tt.handler).Invoke(t.Context(), []byte(`{"headers":{},"body":""}`))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.TrimSpace(string(got))); diff != "" {
				t.Errorf("the answer differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrap_RequestsEndAtTheDeadlineOfTheInvocation(t *testing.T) {
	want := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), want)
	defer cancel()
	var got time.Time
	h := lambdaflow.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = r.Context().Deadline() }))
	if _, err := h.Invoke(ctx, []byte(`{"headers":{},"body":""}`)); err != nil || !got.Equal(want) {
		t.Errorf("the deadline of the request is %v, error %v; want %v", got, err, want)
	}
}
