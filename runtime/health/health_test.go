package health_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/health"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// got is the answer of a handler.
type got struct {
	Status int
	Body   health.Body
}

var ok = got{200, health.Body{Status: "ok"}}

func unavailable(reasons ...string) got {
	return got{503, health.Body{Status: "unavailable", Reasons: reasons}}
}

// ask sends a request to a handler. It fails the test if the answer does not have its headers.
func ask(t *testing.T, h http.Handler, path string) (g got) {
	t.Helper()
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if err := json.Unmarshal(r.Body.Bytes(), &g.Body); err != nil {
		t.Fatalf("%s: %v in %q", path, err, r.Body)
	}
	if r.Header().Get("Content-Type") != "application/json" || r.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s: got %v", path, r.Header())
	}
	g.Status = r.Code
	return g
}

func check(t *testing.T, h http.Handler, path string, want got) {
	t.Helper()
	if diff := cmp.Diff(want, ask(t, h, path)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestOPS7_EndpointsOfAProcessWithTwoWorkers proves that a process is ready while both workers are,
// and that the reasons tell them apart.
func TestOPS7_EndpointsOfAProcessWithTwoWorkers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, flowtest.Echoes)
		second := worker.New(w.Client, worker.Config{NoLocalStart: true})
		flowtest.Echoes(second)
		mux := http.NewServeMux() // a server of the user, which has other paths
		mux.HandleFunc("/", http.NotFound)
		h := health.New(health.Worker(first.Worker), health.Worker(second))
		mux.Handle(health.Live, h)
		mux.Handle(health.Ready, h)
		w.Eventually("the first is ready", func() bool {
			return ask(t, mux, "/readyz").Body.Reasons[0] == "worker 2: the worker has opened no session yet"
		})
		check(t, mux, "/livez", ok)
		ctx, stop := context.WithCancel(w.Ctx)
		ended := make(chan error, 1)
		go func() { ended <- second.Run(ctx) }()
		w.Eventually("both are ready", func() bool { return ask(t, mux, "/readyz").Status == 200 })
		check(t, mux, "/readyz", ok)
		first.Stop()
		w.Eventually("the first has stopped", func() bool {
			return cmp.Equal(ask(t, mux, "/readyz"), unavailable("worker: the worker has stopped"))
		})
		check(t, mux, "/livez", ok)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOPS7_EndpointsRefuseOtherRequests proves which requests the handler answers, and that HEAD has
// the status of GET.
func TestOPS7_EndpointsRefuseOtherRequests(t *testing.T) {
	w := flowtest.NewMemory(t)
	idle := worker.New(w.Client, worker.Config{})
	h := health.New(health.Worker(idle))
	for request, want := range map[string]int{
		"HEAD /livez": 200, "HEAD /readyz": 503, "GET /livez?verbose": 200, "POST /livez": 405, "DELETE /readyz": 405, "GET /": 404, "GET /livez/x": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		if r.Code != want {
			t.Errorf("%s: got %d, want %d", request, r.Code, want)
		}
	}
	check(t, health.New(), "/livez", ok)
	check(t, health.New(), "/readyz", ok)
}

// TestOPS7_AWorkerThatEndsWithAnErrorIsNotLive proves that /livez reports an error of Run, without
// its text.
func TestOPS7_AWorkerThatEndsWithAnErrorIsNotLive(t *testing.T) {
	w := flowtest.NewMemory(t)
	r := worker.New(w.Client, worker.Config{})
	if err := r.Run(w.Ctx); err == nil {
		t.Fatal("a worker without registrations runs")
	}
	h := health.New(health.Worker(r))
	want := unavailable("worker: the worker has ended with an error, which is in its log")
	check(t, h, "/livez", want)
	check(t, h, "/readyz", want)
}

// TestOPS7_AFloodOfRequestsCostsOneProbePerSecond proves that the number of requests of a handler
// does not determine the number of reads of the store, and that the reads change nothing.
func TestOPS7_AFloodOfRequestsCostsOneProbePerSecond(t *testing.T) {
	st := &flowtest.Between{Store: flowtest.Stores["memory in 3 partitions"](t)}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	h := health.New(health.Store(st))
	began := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 40 {
				check(t, h, "/readyz", ok)
				check(t, h, "/livez", ok)
			}
		})
	}
	all.Wait()
	seconds := int(time.Since(began)/time.Second) + 1
	if n := st.Count(); n < 3 || n > 3*seconds || st.Count("load") != n {
		t.Errorf("2,000 requests in %d s made %d requests to 3 partitions: %v", seconds, n, st.Tally())
	}
	if snap := w.Snapshot(); len(snap.Runs) != 0 {
		t.Errorf("the probes left %d runs", len(snap.Runs))
	}
}

// TestOPS7_AStoreThatHangsIsNotReadyInTime proves that an answer takes little more than two seconds
// even if the store does not return, that there is only one probe meanwhile, and that /livez does
// not wait for the store.
func TestOPS7_AStoreThatHangsIsNotReadyInTime(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	release := make(chan struct{})
	var hangs atomic.Bool
	st.Around = func(_ context.Context, _ string, _ any, do func() error) error {
		if hangs.Load() {
			<-release // it ignores its context
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	h := health.New(health.Store(st))
	hangs.Store(true)
	began := time.Now()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { check(t, h, "/readyz", unavailable("store: the store does not answer")) })
	}
	check(t, h, "/livez", ok)
	if took := time.Since(began); took > time.Second {
		t.Errorf("/livez took %v", took)
	}
	all.Wait()
	if took := time.Since(began); took < 2*time.Second || took > 20*time.Second {
		t.Errorf("/readyz took %v, want about 2 s", took)
	}
	check(t, h, "/readyz", unavailable("store: the store does not answer"))
	if n := st.Count(); n != 1 {
		t.Errorf("%d requests wait for the store, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
	if r.Code != 503 {
		t.Errorf("for a caller that has left: got %d", r.Code)
	}
	hangs.Store(false)
	close(release)
	w.Eventually("the store answers again", func() bool { return ask(t, h, "/readyz").Status == 200 })
}

// TestOPS7_EndpointsFollowARedisServer proves what a worker and a process without a worker report
// while a server is killed and restarted, and that the session of the worker is reopened if it has
// expired.
func TestOPS7_EndpointsFollowARedisServer(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	st, err := redisstore.Open(server.URL())
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	r := w.Work(worker.Config{Heartbeat: 200 * time.Millisecond, ClaimExpiry: 4 * time.Second}, flowtest.Echoes)
	works, serves := health.New(health.Worker(r.Worker)), health.New(health.Store(st))
	eventually := func(h http.Handler, want ...string) {
		t.Helper()
		w.Eventually(fmt.Sprintf("the reasons are %q", want), func() bool {
			got := ask(t, h, "/readyz")
			if (got.Status == 200) != (len(got.Body.Reasons) == 0) || len(got.Body.Reasons) != len(want) {
				return false
			}
			for i, reason := range got.Body.Reasons {
				if !strings.HasPrefix(reason, want[i]) {
					return false
				}
			}
			return true
		})
	}
	eventually(works)
	eventually(serves)
	server.Kill()
	eventually(serves, "store: the store does not answer")
	eventually(works, "worker: the store has not answered for ", "worker: the session has expired")
	check(t, works, "/livez", ok)
	check(t, serves, "/livez", ok)
	server.Restart(t)
	eventually(works)
	eventually(serves)
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestOPS7_AStoreThatRefusesOrIsClosedIsNotReady proves that answers which are errors do not count
// as a reachable store, and are not part of the body.
func TestOPS7_AStoreThatRefusesOrIsClosedIsNotReady(t *testing.T) {
	closed := memstore.New()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	failing := &flowtest.Between{Store: memstore.New(), Around: func(context.Context, string, any, func() error) error {
		return fmt.Errorf("password secret at 10.0.0.1 is wrong: %w", store.ErrRefused)
	}}
	for name, st := range map[string]store.Store{"closed": closed, "refused": failing} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(health.New(health.Store(st)))
			defer server.Close()
			answer, err := server.Client().Get(server.URL + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			want := `{"status":"unavailable","reasons":["store: the store does not answer"]}` + "\n"
			if answer.StatusCode != 503 || string(body) != want || err != nil {
				t.Errorf("got %d %s, %v", answer.StatusCode, body, err)
			}
		})
	}
}
