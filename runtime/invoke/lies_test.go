package invoke_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// direct sends the requests of a dispatcher to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context()))) // A function does not see the deadline of its caller.
	return w.Result(), nil
}

// inBubble tests a dispatcher with simulated time. wrap returns the target for a function.
func inBubble(t *testing.T, wrap func(h http.Handler) http.Handler, test func(t *testing.T, c *workflow.Client), bindings ...flowtest.Binding) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		client := workflow.NewClient(st, workflow.ClientConfig{})
		h, err := invoke.Handler(client, registers(bindings...), invoke.Config{Secrets: [][]byte{secret}})
		flowtest.Order(t, err)
		d, err := invoke.NewDispatcher(client, invoke.DispatcherConfig{
			Targets: []invoke.Target{{URL: "https://example.com/", Secret: secret}}, HTTP: &http.Client{Transport: direct{wrap(h)}},
		})
		flowtest.Order(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		test(t, client)
		cancel()
		flowtest.Order(t, <-done)
		flowtest.Order(t, client.Close())
		flowtest.Order(t, st.Close())
	})
}

// announces reports whether a request announces the function, and not a run.
func announces(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return !bytes.Contains(body, []byte("wrun_"))
}

// liar answers requests for runs with lie while it lies.
func liar(h http.Handler, lie string, lies func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if announces(r) || !lies() {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, lie)
	})
}

// result waits for the result of a run, for at most two minutes of simulated time.
func result(t *testing.T, run *workflow.Run[int]) (int, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return run.Result(ctx)
}

// lies are answers of a target that executes nothing.
var lies = []string{`{"status":"parked"}`, `{"status":"yielded"}`, `{"status":"done"}`, `{"status":"parked","due":"2020-01-01T00:00:00Z"}`}

// TestOPS7_AFunctionThatLiesAboutARunGetsItLessAndLessOften proves that a function which answers that
// it has executed a run, and has not, is called for it up to once in 30 s.
func TestOPS7_AFunctionThatLiesAboutARunGetsItLessAndLessOften(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie, func(t *testing.T) {
			var calls atomic.Int64
			var honest atomic.Bool
			inBubble(t, func(h http.Handler) http.Handler {
				return liar(h, lie, func() bool { calls.Add(1); return !honest.Load() })
			}, func(t *testing.T, c *workflow.Client) {
				run, err := fives.Start(t.Context(), c, 1)
				flowtest.Order(t, err)
				time.Sleep(10 * time.Minute)
				// Two calls at once, 7 while the pauses grow to 30 s, and then one in 30 s.
				if n := calls.Load(); n < 15 || n > 30 {
					t.Errorf("%d calls in 10 minutes, want about 27", n)
				}
				honest.Store(true)
				if got, err := result(t, run); err != nil || got != 6 {
					t.Errorf("result %d, %v, want 6", got, err)
				}
			}, five, add)
		})
	}
}

// TestOPS7_AFunctionThatLiesAboutAllRunsGetsFewCalls proves that the number of calls of a function
// that executes nothing does not depend on the number of ready runs.
func TestOPS7_AFunctionThatLiesAboutAllRunsGetsFewCalls(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie, func(t *testing.T) {
			var calls atomic.Int64
			var honest atomic.Bool
			inBubble(t, func(h http.Handler) http.Handler {
				return liar(h, lie, func() bool { calls.Add(1); return !honest.Load() })
			}, func(t *testing.T, c *workflow.Client) {
				var runs []*workflow.Run[int]
				for range 500 {
					run, err := fives.Start(t.Context(), c, 1)
					flowtest.Order(t, err)
					runs = append(runs, run)
				}
				time.Sleep(time.Minute)
				before := calls.Load()
				time.Sleep(10 * time.Minute)
				if n := calls.Load() - before; n > 45 {
					t.Errorf("%d calls in 10 minutes, want about 40", n)
				}
				honest.Store(true)
				for _, run := range runs {
					if got, err := result(t, run); err != nil || got != 6 {
						t.Fatalf("result %d, %v, want 6", got, err)
					}
				}
			}, five, add)
		})
	}
}

// TestOPS7_FalseAnswersForSomeRunsDelayOthersALittle proves that a function which lies about one run is
// called for other runs at once, and that one which lies about many is called for others within the
// longest pause.
func TestOPS7_FalseAnswersForSomeRunsDelayOthersALittle(t *testing.T) {
	for victims, most := range map[int]time.Duration{1: time.Second, 10: 31 * time.Second} {
		t.Run(fmt.Sprint(victims), func(t *testing.T) {
			var mu sync.Mutex
			stuck := map[string]bool{} // The first requests for runs; later ones have the same body.
			inBubble(t, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					liar(h, lies[0], func() bool {
						mu.Lock()
						defer mu.Unlock()
						if len(stuck) < victims {
							stuck[string(body)] = true
						}
						return stuck[string(body)]
					}).ServeHTTP(w, r)
				})
			}, func(t *testing.T, c *workflow.Client) {
				for range victims {
					_, err := fives.Start(t.Context(), c, 1)
					flowtest.Order(t, err)
				}
				time.Sleep(5 * time.Minute)
				for range 20 {
					began := time.Now()
					run, err := fives.Start(t.Context(), c, 1)
					flowtest.Order(t, err)
					if _, err := result(t, run); err != nil || time.Since(began) > most {
						t.Errorf("another run took %v, %v, want %v at most", time.Since(began), err, most)
					}
				}
			}, five, add)
		})
	}
}

// TestOPS7_AnIdleFunctionIsAnnouncedOnceAnHour proves that a dispatcher without runs starts no process
// of a function more often, and that a run is executed at once nevertheless.
func TestOPS7_AnIdleFunctionIsAnnouncedOnceAnHour(t *testing.T) {
	other := flowtest.Flow[int, int]("invoke.other")
	var reads atomic.Int64
	inBubble(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if announces(r) {
				reads.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	}, func(t *testing.T, c *workflow.Client) {
		within := func(d time.Duration, least, most int64) {
			t.Helper()
			before := reads.Load()
			time.Sleep(d)
			if n := reads.Load() - before; n < least || n > most {
				t.Errorf("%d announcements in %v, want %d to %d", n, d, least, most)
			}
		}
		within(90*time.Second, 1, 1) // The runs below do not begin at the time of a look.
		within(5*time.Hour, 4, 6)
		began := time.Now()
		run, err := fives.Start(t.Context(), c, 1)
		flowtest.Order(t, err)
		if _, err := result(t, run); err != nil || time.Since(began) > time.Second {
			t.Errorf("the run took %v, %v, want no pause", time.Since(began), err)
		}
		within(time.Hour, 1, 2) // once because of the call
		waits, err := other.Start(t.Context(), c, 1)
		flowtest.Order(t, err)
		within(time.Hour, 55, 61) // a run waits that nothing serves
		flowtest.Order(t, waits.Cancel(t.Context(), ""))
		_, _ = result(t, waits)
		within(time.Hour, 0, 2)
	}, five, add)
}
