package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// runsPerPage is how many rows a list has.
const runsPerPage = 50

// runList has what the page of runs shows.
type runList struct {
	Line    string // the filter as it was typed
	Problem *admin.Problem
	Views   *viewTabs
	Counts  []statusCount
	Total   int
	Exact   bool
	Rows    []admin.Run
	Columns []string          // tags that have a column
	Said    map[string]string // what has happened to them, by group
	Partial bool
	Looked  int
	Older   string // the address of the next page; empty: there is none
	Newest  string // the address of the first page; empty: it is this one
	Chosen  []string
	Command string
	Any     bool // nothing was filtered out
}

// statusCount is how many runs have a status.
type statusCount struct {
	Status  string
	Runs    int
	Line    string // the filter that has only these
	Current bool
}

func runsPage(q *request) (*view, error) {
	line := oneLine(q.query.Get("q"))
	if ref := strings.TrimPrefix(line, "id:"); strings.HasPrefix(ref, "wrun_") && !strings.ContainsAny(ref, " :") {
		return nil, &redirection{link(q.h.cfg.Prefix, "runs", ref)}
	}
	list := &runList{Line: line, Views: q.viewTabs(line)}
	v := &view{name: "runs", Title: list.Views.Title, Nav: "runs", Live: true, Data: list}
	f, err := admin.ParseFilter(line, q.now)
	if err == nil {
		err = list.read(q, f)
	}
	if err != nil {
		list.Problem = admin.ProblemOf(err)
		v.Status, v.Live = list.Problem.Status, false
	}
	return v, nil
}

// read asks for the runs and how many there are.
func (l *runList) read(q *request, f admin.Filter) error {
	l.Any = flags(f) == ""
	l.Command = strings.TrimSpace(q.h.command("runs") + " " + flags(f))
	every := f
	every.Statuses = nil
	counts, err := q.service.Count(q.ctx(), every)
	if err != nil {
		return err
	}
	l.Exact = counts.Exact
	byStatus := map[string]int{}
	for _, c := range counts.Counts {
		byStatus[c.Status] += c.Runs
	}
	for _, s := range append(admin.Statuses(), "") {
		if n := byStatus[s]; n > 0 {
			l.Counts = append(l.Counts, statusCount{Status: s, Runs: n, Line: with(l.Line, s), Current: slices.Equal(f.Statuses, []string{s})})
		}
		if len(f.Statuses) == 0 || slices.Contains(f.Statuses, s) {
			l.Total += byStatus[s]
		}
	}
	f.Limit, f.Cursor = runsPerPage, q.query.Get("cursor")
	page, err := q.service.Runs(q.ctx(), f)
	if err != nil {
		return err
	}
	l.Rows, l.Partial, l.Looked = page.Runs, page.Partial, page.Looked
	l.Said = q.said(page.Runs)
	var tags []map[string]string
	for i := range page.Runs {
		tags = append(tags, page.Runs[i].Tags)
	}
	l.Columns = tagColumns(tags)
	if page.Cursor != "" {
		l.Older = changed(q, "cursor", page.Cursor)
	}
	if f.Cursor != "" {
		l.Newest = changed(q, "cursor", "")
	}
	return nil
}

// command returns a command of flowctl for the store of the console.
func (h *Handler) command(parts ...string) string {
	all := append([]string{"flowctl"}, strings.Fields(h.cfg.Flags)...)
	return strings.Join(append(all, parts...), " ")
}

// link returns the address of a page.
func link(prefix string, parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return prefix + strings.Join(parts, "/")
}

// nowOf says in a few words what a run does.
func nowOf(now time.Time, r *admin.Run) string {
	switch {
	case len(r.Retries) > 0:
		s := r.Retries[0]
		return cut(80, fmt.Sprintf("%s, attempt %d: %s", s.Step, s.Attempt, s.Failed))
	case len(r.WaitsFor) > 0:
		return cut(80, r.WaitsFor[0].String())
	case len(r.Waits) > 0:
		return cut(80, "waits for "+strings.Join(r.Waits, ", "))
	case !r.Due.IsZero() && r.EndedAt.IsZero():
		return "due " + ago(now, r.Due)
	}
	return ""
}

// statusOf returns the status of a run as people see it: one with a step that is tried again says so.
func statusOf(r *admin.Run) string {
	if r.Group != "" && r.EndedAt.IsZero() && r.Status != "blocked" && r.Status != "paused" {
		return "retrying"
	}
	return r.Status
}
