package conform_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// The test proves that all requests and responses of the suite conform to the OpenAPI document.
// Requests that the server refuses are exempt.
func TestOPS3_AllTrafficIsAsTheDocumentSays(t *testing.T) {
	c := newChecker(t, api.OpenAPI())
	var server *httptest.Server
	var service *remote.Service
	admintest.Run(t, func(t testing.TB) store.Store {
		s, err := sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, func(t testing.TB, direct *admin.Service) admintest.Service {
		server = httptest.NewServer(c.around(api.New(direct, api.Config{Mutations: 10_000})))
		t.Cleanup(server.Close)
		s, err := remote.New(server.URL, remote.Config{Client: server.Client()})
		if err != nil {
			t.Fatal(err)
		}
		service = s
		return s
	})
	lookLive(t, service)
	server.Close() // All responses have been sent and checked.
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.faults {
		t.Error(f)
	}
	t.Logf("%d requests, %d refused, %d events", c.requests, c.refused, c.events)
	if c.requests < 200 || c.refused < 50 || c.events < 20 || c.lists == 0 {
		t.Errorf("%d requests, %d refused, %d events: that is too little to say something", c.requests, c.refused, c.events)
	}
}

// lookLive reads the runs of the suite from a live connection.
func lookLive(t *testing.T, s *remote.Service) {
	t.Helper()
	page, err := s.Runs(t.Context(), admin.Filter{Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		t.Errorf("no runs to look at: %v", err)
		return
	}
	listed, happened := false, false
	for n, err := range s.Live(t.Context(), remote.ListTopic(admin.Filter{}), remote.RunTopic(page.Runs[0].ID)) {
		if err != nil || n.Problem != nil {
			t.Errorf("got %+v, %v", n, err)
			return
		}
		listed, happened = listed || n.Page != nil, happened || n.Event != nil
		if listed && happened {
			return
		}
	}
}

// The test proves that the checker detects traffic that does not conform to the document.
func TestChecker_NoticesWhatTheDocumentDoesNotSay(t *testing.T) {
	type exchange struct {
		method, target, body string
		status               int
		answer               string
	}
	list := exchange{http.MethodGet, "/v1/runs?limit=7", "", http.StatusOK, `{"runs":[],"partial":false,"looked":0}`}
	start := exchange{http.MethodPost, "/v1/runs", `{"workflow":"w"}`, http.StatusCreated, `{"run":"r","created":true}`}
	faults := func(document string, e exchange) []string {
		c := newChecker(t, []byte(document))
		h := c.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(e.status)
			_, _ = io.WriteString(w, e.answer)
		}))
		r := httptest.NewRequest(e.method, e.target, strings.NewReader(e.body))
		if e.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		return c.faults
	}
	for _, e := range []exchange{list, start} {
		if got := faults(string(api.OpenAPI()), e); len(got) > 0 {
			t.Errorf("%s: %v", e.method, got)
		}
	}
	for what, change := range map[string]struct {
		exchange
		old, new string
	}{
		"a field of another type": {list, `"looked": {
            "type": "integer"`, `"looked": {
            "type": "string"`},
		"a field that must be there": {list, `"required": [
          "runs",`, `"required": [
          "nobody", "runs",`},
		"a status that it does not know": {list, `"200": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/RunPage"`, `"299": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/RunPage"`},
		"a parameter of another type": {list, `"name": "limit",
            "schema": {
              "type": "integer"`, `"name": "limit",
            "schema": {
              "type": "boolean"`},
		"a parameter that it does not have": {list, `"name": "limit",`, `"name": "limits",`},
		"a path that it does not have":      {list, `"/v1/runs": {`, `"/v1/other": {`},
		"a method that it does not have": {start, `"post": {
        "description": "Needs the role operator.",
        "operationId": "startRun",`, `"put": {
        "description": "Needs the role operator.",
        "operationId": "startRun",`},
		"a field of what is sent of another type": {start, `"workflow": {
            "type": "string"`, `"workflow": {
            "type": "integer"`},
	} {
		document := string(api.OpenAPI())
		changed := strings.ReplaceAll(document, change.old, change.new)
		if changed == document {
			t.Fatalf("%s: the document has no %s", what, change.old)
		}
		if len(faults(changed, change.exchange)) == 0 {
			t.Errorf("%s was not noticed", what)
		}
	}
}

// checker validates the requests and responses of a handler.
type checker struct {
	operations routers.Router

	mu                        sync.Mutex
	requests, refused, events int
	lists                     int // number of lists received over live connections
	faults                    []string
}

func newChecker(t *testing.T, document []byte) *checker {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatalf("the document is none: %v", err)
	}
	operations, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &checker{operations: operations}
}

// options make the validation strict. A status, a parameter or a body that the document does not
// contain is an error. Authentication is not validated here.
var options = &openapi3filter.Options{
	IncludeResponseStatus:             true,
	RejectWhenRequestBodyNotSpecified: true,
	MultiError:                        true,
	AuthenticationFunc:                openapi3filter.NoopAuthenticationFunc,
}

// around returns a handler that calls h and validates its traffic.
func (c *checker) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			c.fault(r, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		tee := &tee{ResponseWriter: w, status: http.StatusOK}
		asked := r.Clone(r.Context())
		asked.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(tee, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		if tee.status >= 400 {
			c.refused++
		} else if err := c.request(asked); err != nil {
			c.faults = append(c.faults, fmt.Sprintf("request %s %s %s: %v", r.Method, r.URL, body, err))
		}
		if w.Header().Get("Content-Type") == "text/event-stream" {
			c.stream(r, tee.body.Bytes())
			return
		}
		if err := c.answer(asked, tee.status, w.Header(), tee.body.Bytes()); err != nil {
			c.faults = append(c.faults, fmt.Sprintf("answer %d to %s %s: %v\n%s", tee.status, r.Method, r.URL, err, tee.body.Bytes()))
		}
	})
}

// input returns the request in the form that the validator requires.
func (c *checker) input(r *http.Request) (*openapi3filter.RequestValidationInput, error) {
	route, names, err := c.operations.FindRoute(r)
	if err != nil {
		return nil, err
	}
	return &openapi3filter.RequestValidationInput{Request: r, PathParams: names, Route: route, Options: options}, nil
}

func (c *checker) request(r *http.Request) error {
	in, err := c.input(r)
	if err != nil {
		return err
	}
	for name := range r.URL.Query() {
		if in.Route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			return fmt.Errorf("the document has no parameter %q", name)
		}
	}
	return openapi3filter.ValidateRequest(r.Context(), in)
}

func (c *checker) answer(r *http.Request, status int, header http.Header, body []byte) error {
	in, err := c.input(r)
	if err != nil {
		return err
	}
	answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header, Options: options}
	if response := in.Route.Operation.Responses.Status(status); len(body) > 0 && response != nil && len(response.Value.Content) == 0 {
		return errors.New("the document has no body for it")
	}
	return openapi3filter.ValidateResponse(r.Context(), answer.SetBodyBytes(body))
}

func (c *checker) fault(r *http.Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
}

// stream validates the events of a stream. The data of each event is validated as a page with a
// single entry, because the document describes only pages.
func (c *checker) stream(r *http.Request, body []byte) {
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/follow")
	wrap := `{"run":"r","name":"n","first":1,"last":1,"ended":false,"chunks":[%s]}`
	if !strings.Contains(path, "/streams/") {
		path, wrap = path+"/events", `{"events":[%s]}`
	}
	live := path == "/v1/live/events"
	event := ""
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data" && event == "list":
			c.lists++
			var n struct{ Page json.RawMessage }
			if err := json.Unmarshal([]byte(value), &n); err != nil {
				c.faults = append(c.faults, fmt.Sprintf("live %s: %v", value, err))
			}
			c.data("/v1/runs", string(n.Page))
		case name == "data" && event == "event":
			c.events++
			if live {
				var n struct{ Event json.RawMessage }
				if err := json.Unmarshal([]byte(value), &n); err != nil {
					c.faults = append(c.faults, fmt.Sprintf("live %s: %v", value, err))
				}
				path, value = "/v1/runs/run/events", string(n.Event)
			}
			c.data(path, fmt.Sprintf(wrap, value))
		}
	}
}

// data validates a message as the response to a request of path.
func (c *checker) data(path, body string) {
	page := httptest.NewRequest(http.MethodGet, path, nil)
	if err := c.answer(page, http.StatusOK, http.Header{"Content-Type": {"application/json"}}, []byte(body)); err != nil {
		c.faults = append(c.faults, fmt.Sprintf("message %s: %v", body, err))
	}
}

// tee forwards a response and records it.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (t *tee) WriteHeader(status int) { t.status = status; t.ResponseWriter.WriteHeader(status) }

func (t *tee) Write(p []byte) (int, error) {
	t.body.Write(p)
	return t.ResponseWriter.Write(p)
}

func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }
