package lambdaflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/lambdaflow"
)

// TestMain runs a function on AWS Lambda if the environment requests it, and otherwise the tests.
func TestMain(m *testing.M) {
	if name := os.Getenv("LAMBDAFLOW_FUNCTION"); name != "" {
		lambdaflow.Start(functions[name])
	}
	redistest.Main(m)
}

var functions = map[string]func(context.Context) (http.Handler, error){
	"broken": func(context.Context) (http.Handler, error) { return nil, errors.New("the store is unreachable") },
	"orders": newHandler,
	"echo":   func(context.Context) (http.Handler, error) { return http.HandlerFunc(echo), nil },
}

// echo returns the body of the request, the process and the time that is left. With the header
// X-Do it panics or waits for the end of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("X-Do") {
	case "panic":
		panic("no such order")
	case "wait":
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	case "hang":
		select {}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	deadline, _ := r.Context().Deadline()
	_ = json.NewEncoder(w).Encode(echoed{string(body), os.Getpid(), deadline})
}

type echoed struct {
	Body     string
	Process  int
	Deadline time.Time
}

// call sends a request to a function URL.
func call(t *testing.T, url, do, body string) (int, echoed) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if do != "" {
		req.Header.Set("X-Do", do)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var e echoed
	if res.StatusCode == http.StatusOK {
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil {
			t.Fatal(err)
		}
	}
	return res.StatusCode, e
}

func TestStart_AnInstanceServesOneRequestAfterAnother(t *testing.T) {
	p := newPlatform(t, time.Minute, "LAMBDAFLOW_FUNCTION=echo")
	url := httptest.NewServer(p)
	defer url.Close()
	before := time.Now()
	status, first := call(t, url.URL, "", `{"run":"ü"}`)
	if left := first.Deadline.Sub(before); status != http.StatusOK || first.Body != `{"run":"ü"}` || left < 59*time.Second || left > 61*time.Second {
		t.Errorf("got status %d, body %q, %v until the deadline; want 200, the body that was sent, a minute", status, first.Body, left)
	}
	// The instance was frozen after its answer, and continues.
	if status, second := call(t, url.URL, "", "2"); status != http.StatusOK || second.Body != "2" || second.Process != first.Process {
		t.Errorf("got status %d, %+v; want 200 and an answer of process %d", status, second, first.Process)
	}
}

func TestStart_APanicOrAHangingHandlerEndsTheProcessOnly(t *testing.T) {
	p := newPlatform(t, 2*time.Second, "LAMBDAFLOW_FUNCTION=echo")
	url := httptest.NewServer(p)
	defer url.Close()
	ended := map[int]bool{}
	for _, do := range []string{"panic", "hang"} {
		_, at := call(t, url.URL, "", "")
		if ended[at.Process] {
			t.Errorf("process %d has answered after it ended", at.Process)
		}
		ended[at.Process] = true
		if status, _ := call(t, url.URL, do, ""); status != http.StatusBadGateway {
			t.Errorf("%s: got status %d, want 502 of the platform", do, status)
		}
	}
	if status, at := call(t, url.URL, "", "x"); status != http.StatusOK || ended[at.Process] {
		t.Errorf("got status %d of process %d, want 200 of a new one", status, at.Process)
	}
}

func TestStart_DirectInvocationsAndEventsOfOthers(t *testing.T) {
	p := newPlatform(t, time.Minute, "LAMBDAFLOW_FUNCTION=echo")
	o, err := p.invoke([]byte(`{"headers":{"X-Do":""},"body":"direct"}`))
	if err != nil || !strings.Contains(o.Payload, `"statusCode":200`) || !strings.Contains(o.Payload, `direct`) {
		t.Errorf("got %+v, %v; want an answer with status 200 and the body", o, err)
	}
	o, err = p.invoke([]byte(`{"Records":[]}`))
	if err != nil || o.ErrorType != "EventError" || !strings.Contains(o.ErrorMessage, "direct invocation") {
		t.Errorf("got %+v, %v; want a function error of the type EventError", o, err)
	}
	if o, err = p.invoke([]byte(`{"headers":{},"body":"again"}`)); err != nil || !strings.Contains(o.Payload, "again") || len(p.all) != 1 {
		t.Errorf("got %+v, %v of %d instances; want an answer of the first instance", o, err, len(p.all))
	}
}

func TestStart_ReportsAnErrorOfTheInitialization(t *testing.T) {
	p := newPlatform(t, time.Minute, "LAMBDAFLOW_FUNCTION=broken")
	o, err := p.invoke([]byte(`{"headers":{},"body":""}`))
	if want := (outcome{ErrorType: "InitError", ErrorMessage: "the store is unreachable"}); err != nil || o != want {
		t.Errorf("got %+v, %v; want %+v", o, err, want)
	}
	if code := p.all[0].process.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the process has ended with status %d, want 1", code)
	}
}

func TestStart_TheContextOfARequestEndsAtTheDeadline(t *testing.T) {
	p := newPlatform(t, time.Minute, "LAMBDAFLOW_FUNCTION=echo")
	i, err := p.start()
	if err != nil {
		t.Fatal(err)
	}
	v := &invocation{"early", []byte(`{"headers":{"X-Do":"wait"},"body":""}`), time.Now().Add(200 * time.Millisecond), make(chan outcome, 1), make(chan struct{})}
	i.offer <- v
	select {
	case o := <-v.result:
		if !strings.Contains(o.Payload, `"statusCode":504`) {
			t.Errorf("got %+v, want status 504", o)
		}
	case <-i.exited:
		t.Error("the process has ended")
	}
}
