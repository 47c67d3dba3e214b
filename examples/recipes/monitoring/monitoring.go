// Package monitoring serves the state of a store as JSON, for probes and dashboards. The state
// contains the runs that wait for too long or without a worker, the failure groups, and problems
// with the settings of the database.
//
//	go run ./examples/recipes monitoring
//
// A run fails, and another run waits on a queue that no worker serves. The recipe prints:
//
//	200 /health: healthy
//	503 /health: queue reports: 1 waits, and no worker serves it
//	200 /status: 1 group of failures: monitoring.sell: sold out
package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Status is the state of a store.
type Status struct {
	Healthy  bool                 `json:"healthy"`
	Problems []string             `json:"problems"` // reasons why the state is not healthy
	Workers  int                  `json:"workers"`  // number of live workers
	Queues   []Queue              `json:"queues"`
	Failures []admin.FailureGroup `json:"failures"` // failure groups that contain runs at the moment
	Doctor   []admin.ExamFinding  `json:"doctor"`   // findings about the settings of the database
}

// Queue is the work of one workflow on a queue.
type Queue struct {
	Queue    string `json:"queue"`
	Workflow string `json:"workflow"`
	Ready    int    `json:"ready"` // number of runs that wait for a worker
	LagMs    int64  `json:"lagMs"` // waiting time of the oldest of these runs
	Running  int    `json:"running"`
	Blocked  int    `json:"blocked"` // number of runs whose logs do not fit the code
	Unserved bool   `json:"unserved"`
}

// MaxLag is the maximum time for which a run waits for a worker in a healthy system.
const MaxLag = time.Minute

// Read reads the state of a store.
func Read(ctx context.Context, service *admin.Service, now time.Time) (Status, error) {
	s := Status{Problems: []string{}, Queues: []Queue{}, Doctor: []admin.ExamFinding{}}
	workers, err := service.Workers(ctx, admin.FleetFilter{Limit: 1000})
	if err != nil {
		return s, err
	}
	for _, w := range workers.Workers {
		if w.Live {
			s.Workers++
		}
	}
	if s.Workers == 0 {
		s.Problems = append(s.Problems, "there is no worker")
	}
	queues, err := service.Queues(ctx, admin.FleetFilter{Limit: 1000})
	if err != nil {
		return s, err
	}
	for _, q := range queues.Queues {
		row := Queue{Queue: q.Queue, Workflow: q.Workflow, Ready: q.Ready, Running: q.Running, Blocked: q.Blocked, Unserved: q.Ready > 0 && q.Workers == 0}
		if !q.Oldest.IsZero() {
			row.LagMs = now.Sub(q.Oldest).Milliseconds()
		}
		s.Queues = append(s.Queues, row)
		switch {
		case row.Unserved:
			s.Problems = append(s.Problems, fmt.Sprintf("queue %s: %d waits, and no worker serves it", q.Queue, q.Ready))
		case row.LagMs > MaxLag.Milliseconds():
			s.Problems = append(s.Problems, fmt.Sprintf("queue %s: a run waits for longer than %v", q.Queue, MaxLag))
		case row.Blocked > 0:
			s.Problems = append(s.Problems, fmt.Sprintf("queue %s: %d blocked", q.Queue, q.Blocked))
		}
	}
	failures, err := service.Failures(ctx, admin.FailureFilter{Open: true})
	if err != nil {
		return s, err
	}
	s.Failures = failures.Groups
	exam, err := service.Examine(ctx)
	if err != nil {
		return s, err
	}
	for _, f := range exam.Findings {
		if f.Severity == "warn" || f.Severity == "fail" {
			s.Doctor = append(s.Doctor, f)
		}
	}
	s.Healthy = len(s.Problems) == 0
	return s, nil
}

// Handler serves GET /health for probes and GET /status for dashboards. The status of /health is
// 503 if there are problems, and the body lists them. Failed runs and findings about settings need
// a person, so they do not make /health fail.
func Handler(client *workflow.Client) http.Handler {
	service := admin.New(client)
	read := func(w http.ResponseWriter, r *http.Request, write func(Status)) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		s, err := Read(ctx, service, time.Now())
		if err != nil {
			http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
			return
		}
		write(s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		read(w, r, func(s Status) {
			if s.Healthy {
				_, _ = io.WriteString(w, "healthy\n")
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			for _, p := range s.Problems {
				_, _ = fmt.Fprintln(w, p)
			}
		})
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		read(w, r, func(s Status) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(s)
		})
	})
	return mux
}
