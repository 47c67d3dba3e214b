package invoke_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestOPS7_ADispatcherRefusesTargetsThatItCannotUse(t *testing.T) {
	w := flowtest.NewMemory(t)
	for name, c := range map[string]struct {
		target invoke.Target
		want   string // part of the error
	}{
		"no URL":              {invoke.Target{Secret: secret}, "scheme"},
		"other scheme":        {invoke.Target{URL: "file:///etc/passwd", Secret: secret}, "scheme"},
		"no scheme":           {invoke.Target{URL: "functions.example.com", Secret: secret}, "scheme"},
		"no host":             {invoke.Target{URL: "https:///run", Secret: secret}, "host"},
		"credentials":         {invoke.Target{URL: "https://u:hidden@example.com", Secret: secret}, "credentials"},
		"fragment":            {invoke.Target{URL: "https://example.com/#run", Secret: secret}, "fragment"},
		"not a URL":           {invoke.Target{URL: "https://exa mple.com", Secret: secret}, "such as https://"},
		"host and port":       {invoke.Target{URL: "127.0.0.1:8080", Secret: secret}, "such as https://"},
		"hidden and no URL":   {invoke.Target{URL: "https://u:hidden@exa mple.com", Secret: secret}, "such as https://"},
		"no secret":           {invoke.Target{URL: "https://example.com"}, "secret"},
		"short secret":        {invoke.Target{URL: "https://example.com", Secret: secret[:31]}, "31 bytes"},
		"signature header":    {invoke.Target{URL: "https://example.com", Secret: secret, Header: http.Header{"Flowgen-Time": {"1"}}}, "Flowgen-Time"},
		"nonce in lower case": {invoke.Target{URL: "https://example.com", Secret: secret, Header: http.Header{"flowgen-nonce": {"1"}}}, "flowgen-nonce"},
		"negative":            {invoke.Target{URL: "https://example.com", Secret: secret, Concurrency: -1}, "negative"},
		"port without a host": {invoke.Target{URL: "https://:80/", Secret: secret}, "host"},
	} {
		_, err := invoke.NewDispatcher(w.Client, invoke.DispatcherConfig{Targets: []invoke.Target{c.target}})
		if _, ok := errors.AsType[*invoke.TargetError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want a *TargetError about %s", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error %v contains a password", name, err)
		}
	}
}

// mischief answers requests in a wrong way.
var mischief = map[string]func(w http.ResponseWriter, r *http.Request){
	invoke.CodeNotFunction: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>")
	},
	invoke.CodeNotFunction + " without JSON": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{")
	},
	invoke.CodeNotFunction + " with another status": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"fine"}`)
	},
	invoke.CodeNotFunction + " with an error without a code": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, `{"error":{}}`)
	},
	invoke.CodeNotFunction + " without end": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for chunk := bytes.Repeat([]byte(" "), 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	},
	invoke.CodeRedirect: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
	},
	invoke.CodeUnreachable: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
}

// TestOPS7_RunsEndAlthoughFunctionsAnswerGarbage proves that a wrong answer harms nothing: whether the
// function has executed the run or not, the dispatcher goes on, and logs why.
func TestOPS7_RunsEndAlthoughFunctionsAnswerGarbage(t *testing.T) {
	for name, wrong := range mischief {
		for _, executes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/executes %t", name, executes), func(t *testing.T) {
				t.Parallel()
				w := flowtest.NewMemory(t)
				h := handler(w, invoke.Config{}, order, add)
				var n atomic.Int64
				f := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if !bytes.Contains(body, []byte("wrun_")) || n.Add(1)%2 == 0 {
						h.ServeHTTP(rw, r)
						return
					}
					if executes {
						h.ServeHTTP(httptest.NewRecorder(), r)
					}
					wrong(rw, r)
				}))
				t.Cleanup(f.Close)
				dispatch(w, f.URL)
				var runs []*workflow.Run[int]
				for i := range 3 {
					runs = append(runs, flowtest.Start(w, orders, i))
				}
				for i, run := range runs {
					if got := flowtest.Result(w, run); got != i+3 {
						t.Errorf("result %d, want %d", got, i+3)
					}
				}
				code, _, _ := strings.Cut(name, " ")
				if w.Logs.Count("code="+code) == 0 {
					t.Errorf("no log line has the code %s", code)
				}
				w.Healthy()
			})
		}
	}
}

// TestOPS7_AFunctionThatLiesIsNotCalledInALoop proves that a function which answers that a run is done
// but does not execute it gets the run less and less often.
func TestOPS7_AFunctionThatLiesIsNotCalledInALoop(t *testing.T) {
	for _, lie := range []string{`{"status":"done"}`, `{"status":"announced","routes":[],"budget":"50s"}`} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			w := flowtest.NewMemory(t)
			h := handler(w, invoke.Config{}, five, add)
			calls := make(chan time.Time, 4)
			f := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte("wrun_")) || len(calls) == cap(calls) {
					h.ServeHTTP(rw, r)
					return
				}
				calls <- time.Now()
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, lie)
			}))
			t.Cleanup(f.Close)
			dispatch(w, f.URL)
			flowtest.Result(w, flowtest.Start(w, fives, 1)) // The fifth call executes it.
			first := <-calls
			<-calls
			<-calls
			if took := (<-calls).Sub(first); took < (250+500+1000)*time.Millisecond {
				t.Errorf("four calls took %v, want pauses of 250 ms, 500 ms and 1 s", took)
			}
		})
	}
}

// TestOPS7_AFunctionThatCannotBeAnnouncedGetsNoRuns proves that a dispatcher calls nothing for a
// target that is no function, and works with the other targets.
func TestOPS7_AFunctionThatCannotBeAnnouncedGetsNoRuns(t *testing.T) {
	w := flowtest.NewMemory(t)
	var calls atomic.Int64
	bad := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("wrun_")) {
			calls.Add(1)
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"status":"announced","routes":[],"budget":"50s"}`)
	}))
	t.Cleanup(bad.Close)
	dispatch(w, bad.URL, function(w, invoke.Config{}, five, add).URL)
	for range 5 {
		flowtest.Result(w, flowtest.Start(w, fives, 1))
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("the target that is no function got %d runs", n)
	}
}

// TestOPS7_AWrongSecretLetsRunsWait proves that runs wait, and that the log names the reason, while
// the secrets of the dispatcher and of the function differ.
func TestOPS7_AWrongSecretLetsRunsWait(t *testing.T) {
	w := flowtest.NewMemory(t)
	f := function(w, invoke.Config{}, five, add)
	d, err := invoke.NewDispatcher(w.Client, invoke.DispatcherConfig{Targets: []invoke.Target{{URL: f.URL, Secret: bytes.Repeat([]byte("x"), 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	run := flowtest.Start(w, fives, 1)
	w.Eventually("the log names the signature", func() bool { return w.Logs.Count("code="+invoke.CodeSignature) > 0 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
	if n := len(w.Log(run)); n != 1 {
		t.Errorf("the log of the run has %d events, want 1", n)
	}
	dispatch(w, f.URL)
	flowtest.Result(w, run)
}

// TestOPS7_AStoppingProcessGivesItsRunsBack proves that closing Stop lets invocations end as a worker
// ends, and that another process continues their runs.
func TestOPS7_AStoppingProcessGivesItsRunsBack(t *testing.T) {
	t.Parallel()
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		stop, begun := make(chan struct{}), make(chan struct{}, 10)
		h := handler(w, invoke.Config{Stop: stop}, five, addStep.As(func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}))
		run := flowtest.Start(w, fives, 1)
		answers := make(chan answer, 1)
		r := request(t, run.ID())
		go func() { answers <- send(t, h, r) }()
		<-begun
		close(stop)
		if a := <-answers; a.Status != invoke.StatusYielded && (a.Status != invoke.StatusParked || a.Due == nil) { // the attempt is due again at once, maybe before the commit is made
			t.Errorf("answer %+v, want parked or yielded", a)
		}
		if a := ask(t, h, run.ID()); a.code() != invoke.CodeBusy {
			t.Errorf("answer %+v of a stopping process, want busy", a)
		}
		other := handler(w, invoke.Config{}, five, add)
		w.Eventually("another process executes the run", func() bool { return ask(t, other, run.ID()).Status == invoke.StatusDone })
		if begun, given, failed := attempts(w, run); begun != 6 || given != 1 || failed != 0 {
			t.Errorf("%d attempts begun, %d given back, %d failed, want 6, 1 and 0", begun, given, failed)
		}
		w.Healthy()
	})
}

// frozenClock is a store with another clock.
type frozenClock struct {
	store.Store
	clock store.Clock
}

func (f frozenClock) Clock() store.Clock  { return f.clock }
func (f frozenClock) Unwrap() store.Store { return f.Store }

// TestOPS7_AFrozenFunctionCallsNothingAfterItsLease proves that a function which was frozen for longer
// than its lease, after its attempt was recorded and before its code was called, calls no code when it
// continues, and commits nothing. Its timers are frozen as well, so only the lease stops it.
func TestOPS7_AFrozenFunctionCallsNothingAfterItsLease(t *testing.T) {
	t.Parallel()
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const lease = 500 * time.Millisecond
		frozen, thaw := make(chan struct{}), make(chan struct{})
		var once atomic.Bool
		clock := storetest.NewClock()
		st := &flowtest.Between{Store: frozenClock{w.Store, clock}, Around: func(_ context.Context, op string, _ any, do func() error) error {
			err := do()
			if op == "commit" && !once.Swap(true) {
				close(frozen) // the commit is durable, and its answer arrives when the process continues
				<-thaw
			}
			return err
		}}
		var called atomic.Int64
		count := func(_ context.Context, n int) (int, error) { called.Add(1); return n + 100, nil }
		client := workflow.NewClient(st, workflow.ClientConfig{})
		h, err := invoke.Handler(client, registers(five, addStep.As(count)), invoke.Config{Secrets: [][]byte{secret}, Budget: lease, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		run := flowtest.Start(w, fives, 1)
		answers := make(chan answer, 1)
		r := request(t, run.ID())
		go func() { answers <- send(t, h, r) }()
		<-frozen
		dispatch(w, function(w, invoke.Config{}, five, add).URL) // recovers the run
		if got := flowtest.Result(w, run); got != 6 {
			t.Errorf("result %d, want 6", got)
		}
		before := w.Log(run)
		close(thaw)
		var a answer
		step := lease / 100
		for end, answered := clock.Now().Add(lease), false; !answered; {
			select {
			case a = <-answers:
				answered = true
			case <-time.After(time.Millisecond): // The timers continue slowly at first, so that the run is not stopped before it could go on.
				if clock.Advance(step); clock.Now().After(end) {
					step = lease
				}
			}
		}
		if a.Status == invoke.StatusDone {
			t.Errorf("answer %+v of the function that was frozen", a)
		}
		if n := called.Load(); n > 0 {
			t.Errorf("the function that was frozen has called %d attempts", n)
		}
		if after := w.Log(run); len(after) != len(before) {
			t.Errorf("the log has %d events, and had %d", len(after), len(before))
		}
		w.Healthy()
	})
}
