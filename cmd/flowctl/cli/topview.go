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
	head := []string{m.title(), m.tabLine(), m.countLine()}
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

func (m *topModel) tabLine() string {
	var all []string
	for i, name := range []string{"Runs", "Failures", "Queues", "Workers", "Limits", "Steps"} {
		if i == m.tab {
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	filter := cmp.Or(m.filterText, "all")
	if m.typing {
		filter = m.typed + "_"
	}
	return strings.Join(all, "  ") + "   / " + filter
}

// countLine returns a line with the number of matching runs by status.
func (m *topModel) countLine() string {
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
	line := cmp.Or(strings.Join(all, "  "), "no runs")
	if r := m.got.rates; r != nil && r.Workers > 0 {
		line += "   " + throughput(r)
	}
	return line
}

// throughput formats the numbers of runs and steps per second.
func throughput(r *admin.Rates) string {
	return fmt.Sprintf("started/s %s  ended/s %s  steps/s %s", admin.PerSecond(r.StartedPerSecond), admin.PerSecond(r.EndedPerSecond), admin.PerSecond(r.StepsPerSecond))
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
	head, rows := m.rows()
	if len(rows) == 0 {
		return []string{"  " + strings.Join(head, "  ")}
	}
	at := m.at[m.tab]
	from := min(max(at-(n-1)/2, 0), max(len(rows)-(n-1), 0))
	shown := append([][]string{head}, rows[from:min(from+n-1, len(rows))]...)
	widths := m.fit(shown)
	lines := make([]string, len(shown))
	for i, row := range shown {
		lines[i] = "  "
		if i > 0 && from+i-1 == at {
			lines[i] = mark
		}
		for j, width := range widths {
			lines[i] += runewidth.FillRight(runewidth.Truncate(row[j], width, "…"), width) + "  "
		}
		lines[i] += row[len(row)-1]
	}
	return lines
}

// fit passes all cells through clean and returns the widths of all columns except the last. The
// last column is cut at the end of the line. fit narrows the widest columns until the last one has
// its minimum width.
func (m *topModel) fit(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = clean(row[i])
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
		}
	}
	last := len(widths) - 1
	left := m.width - len(mark) - min(widths[last], lastWidth)
	widths = widths[:last]
	for _, width := range widths {
		left -= width + len("  ")
	}
	for ; left < 0; left++ {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= leastWidth {
			break
		}
		widths[widest]--
	}
	return widths
}

const (
	// lastWidth is the minimum width of the last column, and leastWidth is the minimum width of the
	// others.
	lastWidth  = 14
	leastWidth = 6
)

// rows returns the head and the rows of the current list.
func (m *topModel) rows() (head []string, rows [][]string) {
	ago := func(t time.Time) string { return took(m.now().Sub(t).Truncate(time.Second)) }
	left := func(t time.Time) string { return took(t.Sub(m.now()).Truncate(time.Second)) }
	switch m.tab {
	case tabRuns:
		return topRows(m, named(admin.RunColumns, "status", "workflow", "workflowId", "took", "events", "now"), m.got.runs, ago)
	case tabFailures:
		return topRows(m, named(admin.FailureColumns, "kind", "runs", "open", "last", "place", "message"), m.got.failures, ago)
	case tabQueues: // The columns for limits do not fit.
		return topRows(m, named(admin.QueueColumns, "queue", "workflow", "ready", "oldest", "running", "waiting", "parked", "blocked", "workers"), m.got.queues, ago)
	case tabWorkers:
		return topRows(m, named(admin.WorkerColumns, "live", "name", "build", "running", "lease", "serves"), m.got.workers, left)
	case tabLimits:
		return topRows(m, named(admin.PoolColumns, "name", "key", "inUse", "atOnce", "rate", "waits", "next", "state"), m.got.pools, left)
	case tabSteps:
		return topRows(m, admin.StepRateColumns, m.got.steps(), ago)
	}
	return nil, nil
}

// topRows returns the head and the rows of a list. The function at formats times.
func topRows[T any](m *topModel, columns []admin.Column[T], all []T, at func(time.Time) string) (head []string, rows [][]string) {
	now := m.now().Truncate(time.Second)
	for i := range all {
		rows = append(rows, cellsOf(columns, &all[i], now, at))
	}
	head = headOf(columns)
	for i, title := range head {
		head[i] = cmp.Or(topTitles[m.tab][title], title)
	}
	return head, rows
}

// topTitles contains shorter titles for narrow columns.
var topTitles = map[int]map[string]string{
	tabRuns:   {"TOOK": "AGE"},
	tabQueues: {"RUNNING": "RUN", "WAITING": "WAIT", "PARKED": "PARK", "BLOCKED": "BLOCK"},
}
