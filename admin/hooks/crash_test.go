package hooks_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

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

// roleOf is an environment variable for processes of this test. It contains the role of the
// process, worker or server, and the URL of the store, separated by a space.
const roleOf = "FLOWTEST_HOOKS"

func TestMain(m *testing.M) {
	if role, url, ok := strings.Cut(os.Getenv(roleOf), " "); ok {
		if err := play(role, url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// late receives a payload, and answers it after a message has arrived.
var late = shim.NewWorkflow[workflow.None, int64]("hooks.late", "", shim.WorkflowPolicy{})

func answersLate(ctx workflow.Context, _ workflow.None) (int64, error) {
	hook, err := priced.Open(ctx, workflow.RespondWith(30*time.Second))
	if err != nil {
		return 0, err
	}
	tokens.Set(ctx, map[string]string{"priced": hook.Token()})
	v, err := hook.Receive(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := command.Receive(ctx); err != nil {
		return 0, err
	}
	if err := hook.Answer(ctx, payment{2 * v.Cents}); err != nil {
		return 0, err
	}
	hook.Dispose(ctx)
	_, err = command.Receive(ctx)
	return v.Cents, err
}

func openURL(url string) (store.Store, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return sqlitestore.Open(path)
	}
	return redisstore.Open(url)
}

// play executes a role until the process is killed.
func play(role, url string) error {
	st, err := openURL(url)
	if err != nil {
		return err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	if role == "worker" {
		w := worker.New(client, worker.Config{})
		shim.BindWorkflow(w, late, answersLate)
		fmt.Println("works")
		return w.Run(context.Background())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return (&http.Server{Handler: hooks.New(client, hooks.Config{}), ReadHeaderTimeout: time.Second}).Serve(l)
}

// launch starts a process. It returns the first output of the process and a function that kills it.
func launch(t *testing.T, role, url string) (said string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), roleOf+"="+role+" "+url), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once atomic.Bool
	kill = func() {
		if once.CompareAndSwap(false, true) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s has said nothing: %v", role, err)
	}
	return strings.TrimSpace(line), kill
}

// TestOPS3_AnAnswerSurvivesTheDeathOfWorkerAndServer proves that the answer to a payload survives
// the loss of the processes. Worker and server are killed between the acceptance of a payload and
// its answer, and again after the answer. A request that is repeated with its key receives the
// answer each time, and the payload arrives once.
func TestOPS3_AnAnswerSurvivesTheDeathOfWorkerAndServer(t *testing.T) {
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "flows.db"), "redis": redistest.Start(t).URL()} {
		t.Run(name, func(t *testing.T) {
			st, err := openURL(url)
			if err != nil {
				t.Fatal(err)
			}
			client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
			t.Cleanup(func() { client.Close(); _ = st.Close() })
			_, killWorker := launch(t, "worker", url)
			at, killServer := launch(t, "server", url)
			run, err := late.Start(t.Context(), client, workflow.None{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tokens.Wait(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			post := func() (int, string) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/hooks/"+got["priced"], strings.NewReader(`{"cents":21}`))
				if err != nil {
					t.Error(err)
					return 0, ""
				}
				r.Header.Set("Idempotency-Key", "call")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					return 0, err.Error()
				}
				defer answer.Body.Close()
				b := make([]byte, 100)
				n, _ := answer.Body.Read(b)
				return answer.StatusCode, string(b[:n])
			}
			defer http.DefaultClient.CloseIdleConnections()
			first := make(chan int, 1)
			go func() { status, _ := post(); first <- status }()
			reach(t, run, event.HookReceived)
			killServer()
			killWorker()
			if status := <-first; status != 0 {
				t.Errorf("the server was killed, and has answered with %d", status)
			}
			at, killServer = launch(t, "server", url)
			_, killWorker = launch(t, "worker", url)
			if err := command.Send(t.Context(), run, "go"); err != nil {
				t.Fatal(err)
			}
			answered := func(when string) {
				t.Helper()
				for { // the request is accepted without an answer until another worker may claim the run
					status, body := post()
					if status == http.StatusAccepted {
						continue
					}
					if status != http.StatusOK || body != `{"cents":42}` {
						t.Errorf("%s: got %d %s", when, status, body)
					}
					return
				}
			}
			answered("after both were killed")
			killWorker()
			killServer()
			at, _ = launch(t, "server", url)
			answered("without a worker")
			if n := len(logOf(t, run, event.HookReceived)); n != 1 {
				t.Errorf("the payload has arrived %d times", n)
			}
			if n := len(logOf(t, run, event.HookAnswered)); n != 1 {
				t.Errorf("it was answered %d times", n)
			}
		})
	}
}

// reach waits until the log of a run contains an event of a type.
func reach(t *testing.T, run *workflow.Run[int64], typ event.Type) {
	t.Helper()
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == typ {
			return
		}
	}
}

// logOf returns the events of a type that the log of a run contains at present.
func logOf[T any](t *testing.T, run *workflow.Run[T], typ event.Type) (all []event.Event) {
	t.Helper()
	info, err := run.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == typ {
			all = append(all, e)
		}
		if e.Seq >= info.Events {
			break
		}
	}
	return all
}

// cut is a store that fails during an outage. An operation that failed may have been executed.
type cut struct {
	store.Store
	away atomic.Bool
	n    atomic.Int64
}

var errAway = errors.New("the store is away")

func (c *cut) Unwrap() store.Store { return c.Store }

func (c *cut) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	if c.away.Load() {
		return store.StreamPage{}, errAway
	}
	return c.Store.ReadStream(ctx, r)
}

// Deliver returns an error for all deliveries during an outage, but executes every second delivery.
func (c *cut) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if !c.away.Load() {
		return c.Store.Deliver(ctx, d)
	}
	if c.n.Add(1)%2 == 0 {
		return "", errAway
	}
	_, _ = c.Store.Deliver(ctx, d)
	return "", errAway
}

func TestOPS3_AStoreThatIsAwayIs503AndLosesNothing(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	s := newScene(t, st, hooks.Config{Rate: 1000})
	away := &cut{Store: st}
	client := workflow.NewClient(away, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	other := httptest.NewServer(hooks.New(client, hooks.Config{Rate: 1000, AcceptTime: 50 * time.Millisecond}))
	defer other.Close()
	s.Server.Close()
	s.Server = other
	const n = 20
	for i := range n {
		key, body := fmt.Sprint("key-", i), fmt.Sprintf(`{"cents":%d}`, i)
		away.away.Store(true)
		for range 2 {
			if got := s.post("/hooks/"+s.tokens["priced"], body, "Idempotency-Key", key); got.status != 503 || got.header.Get("Retry-After") == "" {
				t.Fatalf("while it is away: got %+v", got)
			}
			if got := s.post("/hooks/nobody", body); got.status != 503 && got.status != 404 {
				t.Fatalf("while it is away: got %+v", got)
			}
		}
		away.away.Store(false)
		if got := s.post("/hooks/"+s.tokens["priced"], body, "Idempotency-Key", key); got.status != 200 || got.body != fmt.Sprintf(`{"cents":%d}`, 2*i) {
			t.Fatalf("when it is back: got %+v", got)
		}
	}
	if all := s.end(); len(all) != n {
		t.Errorf("the run has taken %d payloads, want %d", len(all), n)
	}
}

// midway is a store whose outage begins between the search for a hook and the delivery.
type midway struct{ cut }

func (m *midway) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	return m.Store.ReadStream(ctx, r)
}

func TestOPS3_AStoreThatGoesAwayMidwayAcceptsOnce(t *testing.T) {
	st := memstore.New()
	t.Cleanup(func() { _ = st.Close() })
	s := newScene(t, st, hooks.Config{})
	away := &midway{cut{Store: st}}
	client := workflow.NewClient(away, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	other := httptest.NewServer(hooks.New(client, hooks.Config{Rate: 1000, AcceptTime: 30 * time.Millisecond}))
	defer other.Close()
	s.Server.Close()
	s.Server = other
	for i := range 10 {
		key := fmt.Sprint("key-", i)
		away.away.Store(true)
		if got := s.post("/hooks/"+s.tokens["paid"], `{"cents":1}`, "Idempotency-Key", key); got.status != 503 {
			t.Errorf("midway: got %+v", got)
		}
		away.away.Store(false)
		if got := s.post("/hooks/"+s.tokens["paid"], `{"cents":1}`, "Idempotency-Key", key); got.status != 202 {
			t.Errorf("when it is back: got %+v", got)
		}
	}
	if all := s.end(); len(all) != 10 || away.n.Load() == 0 {
		t.Errorf("the run has taken %d payloads, want 10; %d deliveries were not answered", len(all), away.n.Load())
	}
}

// TestOPS3_AHookThatIsClosedMidwayLosesNothing proves that, if a hook is closed while requests
// arrive, the log contains each accepted payload and no other payload.
func TestOPS3_AHookThatIsClosedMidwayLosesNothing(t *testing.T) {
	onEach(t, hooks.Config{Rate: 10_000}, func(s *scene) {
		accepted, done := make(chan int, 1), make(chan struct{})
		go func() {
			n := 0
			for i := range 200 {
				if i == 50 {
					close(done)
				}
				got := s.post("/hooks/"+s.tokens["paid"], `{"cents":1}`)
				if got.status == 404 {
					break
				}
				if got.status != 202 {
					s.Errorf("got %+v", got)
				}
				n++
			}
			accepted <- n
		}()
		<-done
		if err := command.Send(s.Context(), s.run, "dispose"); err != nil {
			s.Fatal(err)
		}
		n := <-accepted
		s.end()
		log := logOf(s.T, s.run, event.HookReceived)
		missed := logOf(s.T, s.run, event.HookMissed)
		unread := 0
		for _, e := range logOf(s.T, s.run, event.RunCompleted) {
			unread = len(e.Unread)
		}
		if len(log)+len(missed) != n || unread < len(missed) {
			s.Errorf("%d were accepted; the log has received %d and missed %d, and lists %d as unread", n, len(log), len(missed), unread)
		}
	})
}
