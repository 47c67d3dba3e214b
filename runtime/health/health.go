// Package health serves the health of a process over HTTP: /livez answers whether the process makes
// progress, and /readyz whether it can do its work now. Package systemd reports the same to systemd.
//
// A process that is not live should be restarted. A process that is not ready needs no restart: it
// waits for its store, or it is stopping. Both paths may be served without authentication, because
// an answer names no run, no address and no error of a store, and because the cost of requests is
// bounded: see [Worker] and [Store].
package health

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
)

// The paths that a handler serves.
const (
	Live  = "/livez"
	Ready = "/readyz"
)

// Check examines a part of a process. Create one with [Worker] or [Store].
type Check struct {
	name     string
	notLive  func() []string
	notReady func(context.Context) []string
}

// Worker returns a check of a worker; see [worker.Health]. It makes no request to the store. It
// examines the worker at most ten times per second, however many requests there are.
func Worker(w *worker.Worker) Check {
	var mu sync.Mutex
	var at time.Time
	var last worker.Health
	health := func() worker.Health {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); at.IsZero() || now.Sub(at) >= 100*time.Millisecond {
			at, last = now, w.Health()
		}
		return last
	}
	return Check{
		name:     "worker",
		notLive:  func() []string { h := health(); return h.NotLive() },
		notReady: func(context.Context) []string { h := health(); return h.NotReady() },
	}
}

// Body is the body of an answer, in JSON.
type Body struct {
	// Status is "ok" or "unavailable".
	Status string `json:"status"`
	// Reasons contains a sentence for each reason why the process is not live or not ready.
	Reasons []string `json:"reasons,omitempty"`
}

// New returns a handler of the paths [Live] and [Ready], for any mux. It answers GET and HEAD with
// the status 200 if all checks pass, and otherwise with 503. The body is a [Body]. Without checks,
// a process that answers is live and ready.
func New(checks ...Check) http.Handler {
	named := map[string]int{}
	all := make([]Check, len(checks))
	for i, c := range checks {
		if named[c.name]++; named[c.name] > 1 {
			c.name = fmt.Sprintf("%s %d", c.name, named[c.name])
		}
		all[i] = c
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Live, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, all, func(c *Check) []string { return c.notLive() })
	})
	mux.HandleFunc("GET "+Ready, func(w http.ResponseWriter, r *http.Request) {
		answer(w, all, func(c *Check) []string { return c.notReady(r.Context()) })
	})
	return mux
}

func answer(w http.ResponseWriter, checks []Check, examine func(*Check) []string) {
	body, status := Body{Status: "ok"}, http.StatusOK
	for i := range checks {
		for _, reason := range examine(&checks[i]) {
			body.Reasons = append(body.Reasons, checks[i].name+": "+reason)
		}
	}
	if len(body.Reasons) > 0 {
		body.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // The client may be gone.
}
