package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
)

// FleetFilter selects a page of workers or queues. The zero value selects the first page.
type FleetFilter struct {
	// Queue selects one queue, or the workers that serve it.
	Queue  string `json:"queue,omitempty"`
	Cursor string `json:"cursor,omitempty"` // cursor of the previous page
	Limit  int    `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
}

// Worker is the state of a worker, from the records of the store.
type Worker struct {
	Name  string `json:"name"`
	Build string `json:"build,omitempty"` // fingerprint of the code that the worker executes
	// Live reports whether the worker has renewed its lease in time. Live workers claim the runs of
	// workers that are not live.
	Live    bool      `json:"live"`
	Lease   time.Time `json:"lease"`   // time at which the lease ends unless the worker renews it
	Running int       `json:"running"` // number of runs that the worker has claimed
	Serves  []Served  `json:"serves"`
}

// Served is a workflow whose runs a worker claims from a queue.
type Served struct {
	Queue    string `json:"queue"`
	Workflow string `json:"workflow"`
}

// WorkerPage is a page of workers, sorted by name.
type WorkerPage struct {
	Workers []Worker `json:"workers"`
	Cursor  string   `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
}

// Queue contains the numbers of open runs of a workflow on a queue.
type Queue struct {
	Queue    string `json:"queue"`
	Workflow string `json:"workflow,omitempty"`
	// Step is the step whose executions the numbers count. It is set if the step has a queue of its
	// own or uses limits, and then Workflow is empty.
	Step string `json:"step,omitempty"`
	// Limits are the names of the limits that the runs use, from the catalog. See [Service.Pools].
	Limits  []string `json:"limits,omitempty"`
	Ready   int      `json:"ready"`   // number of runs that wait for a worker
	Waiting int      `json:"waiting"` // number of runs that wait only for permits of limits
	Running int      `json:"running"` // number of runs that workers have claimed
	Parked  int      `json:"parked"`  // number of runs that sleep or wait for messages, answers or the previous run
	Blocked int      `json:"blocked"` // number of runs that wait for a worker whose code matches their logs
	// Exact reports whether the store counted all runs. Otherwise the numbers are estimates.
	Exact bool `json:"exact"`
	// Oldest is the earliest time at which the run that has waited longest may have become ready.
	// See [ops.QueueInfo].
	Oldest    time.Time `json:"oldest,omitzero"`
	OldestRun string    `json:"oldestRun,omitempty"`
	Workers   int       `json:"workers"`       // number of live workers that serve the queue
	Fix       string    `json:"fix,omitempty"` // action for the operator if runs wait and no worker serves them
}

// QueuePage is a page of queues, sorted by queue and workflow.
type QueuePage struct {
	Queues []Queue `json:"queues"`
	Cursor string  `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
}

// Depth is the amount of work on a queue. It is for programs that scale workers.
type Depth struct {
	Queue    string `json:"queue"`
	Ready    int    `json:"ready"`    // number of runs that wait for a worker
	OldestMs int64  `json:"oldestMs"` // maximum time that the oldest of these runs has waited; 0 if there is none
	Waiting  int    `json:"waiting"`  // number of runs that wait for permits of limits, for which more workers would not help
	Running  int    `json:"running"`  // number of runs that workers have claimed
	Blocked  int    `json:"blocked"`  // number of runs that wait for a worker whose code matches their logs
	Workers  int    `json:"workers"`  // number of live workers that serve the queue, wholly or in part
	Exact    bool   `json:"exact"`    // false if the numbers are estimates
}

// fleetPage returns a page of a list that is sorted by unique keys, and the cursor of the next
// page.
func fleetPage[T any](f FleetFilter, what string, all []T, key func(*T) string) (page []T, cursor string, err error) {
	after, badCursor := base64.RawURLEncoding.DecodeString(f.Cursor)
	if err := checkPage(what, f.Limit, 0, badCursor); err != nil {
		return nil, "", err
	}
	page = []T{}
	for i := range all {
		if f.Cursor != "" && key(&all[i]) <= string(after) {
			continue
		}
		if len(page) == cmp.Or(f.Limit, 100) {
			return page, base64.RawURLEncoding.EncodeToString([]byte(key(&page[len(page)-1]))), nil
		}
		page = append(page, all[i])
	}
	return page, "", nil
}

// Workers returns a page of the workers, sorted by name.
func (s *Service) Workers(ctx context.Context, f FleetFilter) (WorkerPage, error) {
	if err := s.all(RoleViewer, "see workers", "use a token without an owner"); err != nil {
		return WorkerPage{}, err
	}
	fleet, err := s.ops.Fleet(ctx)
	if err != nil {
		return WorkerPage{}, err
	}
	var all []Worker
	for i := range fleet.Workers {
		if w := workerOf(&fleet.Workers[i]); f.Queue == "" || slices.ContainsFunc(w.Serves, func(s Served) bool { return s.Queue == f.Queue }) {
			all = append(all, w)
		}
	}
	page := WorkerPage{}
	page.Workers, page.Cursor, err = fleetPage(f, "workers", all, func(w *Worker) string { return w.Name + "\x00" + w.Build })
	return page, err
}

func workerOf(w *ops.WorkerInfo) Worker {
	got := Worker{
		Name: w.Name, Build: w.Build, Live: w.Live > 0, Lease: w.Lease.UTC(), Running: w.Running, Serves: make([]Served, len(w.Serves)),
	}
	for i, c := range w.Serves {
		got.Serves[i] = Served{Queue: c.Queue, Workflow: c.Workflow}
	}
	return got
}

// Queues returns a page of the work on the queues, sorted by queue and workflow. It works without
// live workers.
func (s *Service) Queues(ctx context.Context, f FleetFilter) (QueuePage, error) {
	if err := s.all(RoleViewer, "see queues", "list or count runs, with the filter queue"); err != nil {
		return QueuePage{}, err
	}
	fleet, err := s.ops.Fleet(ctx)
	if err != nil {
		return QueuePage{}, err
	}
	var all []Queue
	for i := range fleet.Queues {
		q := &fleet.Queues[i]
		_, step := event.StepOfRun(q.Workflow)
		if (f.Queue == "" || q.Queue == f.Queue) && (step || !event.Helper(q.Workflow)) {
			all = append(all, queueOf(&fleet.Queues[i]))
		}
	}
	page := QueuePage{}
	if page.Queues, page.Cursor, err = fleetPage(f, "queues", all, func(q *Queue) string { return q.Queue + "\x00" + q.Workflow }); err != nil {
		return page, err
	}
	limits, err := s.limitsOf(ctx, page.Queues)
	for i := range page.Queues {
		q := &page.Queues[i]
		q.Limits = limits[q.Workflow]
		if step, is := event.StepOfRun(q.Workflow); is {
			q.Workflow, q.Step = "", step
		}
	}
	return page, err
}

func queueOf(q *ops.QueueInfo) Queue {
	got := Queue{
		Queue: q.Queue, Workflow: q.Workflow, Ready: q.Ready, Waiting: q.Waiting, Running: q.Running, Parked: q.Parked, Blocked: q.Blocked,
		Exact: !q.Inexact, Oldest: utc(q.Oldest), OldestRun: string(q.OldestRun), Workers: q.Workers,
	}
	if q.Workers == 0 && q.Ready+q.Blocked > 0 {
		name := q.Workflow
		if step, is := event.StepOfRun(name); is {
			name = "step " + step
		}
		got.Fix = fmt.Sprintf("start a worker that registers %s and has the queue %s in worker.Config.Queues", name, q.Queue)
	}
	return got
}

// Depth returns the amount of work on a queue. It works without live workers. For an unknown queue,
// all numbers are zero.
func (s *Service) Depth(ctx context.Context, queue string) (Depth, error) {
	if err := s.all(RoleViewer, "see queues", "use a token without an owner"); err != nil {
		return Depth{}, err
	}
	if queue == "" {
		return Depth{}, &InputError{What: "the name of the queue is empty", Fix: "name the queue: flowctl queues lists them"}
	}
	fleet, err := s.ops.Fleet(ctx)
	if err != nil {
		return Depth{}, err
	}
	got := Depth{Queue: queue, Exact: true}
	for i := range fleet.Queues {
		q := &fleet.Queues[i]
		if q.Queue != queue {
			continue
		}
		got.Ready, got.Waiting, got.Running, got.Blocked = got.Ready+q.Ready, got.Waiting+q.Waiting, got.Running+q.Running, got.Blocked+q.Blocked
		got.Exact = got.Exact && !q.Inexact
		if q.OldestRun != "" {
			got.OldestMs = max(got.OldestMs, fleet.At.Sub(q.Oldest).Milliseconds())
		}
	}
	for i := range fleet.Workers {
		w := &fleet.Workers[i]
		if w.Live > 0 && slices.ContainsFunc(w.Serves, func(c store.Route) bool { return c.Queue == queue }) {
			got.Workers++
		}
	}
	return got, nil
}

// Rates is the throughput of the live workers in the last minute, and the latencies of their steps.
// Internal runs are not counted, except in the steps that they execute. See [ops.Client.Rates].
type Rates struct {
	Workers          int        `json:"workers"`          // number of live workers that have published their rates
	StartedPerSecond float64    `json:"startedPerSecond"` // number of runs that workers have begun
	EndedPerSecond   float64    `json:"endedPerSecond"`   // number of runs that workers have ended
	StepsPerSecond   float64    `json:"stepsPerSecond"`   // number of finished attempts of steps
	Steps            []StepRate `json:"steps"`            // the step with the most attempts first
}

// StepRate contains the figures of a step in the last minute. Latencies are those of attempts and
// are at most 19 % wrong.
type StepRate struct {
	// Step is the name of the step. It is empty in the last element, if that combines the steps that
	// workers have not distinguished.
	Step      string  `json:"step,omitempty"`
	PerSecond float64 `json:"perSecond"` // number of finished attempts
	P50Ms     float64 `json:"p50Ms"`     // half of the attempts took at most this time
	P95Ms     float64 `json:"p95Ms"`
	P99Ms     float64 `json:"p99Ms"`
}

// Rates returns the throughput and the latencies of steps, from the records of the store. It needs no
// metrics server.
func (s *Service) Rates(ctx context.Context) (Rates, error) {
	if err := s.all(RoleViewer, "see rates", "list or count runs"); err != nil {
		return Rates{}, err
	}
	found, err := s.ops.Rates(ctx)
	if err != nil {
		return Rates{}, err
	}
	got := Rates{
		Workers: found.Workers, StartedPerSecond: rounded(found.Started), EndedPerSecond: rounded(found.Ended), StepsPerSecond: rounded(found.Attempts),
		Steps: make([]StepRate, len(found.Steps)),
	}
	for i, step := range found.Steps {
		got.Steps[i] = StepRate{
			Step: step.Step, PerSecond: rounded(step.Attempts), P50Ms: rounded(step.P50.Seconds() * 1000), P95Ms: rounded(step.P95.Seconds() * 1000),
			P99Ms: rounded(step.P99.Seconds() * 1000),
		}
	}
	return got, nil
}

// rounded rounds a number to three decimals.
func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// PerSecond formats a number per second.
func PerSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// latency formats a number of milliseconds.
func latency(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return "<1ms"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (r *StepRate) name() string {
	if r.Step == "" {
		return "(other steps)"
	}
	return r.Step
}
