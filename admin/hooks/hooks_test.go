package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

type payment struct {
	Cents int64 `json:"cents"`
}

// take opens three hooks that respond differently, and ends after a message.
var (
	take    = shim.NewWorkflow[workflow.None, []int64]("hooks.take", "", shim.WorkflowPolicy{})
	paid    = workflow.NewHook[payment]("paid")
	priced  = workflow.NewHook[payment]("priced")
	raw     = workflow.NewHook[workflow.HookRequest]("raw")
	tokens  = workflow.NewValue[map[string]string]("tokens")
	command = workflow.NewTopic[string]("command")
)

// taken receives payloads from three hooks. It does not respond to paid, responds to priced with
// twice the amount, and responds to raw with the request.
func taken(ctx workflow.Context, _ workflow.None) (all []int64, err error) {
	p, err := paid.Open(ctx)
	if err != nil {
		return nil, err
	}
	d, err := priced.Open(ctx, workflow.RespondWith(10*time.Second))
	if err != nil {
		return nil, err
	}
	r, err := raw.Open(ctx, workflow.RespondWith(10*time.Second), workflow.KeepHeaders("X-Signature"))
	if err != nil {
		return nil, err
	}
	closed, err := paid.Open(ctx, workflow.Token("order-closed"))
	if err != nil {
		return nil, err
	}
	closed.Dispose(ctx)
	tokens.Set(ctx, map[string]string{"paid": p.Token(), "priced": d.Token(), "raw": r.Token()})
	pc, dc, rc, cc := p.Case(), d.Case(), r.Case(), command.Case()
	for {
		won, err := workflow.Select(ctx, pc, dc, rc, cc)
		if err != nil {
			return nil, err
		}
		switch won {
		case pc:
			all = append(all, pc.Value().Cents)
		case dc:
			all = append(all, dc.Value().Cents)
			err = d.Answer(ctx, payment{2 * dc.Value().Cents})
		case rc:
			err = r.Answer(ctx, echo(rc.Value()))
		case cc:
			if cc.Value() == "dispose" {
				p.Dispose(ctx)
				d.Dispose(ctx)
				_, err = command.Receive(ctx)
			}
			return all, err
		}
		if err != nil {
			return nil, err
		}
	}
}

// echo responds with the request. The response includes headers that an attacker wants to set.
func echo(r workflow.HookRequest) workflow.HookResponse {
	return workflow.HookResponse{
		Status: http.StatusTeapot, Header: map[string]string{"content-type": "text/html", "X-Content-Type-Options": "sniff", "X-Got": strings.Join(r.Header["X-Signature"], "|") + " " + strings.Join(r.Query["q"], "|")},
		Body: r.Body,
	}
}

// scene is the endpoint of a store, and a worker.
type scene struct {
	*testing.T
	*httptest.Server
	client *workflow.Client
	run    *workflow.Run[[]int64]
	tokens map[string]string
}

func newScene(t *testing.T, st store.Store, cfg hooks.Config) *scene {
	t.Helper()
	quiet := workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)}
	c, serving := workflow.NewClient(st, quiet), workflow.NewClient(st, quiet) // the endpoint uses a client of its own
	s := &scene{T: t, Server: httptest.NewServer(hooks.New(serving, cfg)), client: c}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := worker.New(c, worker.Config{})
		shim.BindWorkflow(w, take, taken)
		shim.BindWorkflow(w, late, answersLate)
		_ = w.Run(ctx)
	}()
	t.Cleanup(func() { s.Close(); stop(); <-done; c.Close(); serving.Close() })
	var err error
	if s.run, err = take.Start(t.Context(), c, workflow.None{}); err != nil {
		t.Fatal(err)
	}
	if s.tokens, err = tokens.Wait(t.Context(), s.run); err != nil {
		t.Fatal(err)
	}
	return s
}

// onEach runs a test on each store.
func onEach(t *testing.T, cfg hooks.Config, test func(s *scene)) {
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memstore.New(), nil },
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
		},
		"redis": func(t *testing.T) (store.Store, error) { return redisstore.Open(redistest.Start(t).URL()) },
	} {
		t.Run(name, func(t *testing.T) {
			st, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			test(newScene(t, st, cfg))
		})
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// post sends a request. head alternates names and values of headers.
func (s *scene) post(path, body string, head ...string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Add(head[i], head[i+1])
	}
	return s.send(r)
}

func (s *scene) send(r *http.Request) answer {
	s.Helper()
	got, err := s.Server.Client().Do(r)
	if err != nil {
		s.Error(err)
		return answer{}
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		s.Error(err)
	}
	if got.StatusCode == http.StatusRequestHeaderFieldsTooLarge { // the server refuses the request before it calls the handler
		return answer{status: got.StatusCode}
	}
	if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "sandbox") {
		s.Errorf("%s %s: the header is %v", r.Method, r.URL, got.Header)
	}
	return answer{got.StatusCode, got.Header, string(data)}
}

// log returns the events of a type in the log of the run.
func (s *scene) log(typ event.Type) []event.Event {
	s.Helper()
	return logOf(s.T, s.run, typ)
}

func (s *scene) end() []int64 {
	s.Helper()
	if err := command.Send(s.Context(), s.run, "end"); err != nil {
		s.Fatal(err)
	}
	all, err := s.run.Result(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return all
}

func TestOPS3_AHookIsAcceptedOrAnsweredByHTTP(t *testing.T) {
	onEach(t, hooks.Config{}, func(s *scene) {
		if got := s.post("/hooks/"+s.tokens["paid"], `{"cents":9223372036854775807}`, "Idempotency-Key", "a"); got.status != 202 || got.body != "{\"accepted\":true}\n" {
			s.Errorf("got %+v", got)
		}
		got := s.post("/hooks/"+s.tokens["priced"], `{"cents":21}`)
		if got.status != 200 || got.body != `{"cents":42}` || got.header.Get("Content-Type") != "application/json" {
			s.Errorf("got %+v", got)
		}
		got = s.post("/hooks/"+s.tokens["raw"]+"?q=1&q=2", "<script>\xff", "X-Signature", "s", "X-Other", "o")
		if got.status != 418 || got.body != "<script>\xff" || got.header.Get("X-Got") != "s 1|2" || got.header.Get("Content-Type") != "text/html" {
			s.Errorf("got %+v", got)
		}
		if diff := cmp.Diff([]int64{9223372036854775807, 21}, s.end()); diff != "" {
			s.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestOPS3_AReplayedHookIsAcceptedOnceWhoeverSendsIt(t *testing.T) {
	onEach(t, hooks.Config{Rate: 1000}, func(s *scene) {
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for n := range 3 {
					key := fmt.Sprint("key-", n)
					if got := s.post("/hooks/"+s.tokens["priced"], fmt.Sprintf(`{"cents":%d}`, n), "Idempotency-Key", key); got.status != 200 || got.body != fmt.Sprintf(`{"cents":%d}`, 2*n) {
						s.Errorf("%s: got %+v", key, got)
					}
					if got := s.post("/hooks/"+s.tokens["paid"], fmt.Sprintf(`{"cents":%d}`, 10+n), "Idempotency-Key", key); got.status != 202 {
						s.Errorf("%s: got %+v", key, got)
					}
				}
			})
		}
		clients.Wait()
		if got := s.post("/hooks/"+s.tokens["paid"], `{"cents":10}`, "Idempotency-Key", "another"); got.status != 202 {
			s.Errorf("another key: got %+v", got)
		}
		if all := s.end(); len(all) != 7 {
			s.Errorf("the run has taken %v, want 7 payloads", all)
		}
		if got := s.post("/hooks/"+s.tokens["priced"], `{"cents":7}`, "Idempotency-Key", "key-1"); got.status != 200 || got.body != `{"cents":2}` {
			s.Errorf("again after the run has ended: got %+v", got)
		}
		if n := len(s.log(event.HookReceived)); n != 7 {
			s.Errorf("the log has %d payloads, want 7", n)
		}
	})
}

func TestOPS3_TokensThatLeadNowhereHaveTheSameAnswer(t *testing.T) {
	onEach(t, hooks.Config{}, func(s *scene) {
		if err := command.Send(s.Context(), s.run, "dispose"); err != nil {
			s.Fatal(err)
		}
		for len(s.log(event.HookDisposed)) < 3 { // waits until the hooks closed, paid and priced are closed
			if s.Context().Err() != nil {
				s.Fatal("the hooks were not closed")
			}
		}
		paid, other := s.tokens["paid"], "A"
		if strings.HasSuffix(paid, other) {
			other = "Q"
		}
		var first *answer
		for what, path := range map[string]string{
			"disposed": paid, "disposed, of its own": "order-closed", "another secret": paid[:len(paid)-1] + other, "cut": paid[:len(paid)-1], "the run": string(s.run.ID()),
			"a word": "order-7", "long": strings.Repeat("x", 500), "longer": strings.Repeat("x", 5000), "zero": "a%00b", "no UTF-8": "%ff", "an escape": "%1b[31m", "nothing": "",
			"dots": "..", "escaped dots": "%2e%2e", "a slash": paid + "/", "an escaped slash": "..%2f" + paid, "two": paid + "//", "below": "x/../" + paid, "an empty part": "/" + paid,
		} {
			for _, body := range []string{`{"cents":1}`, `{"cents":"x"}`, `{`, ``} {
				began := time.Now()
				r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.URL+"/hooks/", strings.NewReader(body))
				if err != nil {
					s.Fatal(err)
				}
				r.URL.Opaque = "//" + r.URL.Host + "/hooks/" + path
				got := s.send(r)
				got.header.Del("Date")
				if first == nil {
					first = &got
				}
				if diff := cmp.Diff(first, &got, cmp.AllowUnexported(answer{})); got.status != 404 || diff != "" || !strings.Contains(got.body, "there is no open hook with this token") {
					s.Errorf("%s, %q: got %+v (-first +this):\n%s", what, body, got, diff)
				}
				if took := time.Since(began); took < 100*time.Millisecond {
					s.Errorf("%s: the answer took %v, which tells that nothing was looked at", what, took)
				}
			}
		}
	})
}

func TestOPS3_WhatCannotBeAPayloadIsRefused(t *testing.T) {
	s := newScene(t, memstore.New(), hooks.Config{Rate: 1000, BodyTime: time.Second})
	at := "/hooks/" + s.tokens["paid"]
	refused := func(what string, got answer, status int) {
		s.Helper()
		var p admin.Problem
		if err := json.Unmarshal([]byte(got.body), &p); got.status != status || err != nil || p.Status != status || p.Detail == "" {
			s.Errorf("%s: got %d %s, want %d", what, got.status, got.body, status)
		}
	}
	refused("too large", s.post(at, `"`+strings.Repeat("x", workflow.DefaultMaxPayload+64<<10)+`"`), 413)
	refused("above the limit of payloads", s.post(at, `"`+strings.Repeat("x", workflow.DefaultMaxPayload)+`"`), 413)
	refused("deep", s.post(at, strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)), 400)
	refused("a name twice", s.post(at, `{"cents":1,"cents":2}`), 400)
	refused("no JSON", s.post(at, `cents=1`), 400)
	refused("two values", s.post(at, `1 2`), 400)
	refused("no UTF-8", s.post(at, "\"\xff\""), 400)
	refused("another type", s.post(at, `{"cents":"one"}`), 422)
	refused("2^63", s.post(at, `{"cents":9223372036854775808}`), 422)
	refused("an empty key", s.post(at, `{}`, "Idempotency-Key", ""), 400)
	refused("two keys", s.post(at, `{}`, "Idempotency-Key", "a", "Idempotency-Key", "b"), 400)
	refused("a long key", s.post(at, `{}`, "Idempotency-Key", strings.Repeat("k", 256)), 400)
	slow, done := io.Pipe()
	defer done.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+at, slow)
	if err != nil {
		t.Fatal(err)
	}
	refused("a slow body", s.send(r), 408)
	if r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+at, io.MultiReader(strings.NewReader(`"`), endless{})); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Server.Client().Do(r); err == nil { // the server may close the connection before the client reads the response
		defer got.Body.Close()
		if got.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("an endless body: got %d, want 413", got.StatusCode)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		if r, err = http.NewRequestWithContext(t.Context(), method, s.URL+at, nil); err != nil {
			t.Fatal(err)
		}
		got := s.send(r)
		if refused(method, got, 405); got.header.Get("Allow") != "POST" {
			t.Errorf("%s: allowed is %q", method, got.header.Get("Allow"))
		}
	}
	huge := s.post(at, `{"cents":1}`, "X-Huge", strings.Repeat("x", 2<<20))
	if huge.status != 431 {
		t.Errorf("a huge header: got %+v", huge)
	}
	if got := s.post(at, ""); got.status != 202 {
		t.Errorf("no body: got %+v", got)
	}
	if diff := cmp.Diff([]int64{0}, s.end()); diff != "" {
		t.Errorf("the run has taken (-want +got):\n%s", diff)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestOPS3_ATokenHasItsRate(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newScene(t, memstore.New(), hooks.Config{Now: func() time.Time { return now }})
	for _, token := range []string{s.tokens["paid"], "nobody"} {
		for n := range 21 {
			got := s.post("/hooks/"+token, `{"cents":1}`)
			if busy := got.status == 429; busy != (n == 20) || busy && got.header.Get("Retry-After") != "1" {
				t.Errorf("%s, %d: got %+v", token, n, got)
			}
		}
	}
	if got := s.post("/hooks/"+s.tokens["priced"], `{"cents":1}`); got.status != 200 {
		t.Errorf("another token: got %+v", got)
	}
	now = now.Add(50 * time.Millisecond)
	if got := s.post("/hooks/"+s.tokens["paid"], `{"cents":1}`); got.status != 202 {
		t.Errorf("later: got %+v", got)
	}
	if n := len(s.end()); n != 22 {
		t.Errorf("the run has taken %d payloads, want 22", n)
	}
}

// TestOPS3_NoMoreRequestsWaitThanMay proves that requests beyond the limit of waiting requests get
// the status 202 immediately.
func TestOPS3_NoMoreRequestsWaitThanMay(t *testing.T) {
	s := newScene(t, memstore.New(), hooks.Config{Waiting: 1})
	run, err := late.Start(t.Context(), s.client, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tokens.Wait(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan answer, 3)
	for range cap(answers) {
		go func() { answers <- s.post("/hooks/"+got["priced"], `{"cents":1}`, "Idempotency-Key", "k") }()
	}
	for range cap(answers) - 1 {
		if a := <-answers; a.status != http.StatusAccepted {
			t.Errorf("before the answer: got %+v", a)
		}
	}
	if err := command.Send(t.Context(), run, "go"); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.status != http.StatusOK || a.body != `{"cents":2}` {
		t.Errorf("the one that waits: got %+v", a)
	}
	s.end()
}
