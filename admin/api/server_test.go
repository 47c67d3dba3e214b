package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collect receives messages until it receives "stop", and returns their number. It writes each
// message to two streams.
var (
	collect = shim.NewWorkflow[workflow.None, int]("api.collect", "", shim.WorkflowPolicy{})
	hooked  = shim.NewWorkflow[workflow.None, int]("api.hooked", "", shim.WorkflowPolicy{}) // opens a hook and receives payloads
	called  = workflow.NewHook[int]("called")
	items   = workflow.NewTopic[string]("items")
	told    = workflow.NewStream[string]("told")
	newest  = workflow.NewStream[string]("newest", workflow.KeepLast(2))
	room    = limit.New("api.room", limit.Config{AtOnce: 1})
)

// server is the API of a memory store with a worker.
type server struct {
	*testing.T
	*httptest.Server
	store  *watchedStore
	direct *admin.Service
	run    string // ID of a run that waits for items
}

// watchedStore counts the reads of lists of runs of the workflow api.collect, and fails the export
// of one run.
type watchedStore struct {
	store.Store
	lists  atomic.Int64
	broken atomic.Value // contains the event.RunID of the run whose export fails
}

func (s *watchedStore) Unwrap() store.Store { return s.Store }

func (s *watchedStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	if q.Workflow == collect.Name() {
		s.lists.Add(1)
	}
	l, _ := store.As[store.Lister](s.Store)
	return l.List(ctx, q)
}

func (s *watchedStore) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	l, _ := store.As[store.Lister](s.Store)
	return l.Count(ctx, q)
}

func (s *watchedStore) Load(ctx context.Context, all []store.Load) ([]store.Loaded, error) {
	for _, l := range all {
		if l.Run == s.broken.Load() && l.Limit < 0 { // only an export loads the log with a negative limit
			return nil, errors.New("the store is gone")
		}
	}
	return s.Store.Load(ctx, all)
}

func serve(t *testing.T, cfg api.Config) *server {
	t.Helper()
	st := &watchedStore{Store: memstore.New()}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{})
	shim.BindWorkflow(w, hooked, func(ctx workflow.Context, _ workflow.None) (int, error) {
		g := graph.New()
		graph.AddNode(g, "hook", func(ctx workflow.Context) (workflow.None, error) {
			hook, err := called.Open(ctx)
			for err == nil {
				_, err = hook.Receive(ctx)
			}
			return workflow.None{}, err
		})
		return 0, g.Run(ctx)
	})
	shim.BindWorkflow(w, collect, func(ctx workflow.Context, _ workflow.None) (int, error) {
		for n := 0; ; n++ {
			item, err := items.Receive(ctx)
			if err != nil || item == "stop" {
				return n, err
			}
			told.Write(ctx, item)
			newest.Write(ctx, item)
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s := &server{T: t, store: st, direct: admin.New(client)}
	s.Server = httptest.NewServer(api.New(s.direct, cfg))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	got, err := s.direct.Start(t.Context(), admin.Start{Workflow: "api.collect", ID: "of-the-test"})
	if err != nil {
		t.Fatal(err)
	}
	s.run = got.Run
	return s
}

// send sends an item to the run.
func (s *server) send(item string) {
	s.Helper()
	if _, err := s.direct.Send(s.Context(), s.run, "items", admin.Message{Payload: admin.Payload(`"` + item + `"`)}); err != nil {
		s.Fatal(err)
	}
}

// got is a response.
type got struct {
	status  int
	header  http.Header
	body    string
	problem admin.Problem // the problem, if the response contains one
}

// ask sends a request. header contains lines such as "Name: value".
func (s *server) ask(method, path, body string, header ...string) got {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Host":
			r.Host = value
		case "Content-Type":
			r.Header.Set(name, value)
		default:
			r.Header.Add(name, value)
		}
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	return s.read(answer)
}

func (s *server) read(answer *http.Response) got {
	s.Helper()
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	g := got{status: answer.StatusCode, header: answer.Header, body: string(b)}
	if answer.StatusCode < 400 {
		return g
	}
	if err := json.Unmarshal(b, &g.problem); err != nil || g.problem.Status != answer.StatusCode || g.problem.Code == "" || answer.Header.Get("Content-Type") != "application/problem+json" {
		s.Errorf("the answer %d is no problem: %s, %v", answer.StatusCode, b, err)
	}
	return g
}

// raw sends bytes that package net/http would not send, and reads the response.
func (s *server) raw(request string) got {
	s.Helper()
	conn := s.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		s.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.Fatal(err)
	}
	return s.read(answer)
}

// dial opens a connection with a deadline.
func (s *server) dial() net.Conn {
	s.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(time.Minute))
	}
	if err != nil {
		s.Fatal(err)
	}
	return conn
}

// wants reports a response with another status or code.
func (s *server) wants(what string, g got, status int, code string) {
	s.Helper()
	if g.status != status || g.problem.Code != code || code != "" && (g.problem.Detail == "" || g.problem.Fix == "" && code != admin.CodeNotFound && code != admin.CodeRefused) {
		s.Errorf("%s: got %d %s, want %d %q", what, g.status, g.body, status, code)
	}
}
