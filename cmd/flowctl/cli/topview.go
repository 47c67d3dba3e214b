package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/mattn/go-runewidth"

	"github.com/flowgen/flowgen/admin"
)

// View draws the screen. It passes all texts through clean, so that data of the store cannot
// control the terminal. The result fits into the terminal.
func (m *topModel) View() string {
	head := []string{m.title(), m.tabLine(), m.countLine(m.width)}
	foot := m.footLine()
	rest := max(m.height-len(head)-1, 1)
	var body []string
	switch {
	case m.help:
		body = topHelp
	case m.open != "":
		body = m.runLines()
	default:
		body = m.table(rest)
	}
	body = slices.Clone(body[:min(len(body), rest)])
	for len(body) < rest {
		body = append(body, "")
	}
	lines := slices.Concat(head, body, []string{foot})
	for i, line := range lines {
		lines[i] = m.paint(i, m.cut(line), line)
	}
	return strings.Join(lines[:min(len(lines), max(m.height, 1))], "\n")
}

// cut passes a line through clean and shortens it to the width of the terminal.
func (m *topModel) cut(line string) string {
	return strings.TrimRight(runewidth.Truncate(clean(line), max(m.width, 1), "…"), " ")
}

// mark is the prefix of the selected line. It is visible without colors.
const mark = "> "

// paint adds colors to a line if the terminal has colors.
func (m *topModel) paint(i int, line, whole string) string {
	style := m.renderer.NewStyle()
	switch {
	case i == 0:
		return style.Bold(true).Render(line)
	case i == 3 && !m.help && m.open == "":
		return style.Faint(true).Render(line)
	case strings.HasPrefix(line, mark):
		return style.Reverse(true).Render(line)
	}
	for status, color := range topColors {
		if strings.HasPrefix(strings.TrimSpace(whole), status+" ") {
			return style.Foreground(color).Render(line)
		}
	}
	return line
}

// topColors contains the color of each line by the first word of the line.
var topColors = map[string]lipgloss.Color{"failed": "1", "blocked": "5", "retrying": "3", "silent": "1"}

func (m *topModel) title() string {
	state := "asking …"
	switch {
	case m.err != nil:
		state = fmt.Sprintf("no answer for %s, as of %s: %s", took(m.now().Sub(m.failedSince).Truncate(time.Second)), clock(m.got.at), problemText(m.err))
	case !m.got.at.IsZero():
		state = "as of " + clock(m.got.at)
	}
	return "flowctl top  " + state + "  " + m.where
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.TimeOnly)
}

// tabLine returns a line with the names of the lists. If they do not fit, it has only the name and
// the position of the current list.
func (m *topModel) tabLine() string {
	names := []string{"Runs", "Failures", "Queues", "Workers", "Limits", "Steps"}
	name := "[" + names[m.tab] + "]"
	names[m.tab] = name
	line := strings.Join(names, "  ")
	if len(line) > m.width {
		line = fmt.Sprintf("%s %d/%d", name, m.tab+1, len(names))
	}
	filter := cmp.Or(m.filterText, "all")
	if m.typing {
		filter = m.typed + "_"
	}
	return line + "   / " + filter
}

// countLine returns a line with the number of matching runs by status, and the throughput. It has
// the figures that fit into the given width.
func (m *topModel) countLine(width int) string {
	sums, approx := map[string]int{}, ""
	for _, n := range m.got.counts.Counts {
		sums[cmp.Or(n.Status, "not ended")] += n.Runs
	}
	if !m.got.counts.Exact {
		approx = "~"
	}
	var all []string
	for _, status := range append(admin.Statuses(), "not ended") {
		if sums[status] > 0 {
			all = append(all, fmt.Sprintf("%s %s%d", status, approx, sums[status]))
		}
	}
	if m.got.at.IsZero() {
		return ""
	}
	if len(all) == 0 {
		all = []string{"no runs"}
	}
	if r := m.got.rates; r != nil && r.Workers > 0 {
		all = append(all, throughput(r)...)
	}
	line := strings.Join(all, "  ")
	for len(all) > 0 && len(line) > width {
		all = all[:len(all)-1]
		line = strings.Join(append(all, "…"), "  ")
	}
	return line
}

// throughput formats the numbers of runs and steps per second.
func throughput(r *admin.Rates) []string {
	return []string{"started/s " + admin.PerSecond(r.StartedPerSecond), "ended/s " + admin.PerSecond(r.EndedPerSecond), "steps/s " + admin.PerSecond(r.StepsPerSecond)}
}

func (m *topModel) footLine() string {
	switch {
	case m.confirm != nil:
		return fmt.Sprintf("%s %s? [y/N]", m.confirm.verb, m.confirm.name)
	case m.says != "":
		return m.says
	case m.typing:
		return "enter: use the filter   esc: leave it"
	case m.tab == tabQueues && m.at[tabQueues] < len(m.got.queues) && m.got.queues[m.at[tabQueues]].Fix != "":
		return m.got.queues[m.at[tabQueues]].Fix
	case m.open != "":
		return "j k scroll   c cancel  p pause  r resume  t retry   esc back   ? keys   q quit"
	}
	return "j k move   enter open   tab list   / filter   c p r t act   ? keys   q quit"
}

// runLines returns the lines of the open run, beginning at the scroll position.
func (m *topModel) runLines() []string {
	if m.got.opened != m.open || m.got.lines == nil {
		return []string{"run " + m.open + " …"}
	}
	return m.got.lines[min(m.scroll, len(m.got.lines)-1):]
}

// table draws a list in n lines, including the head. It draws the part around the selected line.
func (m *topModel) table(n int) []string {
	l := m.list()
	rows := l.rows
	if len(rows) == 0 {
		return []string{"  " + strings.Join(l.head, "  ")}
	}
	at := m.at[m.tab]
	from := min(max(at-(n-1)/2, 0), max(len(rows)-(n-1), 0))
	l.rows = append([][]string{l.head}, rows[from:min(from+n-1, len(rows))]...)
	shown, widths := l.fit(m.width - len(mark))
	lines := make([]string, len(l.rows))
	for i, row := range l.rows {
		lines[i] = "  "
		if i > 0 && from+i-1 == at {
			lines[i] = mark
		}
		for k, j := range shown[:len(shown)-1] {
			lines[i] += runewidth.FillRight(runewidth.Truncate(row[j], widths[k], "…"), widths[k]) + "  "
		}
		lines[i] += row[shown[len(shown)-1]]
	}
	return lines
}

// topList is a list before it is drawn.
type topList struct {
	head, names []string // titles and names of the columns
	whole       []bool   // columns whose cells must not be cut: figures and states
	rows        [][]string
	drop        []string // names of columns, ordered from the least important one
}

// fit passes all cells through clean, and returns the columns that fit into the given width, with
// their widths. It omits columns in the order of drop, then from the right, until the others fit with
// their minimum widths, and narrows the widest texts. The last column is cut at the end of the line.
func (l *topList) fit(width int) (shown, widths []int) {
	natural := make([]int, len(l.head))
	for _, row := range l.rows {
		for i := range row {
			row[i] = clean(row[i])
			natural[i] = max(natural[i], runewidth.StringWidth(row[i]))
		}
	}
	for i := range l.head {
		shown = append(shown, i)
	}
	least := func(k int) int {
		switch i := shown[k]; {
		case l.whole[i]:
			return natural[i]
		case k == len(shown)-1:
			return min(natural[i], lastWidth)
		default:
			return min(natural[i], leastWidth)
		}
	}
	for drop := l.drop; len(shown) > 1; {
		need := -len("  ")
		for k := range shown {
			need += least(k) + len("  ")
		}
		if need <= width {
			break
		}
		gone := len(shown) - 1
		if len(drop) > 0 {
			gone = slices.Index(shown, slices.Index(l.names, drop[0]))
			drop = drop[1:]
		}
		shown = slices.Delete(shown, gone, gone+1)
	}
	last := len(shown) - 1
	left := width - least(last)
	for _, i := range shown[:last] {
		widths = append(widths, natural[i])
		left -= natural[i] + len("  ")
	}
	for ; left < 0; left++ {
		widest := -1
		for k, w := range widths {
			if w > least(k) && (widest < 0 || w > widths[widest]) {
				widest = k
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return shown, widths
}

const (
	// lastWidth is the minimum width of a text in the last column, and leastWidth is the minimum
	// width of the other texts.
	lastWidth  = 14
	leastWidth = 6
)

// list returns the current list.
func (m *topModel) list() *topList {
	ago := func(t time.Time) string { return took(m.now().Sub(t).Truncate(time.Second)) }
	left := func(t time.Time) string { return took(t.Sub(m.now()).Truncate(time.Second)) }
	switch m.tab {
	case tabRuns:
		return topListOf(m, named(admin.RunColumns, "status", "workflow", "workflowId", "took", "events", "now"), m.got.runs, ago, "events", "took", "now")
	case tabFailures:
		return topListOf(m, named(admin.FailureColumns, "kind", "runs", "open", "last", "place", "message"), m.got.failures, ago, "last", "runs", "kind")
	case tabQueues: // The columns for limits do not fit.
		served := named(admin.QueueColumns, "queue", "workflow", "ready", "oldest", "running", "waiting", "parked", "blocked", "workers")
		served[len(served)-1].Kind = admin.KindText // a sentence if there are none
		return topListOf(m, served, m.got.queues, ago, "parked", "blocked", "waiting", "workers", "running", "queue", "oldest")
	case tabWorkers:
		return topListOf(m, named(admin.WorkerColumns, "live", "name", "build", "running", "lease", "serves"), m.got.workers, left, "lease", "serves", "build", "live")
	case tabLimits:
		return topListOf(m, named(admin.PoolColumns, "name", "key", "inUse", "atOnce", "rate", "waits", "next", "state"), m.got.pools, left, "next", "state", "rate", "key", "atOnce")
	default:
		return topListOf(m, admin.StepRateColumns, m.got.steps(), ago, "p50", "p95", "perSecond")
	}
}

// topListOf returns a list. The function at formats times.
func topListOf[T any](m *topModel, columns []admin.Column[T], all []T, at func(time.Time) string, drop ...string) *topList {
	l, now := &topList{head: headOf(columns), drop: drop}, m.now().Truncate(time.Second)
	for i := range all {
		l.rows = append(l.rows, cellsOf(columns, &all[i], now, at))
	}
	for i, col := range columns {
		l.head[i] = cmp.Or(topTitles[m.tab][l.head[i]], l.head[i])
		l.names = append(l.names, col.Name)
		figure := col.Kind == admin.KindNumber || col.Kind == admin.KindTime || col.Kind == admin.KindSpan
		l.whole = append(l.whole, figure || col.Name == "status" || col.Name == "kind" || col.Name == "live")
	}
	return l
}

// topTitles contains shorter titles for narrow columns.
var topTitles = map[int]map[string]string{
	tabRuns:   {"TOOK": "AGE"},
	tabQueues: {"RUNNING": "RUN", "WAITING": "WAIT", "PARKED": "PARK", "BLOCKED": "BLOCK"},
}
