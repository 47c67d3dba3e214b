package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// question is something that operators ask.
type question struct {
	name   string
	budget time.Duration
	q      store.Query
	counts bool
}

func questions(middle time.Time) []question {
	const list, count = 50 * time.Millisecond, 20 * time.Millisecond
	failed := []event.Status{event.StatusFailed}
	return []question{
		{"newest page", list, store.Query{}, false},
		{"oldest page", list, store.Query{Oldest: true}, false},
		{"started by users", list, store.Query{Started: true}, false},
		{"roots only", list, store.Query{Roots: true}, false},
		{"failed", list, store.Query{Statuses: failed}, false},
		{"running", list, store.Query{Statuses: []event.Status{event.StatusRunning}}, false},
		{"frequent workflow", list, store.Query{Workflow: routeOf(0).Workflow}, false},
		{"rare workflow", list, store.Query{Workflow: routeOf(1<<12 - 1).Workflow}, false},
		{"unknown workflow", list, store.Query{Workflow: "bench.unknown"}, false},
		{"tag of half of the runs", list, store.Query{Tags: map[string]string{"region": "eu"}}, false},
		{"tag of one in a thousand", list, store.Query{Tags: map[string]string{"region": "us"}}, false},
		{"tag that none has", list, store.Query{Tags: map[string]string{"region": "moon"}}, false},
		{"second half by time", list, store.Query{To: middle}, false},
		{"failed roots of a workflow with a tag", list, store.Query{Workflow: routeOf(1).Workflow, Statuses: failed, Roots: true, Tags: map[string]string{"region": "us"}}, false},
		{"failed before a time", list, store.Query{Statuses: failed, To: middle}, false},
		{"workflow id that none has", list, store.Query{WorkflowID: "nobody"}, false},
		{"count all", count, store.Query{}, true},
		{"count a workflow", count, store.Query{Workflow: routeOf(1).Workflow}, true},
		{"count failed roots", count, store.Query{Statuses: failed, Roots: true}, true},
	}
}

// Figure is what one question took.
type Figure struct {
	Store    string  `json:"store"`
	Runs     int     `json:"runs"`
	What     string  `json:"what"`
	P50ms    float64 `json:"p50ms"`
	P99ms    float64 `json:"p99ms"`
	BudgetMs float64 `json:"budgetMs"`
	Found    int     `json:"found"`
	Looked   int     `json:"looked"`
	Partial  bool    `json:"partial"` // or a count that is not exact
	Missed   bool    `json:"missed"`
}

// ask asks a question several times.
func ask(ctx context.Context, s store.Store, a question, times int) (Figure, error) {
	lister, ok := store.As[store.Lister](s)
	if !ok {
		return Figure{}, errors.New("the store cannot be searched")
	}
	f := Figure{What: a.name, BudgetMs: ms(a.budget)}
	took := make([]time.Duration, times)
	for i := range took {
		begin := time.Now()
		if a.counts {
			counts, err := lister.Count(ctx, a.q)
			if err != nil {
				return f, fmt.Errorf("%s: %w", a.name, err)
			}
			f.Found, f.Looked, f.Partial = counts.Total(), counts.Looked, !counts.Exact
		} else {
			page, err := lister.List(ctx, a.q)
			if err != nil {
				return f, fmt.Errorf("%s: %w", a.name, err)
			}
			f.Found, f.Looked, f.Partial = len(page.Runs), page.Looked, page.Partial
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	f.P50ms, f.P99ms = ms(took[times/2]), ms(took[times*99/100])
	f.Missed = f.P99ms > f.BudgetMs && !f.Partial
	return f, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
