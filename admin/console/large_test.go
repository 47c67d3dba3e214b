package console_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// steps is how many a large run has: with their attempts that is more than 20,000 events.
const steps = 6_700

var (
	large = shim.NewWorkflow[int, int]("large", "n", shim.WorkflowPolicy{})
	add   = shim.NewStep("large.add", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}}, func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, n int) (int, error) { return f(ctx, n) })
	})
)

// A run of 20,000 events costs a page no more than a small one: neither bytes nor nodes nor memory.
func TestOPS2_ALargeRunCostsAsMuchAsASmallOne(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{})
	add.Bind(w, func(_ context.Context, n int) (int, error) { return n + 1, nil })
	shim.BindWorkflow(w, large, func(ctx workflow.Context, n int) (int, error) {
		at := 0
		for range n {
			var err error
			if at, err = shim.Call[int](ctx, add, at); err != nil {
				return 0, err
			}
		}
		return at, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; _ = client.Close() })
	run, err := large.Start(ctx, client, steps)
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if _, err := run.Result(limited); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(console.New(admin.New(client), console.Config{}))
	t.Cleanup(server.Close)
	page := func(path string) (string, time.Duration) {
		began := time.Now()
		answer, err := http.Get(server.URL + "/runs/" + string(run.ID()) + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%s: status %d, %v", path, answer.StatusCode, err)
		}
		return string(b), time.Since(began)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	_, cold := page("")
	if kept := heap() - before; kept > 30<<20 {
		t.Errorf("after the first page %d MB are kept, want at most 30", kept>>20)
	}
	first, _ := page("")
	open := regexp.MustCompile(`\?open=[^"]+`).FindString(first)
	if open == "" {
		t.Fatal("the steps are not drawn as one that can be expanded")
	}
	if expanded, _ := page(open); strings.Count(expanded, `class="k-step"`) != 78 || !strings.Contains(expanded, `rel="next"`) {
		t.Errorf("expanded there are %d steps on the first page, want 78 beside two lanes", strings.Count(expanded, `class="k-step"`))
	}
	for _, path := range []string{"", open, "?from=10&to=400", "/events", "/events?from=20001", "/data"} {
		text, took := page(path)
		nodes, bars := len(regexp.MustCompile(`<[a-z]`).FindAllString(text, -1)), strings.Count(text, `class="b `)
		t.Logf("%-30s %6d bytes %5d nodes %4d bars %v (cold %v)", path, len(text), nodes, bars, took, cold)
		if len(text) > 120_000 || nodes > 1500 || bars > 400+4 { // and those of the legend
			t.Errorf("%s has %d bytes, %d nodes, %d bars: want at most 120,000, 1,500, 400", path, len(text), nodes, bars)
		}
	}
}
