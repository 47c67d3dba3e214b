package invoke_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// registers returns a function that registers the code of the bindings.
func registers(bindings ...flowtest.Binding) func(workflow.Registrar) {
	return func(r workflow.Registrar) {
		for _, b := range bindings {
			b(r)
		}
	}
}

// handler returns a handler on the client of the world.
func handler(w *flowtest.World, cfg invoke.Config, bindings ...flowtest.Binding) http.Handler {
	w.T.Helper()
	cfg.Secrets = [][]byte{secret}
	h, err := invoke.Handler(w.Client, registers(bindings...), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// function serves a handler until the end of the test.
func function(w *flowtest.World, cfg invoke.Config, bindings ...flowtest.Binding) *httptest.Server {
	w.T.Helper()
	s := httptest.NewServer(handler(w, cfg, bindings...))
	w.T.Cleanup(s.Close)
	return s
}

// dispatch runs a dispatcher for the given functions until the end of the test.
func dispatch(w *flowtest.World, urls ...string) (stop func()) {
	w.T.Helper()
	var cfg invoke.DispatcherConfig
	for _, u := range urls {
		cfg.Targets = append(cfg.Targets, invoke.Target{URL: u, Secret: secret})
	}
	d, err := invoke.NewDispatcher(w.Client, cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.T.Errorf("Run of the dispatcher returned %v", err)
			}
		case <-time.After(flowtest.Patience):
			w.T.Error("the dispatcher did not stop")
		}
	}
	w.T.Cleanup(stop)
	return stop
}

// answer is what a handler answers.
type answer struct {
	invoke.Answer
	Error  *invoke.Error `json:"error"`
	status int
}

func (a answer) code() string {
	if a.Error == nil {
		return ""
	}
	return a.Error.Code
}

// request returns a signed request for a run.
func request(t *testing.T, run event.RunID) *http.Request {
	t.Helper()
	body := fmt.Appendf(nil, `{"run":%q}`, run)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	invoke.Sign(r.Header, secret, time.Now(), string(run), body)
	return r
}

// ask sends a signed request for a run to a handler.
func ask(t *testing.T, h http.Handler, run event.RunID) answer {
	t.Helper()
	return send(t, h, request(t, run))
}

func send(t *testing.T, h http.Handler, r *http.Request) (a answer) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q, want JSON", got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("answer %q: %v", w.Body, err)
	}
	a.status = w.Code
	return a
}
