package suite

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Audit returns the audit entries of a run.
func (h *Harness) Audit(run event.RunID) []store.AuditEntry {
	h.Helper()
	a, _ := store.As[store.Auditor](h.Store)
	got, err := a.Audit(h.Ctx, run)
	h.Check("audit", err)
	return got
}

// Fleet returns the fleet of the store.
func (h *Harness) Fleet() store.Fleet {
	h.Helper()
	teller, _ := store.As[store.FleetTeller](h.Store)
	f, err := teller.Fleet(h.Ctx)
	h.Check("fleet", err)
	return f
}

// SortedAudit returns audit entries sorted, so that the entries of two snapshots can be compared.
func SortedAudit(all []store.AuditEntry) []store.AuditEntry {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b store.AuditEntry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Epoch, b.Epoch))
	})
	return all
}

// List returns all runs that match a query. It reads page by page.
func (h *Harness) List(q store.Query) []event.RunID {
	h.Helper()
	l, _ := store.As[store.Lister](h.Store)
	var runs []event.RunID
	for range 1000 {
		page, err := l.List(h.Ctx, q)
		h.Check("list", err)
		if q.Limit > 0 && len(page.Runs) > q.Limit {
			h.Fatalf("list: got %d runs on a page of %d", len(page.Runs), q.Limit)
		}
		for _, r := range page.Runs {
			runs = append(runs, r.Run)
		}
		if page.Cursor == "" {
			return runs
		}
		q.Cursor = page.Cursor
	}
	h.Fatalf("list: no end after 1000 pages, %d runs", len(runs))
	return nil
}

// Count returns how many runs of each status match a query.
func (h *Harness) Count(q store.Query) map[event.Status]int {
	h.Helper()
	l, _ := store.As[store.Lister](h.Store)
	got, err := l.Count(h.Ctx, q)
	h.Check("count", err)
	h.Equal("the count is exact", got.Exact, true)
	if got.Runs == nil {
		return nil
	}
	return got.ByStatus()
}

// Listed starts runs that differ in every field that a query can select. It returns their logs,
// newest first.
func (h *Harness) Listed() []*Log {
	h.Helper()
	s := h.Session()
	parent := h.RunID()
	ends := []event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCompleted}
	var logs []*Log
	for n := range 8 {
		h.Clock.Advance(time.Second)
		route := Orders
		if n%2 == 1 {
			route = Refunds
		}
		l := h.NewLog(route, "")
		l.Spec.Tags = map[string]string{"even": []string{"yes", "no"}[n%2], "n": string(rune('0' + n))}
		if n >= 6 {
			l.Spec.Parent, l.Spec.Root = parent, parent
		}
		h.Create(l.Create())
		if n < len(ends) {
			h.Finish(l, h.Own(s, l), ends[n])
		} else {
			h.Own(s, l)
		}
		logs = append(logs, l)
	}
	slices.Reverse(logs)
	return logs
}

// SetStepData stores step data of an owned run under a key, and returns the error of the store.
func (h *Harness) SetStepData(l *Log, fence store.Fence, key, body string) error {
	n, _ := store.As[store.StepDataStore](h.Store)
	return n.SetStepData(h.Ctx, l.Run, fence, key, []byte(body), false)
}

// StepData returns the step data of a run by key.
func (h *Harness) StepData(run event.RunID) map[string]string {
	h.Helper()
	n, _ := store.As[store.StepDataStore](h.Store)
	got, err := n.StepData(h.Ctx, run)
	h.Check("step data", err)
	texts := map[string]string{}
	for key, body := range got {
		texts[key] = string(body)
	}
	return texts
}
