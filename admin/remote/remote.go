// Package remote is a client of the HTTP API of package admin/api. Its [Service] has the operations
// of an [admin.Service] and returns the results and problems of the server:
//
//	service, err := remote.New("https://flows.example.com", remote.Config{Token: token})
//	run, err := service.Run(ctx, "id:order-4711")
//
// If the connection fails while a Service follows a run, the Service reconnects and continues after
// the last event that it received.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/loopback"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Config configures a Service. The zero value is for a server on the same machine.
type Config struct {
	// Token is the bearer token; empty means none.
	Token string
	// Client sends the requests; nil means http.DefaultClient. If Client has a Timeout, it also
	// ends each Follow.
	Client *http.Client
	// Silence is the time without data after which Follow replaces its connection; 0 means 1
	// minute. It must be longer than api.Config.KeepAlive of the server.
	Silence time.Duration
}

// Service has the operations of an [admin.Service] and executes them on a server.
type Service struct {
	base string
	cfg  Config
}

// New returns a service that uses the server at a URL, such as https://flows.example.com. If the
// API is mounted elsewhere, the URL contains the path before /v1. The service sends a token only
// over https or to the same machine.
func New(base string, cfg Config) (*Service, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &admin.InputError{What: "the URL of the server is not valid", Fix: "give one as https://flows.example.com, without a user and a query"}
	}
	if cfg.Token != "" && u.Scheme == "http" && !loopback.Host(u.Host) {
		return nil, &admin.InputError{What: "a token would be sent unencrypted", Fix: "use https"}
	}
	if strings.ContainsFunc(cfg.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, &admin.InputError{What: "the token has characters that are not allowed in tokens", Fix: "give it without spaces and line ends"}
	}
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	if cfg.Silence == 0 {
		cfg.Silence = time.Minute
	}
	return &Service{base: strings.TrimSuffix(base, "/"), cfg: cfg}, nil
}

// call is one request.
type call struct {
	route  *route.Route
	path   []string // values of the names in the path of the route
	query  url.Values
	body   any // JSON body of the request; nil if there is none
	key    string
	prefer time.Duration
	last   string // ID of the last message received; empty if there is none
}

// send sends a request, and returns the response if it is not a problem. The caller must close the
// body of the response.
func (s *Service) send(ctx context.Context, c call) (*http.Response, error) {
	at, err := c.route.URL(c.path...)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if c.body != nil {
		if err := checkText(reflect.ValueOf(c.body)); err != nil {
			return nil, err
		}
		b, err := json.Marshal(c.body)
		if err != nil {
			return nil, &admin.InputError{What: "the request is not JSON: " + err.Error(), Fix: "give payloads as JSON"}
		}
		body = bytes.NewReader(b)
	}
	target := s.base + at
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, c.route.Method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Idempotency-Key", c.key)
	}
	if c.prefer > 0 {
		r.Header.Set("Prefer", fmt.Sprintf("wait=%d", c.prefer/time.Second))
	}
	if c.last != "" {
		r.Header.Set("Last-Event-ID", c.last)
	}
	if s.cfg.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.cfg.Token)
	}
	answer, err := s.cfg.Client.Do(r)
	if err != nil {
		return nil, err // the error names the method and the URL
	}
	if answer.StatusCode == c.route.Status || c.route.Other != 0 && answer.StatusCode == c.route.Other {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, problem(answer)
}

// maxProblem is the maximum size of a problem that is read, in bytes.
const maxProblem = 1 << 20

// problem returns the problem in a response. A response of a proxy may have another form; problem
// converts it to a problem.
func problem(answer *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	p := &admin.Problem{}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); err == nil && kind == "application/problem+json" && json.Unmarshal(b, p) == nil && p.Code != "" {
		return p
	}
	return admin.NewProblem(admin.CodeFailed, "the server has answered "+answer.Status, "is this the URL of the API?")
}

// get sends a request and decodes the JSON response.
func get[T any](ctx context.Context, s *Service, c call) (T, error) {
	var v T
	answer, err := s.send(ctx, c)
	if err != nil {
		return v, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		return v, fmt.Errorf("read the answer of %s: %w", c.route.Name, err)
	}
	return v, nil
}

// checkText returns an error if a struct contains text that JSON cannot represent.
func checkText(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return &admin.InputError{What: fmt.Sprintf("%.60q is not UTF-8", v.String()), Fix: "give text in UTF-8"}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			for i := range v.Len() {
				if err := checkText(v.Index(i)); err != nil {
					return err
				}
			}
		}
	case reflect.Map:
		for name, value := range v.Seq2() {
			if err := errors.Join(checkText(name), checkText(value)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			if err := checkText(field); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs calls [admin.Service.Runs] on the server.
func (s *Service) Runs(ctx context.Context, f admin.Filter) (admin.RunPage, error) {
	return get[admin.RunPage](ctx, s, call{route: route.Runs, query: route.FilterQuery(f)})
}

// Count calls [admin.Service.Count] on the server.
func (s *Service) Count(ctx context.Context, f admin.Filter) (admin.Counts, error) {
	return get[admin.Counts](ctx, s, call{route: route.Count, query: route.FilterQuery(f)})
}

// Failures calls [admin.Service.Failures] on the server.
func (s *Service) Failures(ctx context.Context, f admin.FailureFilter) (admin.FailurePage, error) {
	return get[admin.FailurePage](ctx, s, call{route: route.Failures, query: route.FailureQuery(f)})
}

// Workers calls [admin.Service.Workers] on the server.
func (s *Service) Workers(ctx context.Context, f admin.FleetFilter) (admin.WorkerPage, error) {
	return get[admin.WorkerPage](ctx, s, call{route: route.Workers, query: route.FleetQuery(f)})
}

// Queues calls [admin.Service.Queues] on the server.
func (s *Service) Queues(ctx context.Context, f admin.FleetFilter) (admin.QueuePage, error) {
	return get[admin.QueuePage](ctx, s, call{route: route.Queues, query: route.FleetQuery(f)})
}

// Depth calls [admin.Service.Depth] on the server.
func (s *Service) Depth(ctx context.Context, queue string) (admin.Depth, error) {
	return get[admin.Depth](ctx, s, call{route: route.Depth, path: []string{queue}})
}

// Rates calls [admin.Service.Rates] on the server.
func (s *Service) Rates(ctx context.Context) (admin.Rates, error) {
	return get[admin.Rates](ctx, s, call{route: route.Rates})
}

// Run calls [admin.Service.Run] on the server.
func (s *Service) Run(ctx context.Context, ref string) (admin.Run, error) {
	return get[admin.Run](ctx, s, call{route: route.Run, path: []string{ref}})
}

// Events calls [admin.Service.Events] on the server.
func (s *Service) Events(ctx context.Context, ref string, from uint64, limit int) (admin.EventPage, error) {
	return get[admin.EventPage](ctx, s, call{route: route.Events, path: []string{ref}, query: route.PageQuery(from, limit)})
}

// Entities calls [admin.Service.Entities] on the server.
func (s *Service) Entities(ctx context.Context, ref string, f admin.EntityFilter) (admin.EntityPage, error) {
	return get[admin.EntityPage](ctx, s, call{route: route.Entities, path: []string{ref}, query: route.EntityQuery(f)})
}

// Inbox calls [admin.Service.Inbox] on the server.
func (s *Service) Inbox(ctx context.Context, ref string) (admin.Inbox, error) {
	return get[admin.Inbox](ctx, s, call{route: route.Inbox, path: []string{ref}})
}

// Graph calls [admin.Service.Graph] on the server.
func (s *Service) Graph(ctx context.Context, ref, path string) (admin.Graph, error) {
	return get[admin.Graph](ctx, s, call{route: route.Graph, path: []string{ref}, query: route.GraphQuery(path)})
}

// Tree calls [admin.Service.Tree] on the server.
func (s *Service) Tree(ctx context.Context, ref string) (admin.Tree, error) {
	return get[admin.Tree](ctx, s, call{route: route.Tree, path: []string{ref}})
}

// Start calls [admin.Service.Start] on the server.
func (s *Service) Start(ctx context.Context, in admin.Start) (admin.Started, error) {
	got, err := get[route.Started](ctx, s, call{route: route.Start, body: in, key: in.Key})
	return got.Started, err
}

// Act calls [admin.Service.Act] on the server.
func (s *Service) Act(ctx context.Context, ref string, a admin.Action) (admin.Acted, error) {
	return get[admin.Acted](ctx, s, call{route: route.Action, path: []string{ref, a.Verb}, body: route.Act{Reason: a.Reason, Step: a.Step}, key: a.Key})
}

// Send calls [admin.Service.Send] on the server.
func (s *Service) Send(ctx context.Context, ref, topic string, m admin.Message) (admin.Sent, error) {
	return get[admin.Sent](ctx, s, call{route: route.Send, path: []string{ref, topic}, body: m, key: m.Key})
}

// Journal calls [admin.Service.Journal] on the server.
func (s *Service) Journal(ctx context.Context, f admin.JournalFilter) (admin.JournalPage, error) {
	return get[admin.JournalPage](ctx, s, call{route: route.Journal, query: route.JournalQuery(f)})
}

// Value calls [admin.Service.Value] on the server.
func (s *Service) Value(ctx context.Context, ref, name string) (admin.Value, error) {
	return get[admin.Value](ctx, s, call{route: route.Value, path: []string{ref, name}})
}
