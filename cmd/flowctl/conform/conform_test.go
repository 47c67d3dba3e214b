package conform_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// All that the suite sends and gets is as the document says: each answer, and each request that was not refused.
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
	}, func(t testing.TB, direct admin.Service) admin.Service {
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
	server.Close() // all has been answered, and checked
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

// lookLive looks at what is left of the suite by a live connection.
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

// A document that says something else is noticed.
func TestChecker_NoticesWhatTheDocumentDoesNotSay(t *testing.T) {
	for what, change := range map[string][2]string{
		"a field of another type": {`"looked": {
            "type": "integer"`, `"looked": {
            "type": "string"`},
		"a field that must be there": {`"required": [
          "runs",`, `"required": [
          "nobody", "runs",`},
		"a status that it does not know": {`"200": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/RunPage"`, `"299": {
            "content": {
              "application/json": {
                "schema": {
                  "$ref": "#/components/schemas/RunPage"`},
		"a parameter of another type": {`"name": "limit",
            "schema": {
              "type": "integer"`, `"name": "limit",
            "schema": {
              "type": "boolean"`},
	} {
		document := string(api.OpenAPI())
		changed := strings.ReplaceAll(document, change[0], change[1])
		if changed == document {
			t.Fatalf("%s: the document has no %s", what, change[0])
		}
		c := newChecker(t, []byte(changed))
		h := c.around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"runs":[],"partial":false,"looked":0}`)
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/runs?limit=7", nil))
		if len(c.faults) == 0 {
			t.Errorf("%s was not noticed", what)
		}
	}
}

// checker validates what goes through a handler.
type checker struct {
	validator validator.Validator

	mu                        sync.Mutex
	requests, refused, events int
	lists                     int // of live connections
	faults                    []string
}

func newChecker(t *testing.T, document []byte) *checker {
	t.Helper()
	doc, err := libopenapi.NewDocument(document)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, faults := v.ValidateDocument(); !ok {
		t.Fatalf("the document is none: %v", faults)
	}
	return &checker{validator: v}
}

// around returns the handler, checked.
func (c *checker) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			c.fault(r, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		asked := plain(r, body)
		tee := &tee{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(tee, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests++
		answer := &http.Response{StatusCode: tee.status, Header: w.Header().Clone(), Body: io.NopCloser(bytes.NewReader(tee.body.Bytes())), Request: asked}
		if tee.status >= 400 {
			c.refused++
		} else if ok, faults := c.validator.ValidateHttpRequest(asked); !ok {
			c.faults = append(c.faults, fmt.Sprintf("request %s %s %s: %v", r.Method, r.URL, body, faults))
		}
		if w.Header().Get("Content-Type") == "text/event-stream" {
			c.stream(asked, tee.body.Bytes())
			return
		}
		if ok, faults := c.validator.ValidateHttpResponse(plain(r, body), answer); !ok {
			c.faults = append(c.faults, fmt.Sprintf("answer %d to %s %s: %v\n%s", tee.status, r.Method, r.URL, faults, tee.body.Bytes()))
		}
	})
}

func (c *checker) fault(r *http.Request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf("%s %s: %v", r.Method, r.URL, err))
}

// stream checks that the data of each event is what the document says: as the only one of a page, which has them, too.
func (c *checker) stream(r *http.Request, body []byte) {
	path := strings.TrimSuffix(r.URL.Path, "/follow")
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

// data checks a message as the answer of a path.
func (c *checker) data(path, body string) {
	page := httptest.NewRequest(http.MethodGet, path, nil)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: page}
	if ok, faults := c.validator.ValidateHttpResponse(page, answer); !ok {
		c.faults = append(c.faults, fmt.Sprintf("message %s: %v", body, faults))
	}
}

// plain returns a request with names that need no escapes, which the validator takes for more of the path.
func plain(r *http.Request, body []byte) *http.Request {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "%.:") {
			parts[i] = "name"
		}
	}
	target := strings.Join(parts, "/")
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	other := httptest.NewRequest(r.Method, target, bytes.NewReader(body))
	other.Header = r.Header.Clone()
	return other
}

// tee keeps what is answered.
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
