package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// runsPerPage is the number of rows of a list.
const runsPerPage = 50

// runList is the page of runs.
type runList struct {
	Line    string // filter as typed
	Problem *admin.Problem
	Views   *viewTabs
	Counts  []statusCount
	Total   int
	Exact   bool
	Rows    []admin.Run
	Columns []string          // names of the tags that have a column of their own
	Said    map[string]string // failure texts of the runs, by failure group
	Partial bool
	Looked  int
	Older   string // URL of the next page; empty on the last page
	Newest  string // URL of the first page; empty on the first page
	Chosen  []string
	Command string
	Any     bool // whether the filter is empty
}

// statusCount is the number of runs with a status.
type statusCount struct {
	Status  string
	Runs    int
	Line    string // filter for this status
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

// read reads the runs and their counts.
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

// command returns a flowctl command for the store of the console.
func (h *Handler) command(parts ...string) string {
	all := append([]string{"flowctl"}, strings.Fields(h.cfg.Flags)...)
	return strings.Join(append(all, parts...), " ")
}

// link returns the URL of a page.
func link(prefix string, parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return prefix + strings.Join(parts, "/")
}

// nowOf describes the current activity of a run in a few words.
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

// statusOf returns the status of a run for display. It is retrying if a step of the run is being
// retried.
func statusOf(r *admin.Run) string {
	if r.Group != "" && r.EndedAt.IsZero() && r.Status != "blocked" && r.Status != "paused" {
		return "retrying"
	}
	return r.Status
}

// with returns the text of a filter with the status replaced. If status is empty, the text has no
// status.
func with(line, status string) string {
	var kept []string
	for _, w := range admin.SplitWords(line) {
		if !strings.HasPrefix(w, "status:") {
			kept = append(kept, quote(w))
		}
	}
	if status != "" {
		kept = append([]string{"status:" + status}, kept...)
	}
	return strings.Join(kept, " ")
}

// quote quotes a word of a filter if necessary.
func quote(w string) string {
	if strings.ContainsAny(w, " \t\n") {
		return `"` + w + `"`
	}
	return w
}

// condition is a part of a filter. A condition without a value is a flag.
type condition struct{ name, value string }

// conditions returns the parts of a filter.
func conditions(f admin.Filter) (all []condition) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, condition{name, value})
		}
	}
	add("status", strings.Join(f.Statuses, ","))
	add("workflow", f.Workflow)
	add("queue", f.Queue)
	add("id", f.WorkflowID)
	for _, k := range slices.Sorted(maps.Keys(f.Tags)) {
		add("tag", k+"="+f.Tags[k])
	}
	add("parent", f.Parent)
	add("root", f.Root)
	add("group", f.Group)
	add("since", day(f.Since))
	add("until", day(f.Until))
	for _, word := range []struct {
		name string
		on   bool
	}{{"failing", f.Failing}, {"children", f.Children}, {"system", f.System}} {
		if word.on {
			all = append(all, condition{name: word.name})
		}
	}
	return all
}

// flags formats a filter as flags of flowctl.
func flags(f admin.Filter) string {
	var all []string
	for _, c := range conditions(f) {
		flag := "--" + c.name
		if c.value != "" {
			flag += " " + shell(c.value)
		}
		all = append(all, flag)
	}
	return strings.Join(all, " ")
}

// day formats a time for a flag. It returns the empty string for the zero time.
func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// shell quotes a word for a shell.
func shell(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// lineOf formats a filter in the syntax in which users type it.
func lineOf(f admin.Filter) string {
	var all []string
	for _, c := range conditions(f) {
		word := c.name
		if c.value != "" {
			word = quote(c.name + ":" + c.value)
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}
