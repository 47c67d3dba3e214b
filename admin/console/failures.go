package console

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/admin"
)

// failuresView is a list of failure groups.
type failuresView struct {
	Groups  []admin.FailureGroup
	Kinds   []choice
	Partial bool
	Older   string
	Command string
}

func failuresPage(q *request) (*view, error) {
	f := admin.FailureFilter{Cursor: q.query.Get("cursor"), Open: q.query.Get("all") == "", Limit: runsPerPage}
	kind := q.query.Get("kind")
	l := &failuresView{Command: q.h.command("failures")}
	if kind != "" {
		f.Kinds = []string{kind}
		l.Command += " --" + kind
	}
	page, err := q.service.Failures(q.ctx(), f)
	if err != nil {
		return nil, err
	}
	l.Groups, l.Partial = page.Groups, page.Partial
	at := func(kind, cursor string) string {
		values := url.Values{}
		if kind != "" {
			values.Set("kind", kind)
		}
		if cursor != "" {
			values.Set("cursor", cursor)
		}
		if !f.Open {
			values.Set("all", "true")
		}
		return q.h.cfg.Prefix + "failures?" + values.Encode()
	}
	l.Kinds = []choice{{"All", at("", ""), kind == ""}}
	for _, k := range admin.FailureKinds() {
		l.Kinds = append(l.Kinds, choice{k, at(k, ""), k == kind})
	}
	if page.Cursor != "" {
		l.Older = at(kind, page.Cursor)
	}
	return &view{name: "failures", Title: "Failures", Nav: "failures", Live: true, Data: l}, nil
}

// alertsView is a list of alerts.
type alertsView struct {
	admin.AlertPage
	Target  string // selects the alerts to this target; empty selects all
	Older   string
	Problem *admin.Problem
	Command string
}

func alertsPage(q *request) (*view, error) {
	l := &alertsView{Target: oneLine(q.query.Get("target")), Command: q.h.command("alerts")}
	if l.Target != "" {
		l.Command += " --target " + shell(l.Target)
	}
	v := &view{name: "alerts", Title: "Alerts", Nav: "alerts", Live: true, Data: l}
	page, err := admin.Alerts(q.ctx(), q.service, admin.AlertFilter{Target: l.Target, Cursor: q.query.Get("cursor"), Limit: runsPerPage})
	if p := admin.ProblemOf(err); p != nil {
		if p.Code != admin.CodeInput {
			return nil, err
		}
		l.Problem, v.Status, v.Live = p, p.Status, false
	}
	l.AlertPage, l.Older = page, nextPage(q, page.Cursor)
	return v, nil
}

const (
	groupsKept   = 4000 // number of cached groups, about 1 KB each
	groupsAtOnce = 20   // maximum number of groups that one drawing of a page reads; the next drawings read the others
)

// groups caches the texts of failure groups. The ID of a group is derived from its text, so the
// text never changes. Each principal has a cache of its own.
type groups struct {
	mu   sync.Mutex
	said map[groupKey]string
}

type groupKey struct {
	group string
	who   admin.Principal
}

func newGroups() *groups { return &groups{said: map[groupKey]string{}} }

func (g *groups) get(key groupKey) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, ok := g.said[key]
	return text, ok
}

func (g *groups) keep(key groupKey, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.said) >= groupsKept {
		clear(g.said)
	}
	g.said[key] = text
}

// said returns the failure texts of runs, by failure group. It omits groups that the reader may not
// read.
func (q *request) said(runs []admin.Run) map[string]string {
	all := map[string]string{}
	asked := 0
	for i := range runs {
		key := groupKey{runs[i].Group, q.who}
		if _, known := all[key.group]; known || key.group == "" {
			continue
		}
		text, known := q.h.groups.get(key)
		if !known && asked < groupsAtOnce {
			asked++
			page, err := q.service.Failures(q.ctx(), admin.FailureFilter{Group: key.group, Limit: 1})
			if err == nil && len(page.Groups) == 1 {
				text, known = saidOf(&page.Groups[0]), true
				q.h.groups.keep(key, text)
			}
		}
		if known {
			all[key.group] = text
		}
	}
	return all
}

func saidOf(g *admin.FailureGroup) string {
	if g.Step != "" {
		return cut(200, g.Step+": "+g.Message)
	}
	return cut(200, g.Message)
}

// diffLine is a line of a diff.
type diffLine struct {
	Kind string // -, + or a space
	Text string // text of the line, including its sign
}

// maxDiffLines is the maximum number of lines of a diff that are shown.
const maxDiffLines = 200

// diffLines parses a diff whose lines begin with -, + or a space.
func diffLines(text string) []diffLine {
	if text == "" {
		return nil
	}
	var all []diffLine
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if len(all) == maxDiffLines {
			return append(all, diffLine{" ", "…"})
		}
		kind := " "
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			kind = line[:1]
		}
		all = append(all, diffLine{kind, cutLines([]byte(line))})
	}
	return all
}

// compare returns the diff of two texts. It marks lines that only the first text contains with -,
// and lines that only the second text contains with +.
func compare(before, after string) []diffLine {
	a, b := linesOf(before), linesOf(after)
	// longest[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i, v := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if v == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var all []diffLine
	add := func(kind, line string) {
		all = append(all, diffLine{kind, kind + " " + cutLines([]byte(line))})
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			add(" ", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			add("-", a[i])
			i++
		default:
			add("+", b[j])
			j++
		}
	}
	return all
}

// linesOf returns the first lines of a text, up to the maximum for diffs.
func linesOf(text string) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > maxDiffLines {
		all = append(all[:maxDiffLines:maxDiffLines], "…")
	}
	return all
}

// attemptView is the result of an attempt of a step, and its difference from the preceding attempt.
type attemptView struct {
	Number  int
	Failure *admin.Failure
	Diff    []diffLine // difference from the preceding attempt; nil for the first attempt, or if nothing differs
	Same    bool       // whether the result equals that of the preceding attempt
}

// attemptsOf compares the failures of consecutive attempts.
func attemptsOf(failures []*admin.Failure) []attemptView {
	var all []attemptView
	for i, f := range failures {
		v := attemptView{Number: i + 1, Failure: f}
		if i > 0 {
			before, after := failureText(failures[i-1]), failureText(f)
			if v.Same = before == after; !v.Same {
				v.Diff = compare(before, after)
			}
		}
		all = append(all, v)
	}
	return all
}

// failureText returns all values of a failure by which it may differ from another, one per line.
func failureText(f *admin.Failure) string {
	var s strings.Builder
	s.WriteString(f.Message)
	if f.Code != "" {
		s.WriteString("\ncode: " + f.Code)
	}
	if len(f.Data) > 0 {
		s.WriteString("\ndata: " + cutLines(f.Data))
	}
	if f.Stack != "" {
		s.WriteString("\n" + f.Stack)
	}
	for _, cause := range f.Causes {
		s.WriteString("\nbecause of: " + failureText(cause))
	}
	return s.String()
}
