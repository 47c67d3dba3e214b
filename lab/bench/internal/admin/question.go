package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// question is a query of an operator.
type question struct {
	name    string
	budget  time.Duration
	partial bool // the answer may be partial because the query combines filters
	ask     func(ctx context.Context) (answer, error)
}

// answer contains the number of runs that a query found and the number that it examined.
type answer struct {
	found, looked int
	partial       bool
}

// The time budgets of a page and of a count.
const (
	ofPage  = 50 * time.Millisecond
	ofCount = 20 * time.Millisecond
)

func questions(s store.Store, client *workflow.Client, middle time.Time) ([]question, error) {
	lister, ok := store.As[store.Lister](s)
	if !ok {
		return nil, errors.New("the store cannot be searched")
	}
	list := func(name string, q store.Query) question {
		return question{name: name, budget: ofPage, ask: func(ctx context.Context) (answer, error) {
			page, err := lister.List(ctx, q)
			return answer{len(page.Runs), page.Looked, page.Partial}, err
		}}
	}
	combined := func(name string, q store.Query) question {
		of := list(name, q)
		of.partial = true
		return of
	}
	count := func(name string, q store.Query) question {
		return question{name: name, budget: ofCount, ask: func(ctx context.Context) (answer, error) {
			counts, err := lister.Count(ctx, q)
			return answer{counts.Total(), counts.Looked, !counts.Exact}, err
		}}
	}
	failed := []event.Status{event.StatusFailed}
	all := []question{
		list("newest page", store.Query{}),
		list("oldest page", store.Query{Oldest: true}),
		list("started by users", store.Query{Started: true}),
		list("roots only", store.Query{Roots: true}),
		list("failed", store.Query{Statuses: failed}),
		list("running", store.Query{Statuses: []event.Status{event.StatusRunning}}),
		list("frequent workflow", store.Query{Workflow: routeOf(0).Workflow}),
		list("rare workflow", store.Query{Workflow: routeOf(1<<12 - 1).Workflow}),
		list("unknown workflow", store.Query{Workflow: "bench.unknown"}),
		list("tag of half of the runs", store.Query{Tags: map[string]string{"region": "eu"}}),
		list("tag of one in a thousand", store.Query{Tags: map[string]string{"region": "us"}}),
		list("tag that none has", store.Query{Tags: map[string]string{"region": "moon"}}),
		list("second half by time", store.Query{To: middle}),
		combined("failed roots of a workflow with a tag", store.Query{Workflow: routeOf(1).Workflow, Statuses: failed, Roots: true, Tags: map[string]string{"region": "us"}}),
		combined("failed before a time", store.Query{Statuses: failed, To: middle}),
		list("workflow id that none has", store.Query{WorkflowID: "nobody"}),
		list("group of failures", store.Query{Group: "f1-000000000007"}),
		count("count all", store.Query{}),
		count("count a workflow", store.Query{Workflow: routeOf(1).Workflow}),
		count("count failed roots", store.Query{Statuses: failed, Roots: true}),
	}
	return append(all, pages(admin.New(client))...), nil
}

// pages returns the queries of the pages of the console and of the flowctl commands that show more
// than a list.
func pages(s *admin.Service) []question {
	failures := func(name string, f admin.FailureFilter) question {
		return question{name: name, budget: ofPage, ask: func(ctx context.Context) (answer, error) {
			page, err := s.Failures(ctx, f)
			return answer{len(page.Groups), len(page.Groups), page.Partial}, err
		}}
	}
	newest := func(ctx context.Context) (string, error) { // newest returns the ID of the newest failed run, or "" if there is none.
		page, err := s.Runs(ctx, admin.Filter{Statuses: []string{"failed"}, Limit: 1})
		if err == nil && len(page.Runs) == 0 {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return page.Runs[0].ID, nil
	}
	return []question{
		failures("page of failures", admin.FailureFilter{}),
		failures("failures that are open", admin.FailureFilter{Open: true}),
		failures("failures of a workflow", admin.FailureFilter{Workflow: routeOf(1).Workflow}),
		{name: "page of a failed run, with its events", budget: ofPage, ask: func(ctx context.Context) (answer, error) {
			run, err := newest(ctx)
			if err != nil || run == "" {
				return answer{}, err
			}
			if _, err = s.Run(ctx, run); err != nil {
				return answer{}, err
			}
			page, err := s.Events(ctx, run, 1, 100)
			return answer{len(page.Events), len(page.Events), false}, err
		}},
		{name: "depths of the queues", budget: ofPage, ask: func(ctx context.Context) (answer, error) {
			page, err := s.Queues(ctx, admin.FleetFilter{})
			return answer{len(page.Queues), len(page.Queues), false}, err
		}},
	}
}

// Figure contains the duration and the result of one query.
type Figure struct {
	Store    string  `json:"store"`
	Runs     int     `json:"runs"`
	What     string  `json:"what"`
	P50ms    float64 `json:"p50ms"`
	P99ms    float64 `json:"p99ms"`
	BudgetMs float64 `json:"budgetMs"`
	Found    int     `json:"found"`
	Looked   int     `json:"looked"`
	Partial  bool    `json:"partial"` // the answer is partial, or a count is inexact
	Missed   bool    `json:"missed"`  // the duration exceeds the budget, or the answer of a query with a single filter is partial
}

// ask executes a query several times and returns its figure.
func ask(ctx context.Context, q question, times int) (Figure, error) {
	f := Figure{What: q.name, BudgetMs: ms(q.budget)}
	took := make([]time.Duration, times)
	for i := range took {
		begin := time.Now()
		got, err := q.ask(ctx)
		if err != nil {
			return f, fmt.Errorf("%s: %w", q.name, err)
		}
		took[i] = time.Since(begin)
		f.Found, f.Looked, f.Partial = got.found, got.looked, got.partial
	}
	slices.Sort(took)
	f.P50ms, f.P99ms = ms(took[times/2]), ms(took[times*99/100])
	f.Missed = f.Partial && !q.partial || f.P99ms > f.BudgetMs && !f.Partial
	return f, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
