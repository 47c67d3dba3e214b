package lambdaflow_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// platform emulates AWS Lambda: it starts an instance of the function if all others are busy, gives
// each invocation a deadline, kills an instance at the deadline, and freezes it between invocations.
type platform struct {
	env     []string      // environment of the instances
	timeout time.Duration // of an invocation

	mu   sync.Mutex
	idle []*instance
	all  []*instance
}

// instance is a process of the function with its own runtime API, as described at
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html.
type instance struct {
	api     *httptest.Server
	process *exec.Cmd
	log     lockedBuffer
	exited  chan struct{}    // closed when the process has ended
	offer   chan *invocation // given to a process that requests its next invocation
	polled  chan struct{}    // receives a value when the process requests its next invocation
	broken  chan outcome     // receives an error of the initialization
	current atomic.Pointer[invocation]
	started atomic.Int64 // invocations that the process has received
}

type invocation struct {
	id       string
	payload  []byte
	deadline time.Time
	result   chan outcome
	over     chan struct{} // closed when the process requests the next invocation
}

// outcome is a result of an invocation, or a function error.
type outcome struct {
	Payload      string
	ErrorType    string
	ErrorMessage string
}

func newPlatform(t *testing.T, timeout time.Duration, env ...string) *platform {
	t.Helper()
	p := &platform{env: env, timeout: timeout}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, i := range p.all {
			_ = i.process.Process.Kill()
			<-i.exited
			i.api.Close()
			if t.Failed() && i.log.String() != "" {
				t.Logf("process %d:\n%s", i.process.Process.Pid, &i.log)
			}
		}
	})
	return p
}

// start starts an instance.
func (p *platform) start() (*instance, error) {
	i := &instance{exited: make(chan struct{}), offer: make(chan *invocation), polled: make(chan struct{}, 1), broken: make(chan outcome, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", i.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", i.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", i.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", i.initError)
	i.api = httptest.NewServer(mux)
	i.process = exec.Command(os.Args[0])
	i.process.Env = append(append(os.Environ(), p.env...), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(i.api.URL, "http://"))
	i.process.Stdout, i.process.Stderr = &i.log, &i.log
	if err := i.process.Start(); err != nil {
		i.api.Close()
		return nil, err
	}
	go func() {
		_ = i.process.Wait()
		close(i.exited)
		i.api.CloseClientConnections()
	}()
	p.mu.Lock()
	p.all = append(p.all, i)
	p.mu.Unlock()
	return i, nil
}

// take returns a frozen instance, which continues, or a new one.
func (p *platform) take() (*instance, error) {
	p.mu.Lock()
	for len(p.idle) > 0 {
		i := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		select {
		case <-i.exited:
			continue
		default:
		}
		p.mu.Unlock()
		return i, i.process.Process.Signal(syscall.SIGCONT)
	}
	p.mu.Unlock()
	return p.start()
}

var invocations atomic.Int64

// invoke invokes the function once.
func (p *platform) invoke(payload []byte) (outcome, error) {
	i, err := p.take()
	if err != nil {
		return outcome{}, err
	}
	v := &invocation{fmt.Sprintf("request-%d", invocations.Add(1)), payload, time.Now().Add(p.timeout), make(chan outcome, 1), make(chan struct{})}
	limit := time.NewTimer(p.timeout)
	defer limit.Stop()
	select {
	case i.offer <- v:
	case <-i.exited:
		select {
		case o := <-i.broken:
			return o, nil
		default:
			return outcome{}, errors.New("Runtime.ExitError: the process ended before it requested an invocation")
		}
	case <-limit.C:
		return outcome{}, i.kill()
	}
	var o outcome
	select {
	case o = <-v.result:
	case <-i.exited:
		return outcome{}, errors.New("Runtime.ExitError: the process ended during the invocation")
	case <-limit.C:
		return outcome{}, i.kill()
	}
	// The invocation has ended when the process requests the next one.
	select {
	case <-i.polled:
		if err := i.process.Process.Signal(syscall.SIGSTOP); err != nil {
			return o, err
		}
		p.mu.Lock()
		p.idle = append(p.idle, i)
		p.mu.Unlock()
	case <-i.exited:
	case <-limit.C:
		_ = i.kill()
	}
	return o, nil
}

// kill ends the process at the deadline of its invocation.
func (i *instance) kill() error {
	_ = i.process.Process.Kill()
	<-i.exited
	return errors.New("Task timed out")
}

func (i *instance) next(w http.ResponseWriter, r *http.Request) {
	if v := i.current.Swap(nil); v != nil {
		close(v.over)
		i.polled <- struct{}{}
	}
	select {
	case v := <-i.offer:
		i.current.Store(v)
		i.started.Add(1)
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", v.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(v.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:orders")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(v.payload)
	case <-r.Context().Done():
	}
}

func (i *instance) response(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	i.end(w, r, outcome{Payload: string(body)}, err)
}

func (i *instance) failure(w http.ResponseWriter, r *http.Request) {
	o, err := readError(r)
	i.end(w, r, o, err)
}

func (i *instance) initError(w http.ResponseWriter, r *http.Request) {
	o, err := readError(r)
	if err != nil || r.Header.Get("Lambda-Runtime-Function-Error-Type") == "" {
		http.Error(w, "no error", http.StatusBadRequest)
		return
	}
	i.broken <- o
	w.WriteHeader(http.StatusAccepted)
}

// end accepts the result of the current invocation.
func (i *instance) end(w http.ResponseWriter, r *http.Request, o outcome, err error) {
	v := i.current.Load()
	if err != nil || v == nil || v.id != r.PathValue("id") {
		http.Error(w, `{"errorType":"InvalidRequestID"}`, http.StatusBadRequest)
		return
	}
	select {
	case v.result <- o:
		w.WriteHeader(http.StatusAccepted)
	default:
		http.Error(w, `{"errorType":"InvalidStateTransition"}`, http.StatusForbidden)
	}
}

func readError(r *http.Request) (outcome, error) {
	var e struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
		Stack   []any  `json:"stackTrace"`
	}
	err := json.NewDecoder(r.Body).Decode(&e)
	return outcome{ErrorType: e.Type, ErrorMessage: e.Message}, err
}

// ServeHTTP is the function URL.
func (p *platform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 6<<20)) // the largest event of AWS Lambda
	if err != nil {
		http.Error(w, "Payload Too Large", http.StatusRequestEntityTooLarge)
		return
	}
	headers := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	from, _, _ := strings.Cut(r.RemoteAddr, ":")
	event := map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": r.URL.EscapedPath(), "rawQueryString": r.URL.RawQuery, "headers": headers,
		"requestContext": map[string]any{"domainName": r.Host, "http": map[string]any{"method": r.Method, "path": r.URL.Path, "sourceIp": from}},
		"body":           string(body), "isBase64Encoded": false,
	}
	if !utf8.Valid(body) {
		event["body"], event["isBase64Encoded"] = base64.StdEncoding.EncodeToString(body), true
	}
	payload, err := json.Marshal(event)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	o, err := p.invoke(payload)
	var answer struct {
		StatusCode      int               `json:"statusCode"`
		Headers         map[string]string `json:"headers"`
		Body            string            `json:"body"`
		IsBase64Encoded bool              `json:"isBase64Encoded"`
	}
	if err != nil || o.ErrorType != "" || json.Unmarshal([]byte(o.Payload), &answer) != nil {
		http.Error(w, "Internal Server Error", http.StatusBadGateway)
		return
	}
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(answer.StatusCode)
	text := []byte(answer.Body)
	if answer.IsBase64Encoded {
		text, _ = base64.StdEncoding.DecodeString(answer.Body)
	}
	_, _ = w.Write(text)
}

// lockedBuffer is a buffer for the output of a process.
type lockedBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed at the next write; nil if nothing waits for it
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written != nil {
		close(l.written)
		l.written = nil
	}
	return l.b.Write(p)
}

// await waits until the output contains a text.
func (l *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	for over := time.After(patience); ; {
		l.mu.Lock()
		if strings.Contains(l.b.String(), text) {
			l.mu.Unlock()
			return
		}
		if l.written == nil {
			l.written = make(chan struct{})
		}
		written := l.written
		l.mu.Unlock()
		select {
		case <-written:
		case <-over:
			t.Fatalf("the output is\n%s\nwant one with %q", l, text)
		}
	}
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
