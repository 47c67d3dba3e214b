package hosting

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var order = shim.NewWorkflow[int, int]("hosting.order", "in", shim.WorkflowPolicy{Queue: "orders"})

// stepOf is a step with one parameter. It corresponds to the code that the generator emits.
type stepOf struct {
	shim.Step[func(context.Context, int) (int, error)]
}

type args struct {
	In int `json:"in"`
}

var wait = stepOf{shim.NewStep("hosting.wait", shim.Policy{}, func(f func(context.Context, int) (int, error)) shim.Handler {
	return shim.Handle(func(ctx context.Context, a args) (int, error) { return f(ctx, a.In) })
})}

func (s stepOf) Call(ctx workflow.Context, n int) (int, error) {
	return shim.Call[int](ctx, s.Step, args{n})
}

// scaler sends the requests of a trigger, as the metrics-api scaler of KEDA does.
type scaler struct {
	t      *testing.T
	server *httptest.Server
	token  string
}

// get returns the answer to a trigger.
func (s *scaler) get(tr trigger) (status int, body map[string]any) {
	s.t.Helper()
	at, err := url.Parse(tr.Metadata["url"])
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+at.Path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if tr.Metadata["authMode"] == "bearer" && s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.server.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, body
}

// value returns the number at the valueLocation of a trigger.
func (s *scaler) value(tr trigger) float64 {
	s.t.Helper()
	status, body := s.get(tr)
	n, ok := body[tr.Metadata["valueLocation"]].(float64)
	if status != http.StatusOK || !ok {
		s.t.Fatalf("got %d %v", status, body)
	}
	return n
}

// becomes waits until a trigger has a value.
func (s *scaler) becomes(tr trigger, want float64) {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		got := s.value(tr)
		if got == want {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("%s: got %v, want %v", tr.Metadata["valueLocation"], got, want)
		}
	}
}

// TestOPS7_ManifestOfKEDAReadsTheDepthOfAQueue proves that the triggers of the manifest get numbers
// from the API on each kind of store: without workers, while workers execute runs, at the end, and
// for a queue that was never used.
func TestOPS7_ManifestOfKEDAReadsTheDepthOfAQueue(t *testing.T) {
	o, _ := readManifests(t)
	ready, running := o.scaled.Spec.Triggers[0], o.scaled.Spec.Triggers[1]
	for name, open := range map[string]func(*testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memstore.New(), nil },
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db"))
		},
		"redis": func(t *testing.T) (store.Store, error) {
			return redisstore.Open(redistest.Shared(t).URL() + "?prefix=" + redistest.Prefix())
		},
		"cluster": func(t *testing.T) (store.Store, error) {
			return redisstore.Open(redistest.SharedCluster(t).URL() + "&prefix=" + redistest.Prefix())
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
			defer client.Close()
			s := serve(t, client, admin.RoleViewer, "")
			if n := s.value(ready); n != 0 {
				t.Errorf("before the first start: %v runs are ready", n)
			}
			const runs = 7
			for i := range runs {
				if _, err := order.Start(t.Context(), client, i); err != nil {
					t.Fatal(err)
				}
			}
			s.becomes(ready, runs)
			if _, body := s.get(ready); body["oldestMs"].(float64) < 0 || body["oldestMs"].(float64) > 60_000 || body["workers"].(float64) != 0 {
				t.Errorf("without workers: got %v", body)
			}
			release := make(chan struct{})
			w := worker.New(client, worker.Config{Runs: 4, Concurrency: 4, NoLocalStart: true})
			shim.BindWorkflow(w, order, wait.Call)
			wait.Bind(w, func(ctx context.Context, n int) (int, error) {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return n, ctx.Err()
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			s.becomes(running, 4)
			s.becomes(ready, runs-4)
			close(release)
			s.becomes(ready, 0)
			s.becomes(running, 0)
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOPS7_DepthNeedsTheRoleViewer proves which tokens a scaler may have.
func TestOPS7_DepthNeedsTheRoleViewer(t *testing.T) {
	o, _ := readManifests(t)
	tr := o.scaled.Spec.Triggers[0]
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	if status, body := serve(t, client, admin.RoleViewer, "ada").get(tr); status != http.StatusForbidden || body["code"] == nil {
		t.Errorf("with a token of an owner: got %d %v", status, body)
	}
	s := serve(t, client, admin.RoleViewer, "")
	if status, _ := s.get(tr); status != http.StatusOK {
		t.Errorf("with a token of a viewer: got %d", status)
	}
	s.token = ""
	if status, body := s.get(tr); status != http.StatusUnauthorized || body["code"] == nil {
		t.Errorf("without a token: got %d %v", status, body)
	}
}

// serve starts the API, and returns a scaler with a token.
func serve(t *testing.T, client *workflow.Client, role admin.Role, owner string) *scaler {
	t.Helper()
	entry, secret := admin.NewToken(admin.Token{Name: "keda", Role: role, Owner: owner, Expires: time.Now().Add(time.Hour)})
	tokens, err := admin.NewTokens([]admin.Token{entry}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.New(admin.New(client), api.Config{Auth: tokens}))
	t.Cleanup(server.Close)
	return &scaler{t, server, secret}
}
