package cli

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/google/go-cmp/cmp"
	"github.com/mattn/go-runewidth"
	"github.com/muesli/termenv"

	"github.com/flowgen/flowgen/admin"
)

var updateFrames = flag.Bool("frames", false, "write the frames of top")

const hostile = "e\x1b]0;x\x07\u202evil\x00\n"

var topNow = time.Date(2026, 11, 24, 14, 2, 11, 0, time.UTC)

// topOf returns the model of top with a result for each list, without colors.
func topOf(width, height int) *topModel {
	m := newTop(nil, &command{url: "redis://ada:secret@host:6379/0"}) //nolint:staticcheck // nothing is asked
	m.now, m.renderer = func() time.Time { return topNow }, lipgloss.NewRenderer(&strings.Builder{}, termenv.WithProfile(termenv.Ascii))
	m.width, m.height = width, height
	at := func(d time.Duration) time.Time { return topNow.Add(-d) }
	runs := []admin.Run{
		{ID: "wrun_01M8BPMFVEQDFQXTCPWXTJ3T5X", WorkflowID: "order-4711", Workflow: "orders.fulfil", Status: "failed", CreatedAt: at(2 * time.Minute), Events: 23, Group: "f1-9c0e11a2b3d4"},
		{ID: "wrun_01M8BPMFVE1JNWX5VQHA56FTA7", Workflow: "orders.fulfil", Status: "running", CreatedAt: at(3 * time.Minute), Events: 19},
		{ID: "wrun_01M8BPMFVE1JNWX5VQHA56FTA8", WorkflowID: hostile, Workflow: hostile, Status: "sleeping", CreatedAt: at(3 * time.Hour), Due: topNow.Add(time.Hour), Events: 7},
		{ID: "wrun_01M8BPMFVE1JNWX5VQHA56FTA9", WorkflowID: strings.Repeat("注文", 30), Workflow: "render", Status: "waiting", CreatedAt: at(50 * time.Hour), Events: 1_000_000, Waits: []string{"gpu"}, WaitsSince: at(time.Hour)},
	}
	m.number = 1
	m.take(round{asked: question{tab: tabRuns, number: 1}, at: topNow, runs: runs, counts: admin.Counts{Counts: []admin.Counted{{Status: "failed", Runs: 1204}, {Status: "running", Runs: 214}, {Status: "", Runs: 9}}}})
	m.got.failures = []admin.FailureGroup{{Group: "f1-9c0e11a2b3d4", Kind: "failed", Workflow: "orders.fulfil", Step: "charge", Message: "declined: §" + hostile, Last: at(time.Minute), Runs: 1102, Open: 1100}}
	m.got.queues = []admin.Queue{
		{Queue: "default", Workflow: "orders.fulfil", Ready: 3, Running: 214, Oldest: at(2 * time.Second), Workers: 4, Exact: true},
		{Queue: "gpu", Workflow: "media.render", Ready: 7, Oldest: at(2 * time.Hour), Fix: "start a worker that registers media.render and has the queue gpu in worker.Config.Queues"},
		{Queue: hostile, Workflow: hostile, Parked: 1, Workers: 1, Exact: true},
	}
	m.got.workers = []admin.Worker{
		{Name: "web-3/4711", Build: "7f3a9c0e11a2b3d4", Live: true, Lease: at(-20 * time.Second), Running: 210, Serves: []admin.Served{{Queue: "default", Workflow: "a"}, {Queue: "default", Workflow: "b"}, {Queue: "slow", Workflow: "c"}}},
		{Name: hostile, Lease: at(time.Minute), Serves: []admin.Served{{Queue: hostile, Workflow: hostile}}},
	}
	m.got.pools = []admin.Pool{
		{Name: "gpu", PoolConfig: admin.PoolConfig{AtOnce: 8}, InUse: 8, Waits: 112},
		{Name: hostile, Key: hostile, InUse: 1},
	}
	m.got.rates = &admin.Rates{Workers: 3, StartedPerSecond: 31.25, EndedPerSecond: 9.7, StepsPerSecond: 128.4, Steps: []admin.StepRate{
		{Step: "orders.charge", PerSecond: 120, P50Ms: 12.4, P95Ms: 810, P99Ms: 2140},
		{Step: hostile, PerSecond: 8.333, P50Ms: 0.2, P95Ms: 61_000, P99Ms: 7_200_000},
		{PerSecond: 0.067, P50Ms: 1, P95Ms: 1, P99Ms: 999.9},
	}}
	return m
}

func press(m *topModel, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}
		switch k {
		case "enter":
			msg = tea.KeyMsg{Type: tea.KeyEnter}
		case "tab":
			msg = tea.KeyMsg{Type: tea.KeyTab}
		case "esc":
			msg = tea.KeyMsg{Type: tea.KeyEsc}
		}
		m.Update(msg)
	}
}

// The test proves that top draws exactly the frames in testdata, in three terminal sizes and without
// colors. No line is wider than the terminal, and no frame contains control characters.
func TestOPS1_TopDrawsTheseFrames(t *testing.T) {
	sizes := map[string][2]int{"80x24": {80, 24}, "120x40": {120, 40}, "40x24": {40, 24}, "20x6": {20, 6}}
	states := map[string]func(m *topModel){
		"runs": func(*topModel) {}, "second": func(m *topModel) { press(m, "j") },
		"failures": func(m *topModel) { press(m, "tab") }, "queues": func(m *topModel) { press(m, "tab", "tab") }, "unserved": func(m *topModel) { press(m, "tab", "tab", "j") }, "workers": func(m *topModel) { press(m, "tab", "tab", "tab") },
		"limits": func(m *topModel) { press(m, "tab", "tab", "tab", "tab") }, "steps": func(m *topModel) { press(m, "tab", "tab", "tab", "tab", "tab") },
		"help": func(m *topModel) { press(m, "?") }, "confirm": func(m *topModel) { press(m, "j", "j", "c") },
		"filter": func(m *topModel) { press(m, "/", "status:failed") },
		"outage": func(m *topModel) {
			m.now = func() time.Time { return topNow.Add(12 * time.Second) }
			m.answered(round{asked: question{number: 1}, at: topNow, err: errors.New("dial tcp: connection refused" + hostile)})
		},
		"run": func(m *topModel) {
			press(m, "enter")
			m.take(round{asked: question{open: m.open}, opened: m.open, at: topNow, lines: strings.Split(strings.Repeat("a line of the run "+hostile+"\t\x9b", 60), "\t")})
			press(m, "j")
		},
	}
	for size, n := range sizes {
		for state, do := range states {
			m := topOf(n[0], n[1])
			do(m)
			frame := m.View()
			checkFrame(t, size+" "+state, frame, n[0], n[1])
			if size == "20x6" {
				continue // Only the size of this frame is checked.
			}
			file := filepath.Join("testdata", "top", size, state+".txt")
			if *updateFrames {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(frame+"\n"), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), frame+"\n"); diff != "" {
				t.Errorf("%s differs; go test ./cli -frames writes it (-want +got):\n%s", file, diff)
			}
		}
	}
}

// The test proves that a narrow terminal omits columns, and cuts no figure of a list and none of the
// line with the counts.
func TestOPS1_TopCutsNoFigureInANarrowTerminal(t *testing.T) {
	figures := strings.Split("AGE,EVENTS,RUNS,OPEN,LAST,READY,OLDEST,RUN,WAIT,PARK,BLOCK,RUNNING,LEASE,IN USE,LIMIT,RATE,WAITS,NEXT,PER SECOND,P50,P95,P99", ",")
	for tab := range tabs {
		for width := 10; width <= 140; width++ {
			m := topOf(width, 24)
			m.tab = tab
			l := m.list()
			l.rows = append([][]string{l.head}, l.rows...)
			shown, widths := l.fit(width - len(mark))
			for k, w := range widths {
				for _, row := range l.rows {
					if got := row[shown[k]]; slices.Contains(figures, l.head[shown[k]]) && runewidth.StringWidth(got) > w {
						t.Errorf("list %d, %d columns: column %s is %d wide, and %q is cut", tab, width, l.names[shown[k]], w, got)
					}
				}
			}
			if last := shown[len(shown)-1]; slices.Contains(figures, l.head[last]) {
				for _, line := range m.table(20) {
					if runewidth.StringWidth(strings.TrimRight(line, " ")) > width {
						t.Errorf("list %d, %d columns: the figure at the end of %q is cut", tab, width, line)
					}
				}
			}
			if line := m.countLine(width); runewidth.StringWidth(line) > width {
				t.Errorf("%d columns: the counts %q are cut", width, line)
			}
		}
	}
	m := topOf(40, 24)
	m.tab = tabQueues
	l := m.list()
	shown, _ := l.fit(40 - len(mark))
	var names []string
	for _, i := range shown {
		names = append(names, l.names[i])
	}
	if want := []string{"queue", "workflow", "ready", "oldest", "running"}; !slices.Equal(names, want) {
		t.Errorf("columns of the queues in 40 columns: got %v, want %v", names, want)
	}
}

func checkFrame(t *testing.T, what, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) > height {
		t.Errorf("%s: %d lines of %d", what, len(lines), height)
	}
	for _, line := range lines {
		if w := runewidth.StringWidth(line); w > width {
			t.Errorf("%s: a line is %d wide, of %d: %q", what, w, width, line)
		}
		if clean(line) != line {
			t.Errorf("%s: a terminal would obey what is in %q", what, line)
		}
	}
	if strings.Contains(frame, "secret") {
		t.Errorf("%s shows the password of the store", what)
	}
}

// The test proves that requests are at least a second apart regardless of the pressed keys, and
// that the result of an outdated request is not shown.
func TestOPS1_TopAsksOnceASecond(t *testing.T) {
	m := topOf(80, 24)
	now := topNow
	m.now = func() time.Time { return now }
	m.Update(due(m.number))
	if !m.asking || !m.asked.Equal(topNow) {
		t.Fatalf("it does not ask at first: %+v", m.asked)
	}
	press(m, "tab", "tab", "tab", "tab", "j", "enter", "esc")
	if m.ask() != nil {
		t.Error("it plans a question while one is under way")
	}
	old := m.number - 1
	m.answered(round{asked: question{tab: tabRuns, number: old}, at: now, runs: nil})
	if len(m.got.runs) != 4 {
		t.Error("the answer to another question is shown")
	}
	if m.asking {
		t.Fatal("it is still asking once it was answered")
	}
	if before := m.asked; m.ask() == nil || !m.asked.Equal(before) {
		t.Error("it asks at once, and not when a second is over")
	}
	m.Update(due(m.number - 1))
	if m.asking {
		t.Error("it asks what was thought of before")
	}
	m.Update(due(m.number))
	if !m.asking {
		t.Error("it does not ask when the second is over")
	}
}

// The test proves that an accidental key has no effect. An action requires a confirmation, and
// applies to the run that was selected when the confirmation was requested.
func TestOPS1_TopActsOnceOneHasSaidYes(t *testing.T) {
	m := topOf(80, 24)
	press(m, "j", "t")
	if m.confirm == nil || m.confirm.verb != "retry" || m.confirm.run != m.got.runs[1].ID {
		t.Fatalf("it wants to confirm %+v", m.confirm)
	}
	press(m, "n")
	if m.confirm != nil || m.says != "nothing was done" {
		t.Errorf("after no: %+v, %q", m.confirm, m.says)
	}
	press(m, "p")
	m.take(round{asked: question{tab: tabRuns}, at: topNow, runs: m.got.runs[2:]}) // The list changes before the confirmation.
	if m.confirm == nil || m.confirm.run != "wrun_01M8BPMFVE1JNWX5VQHA56FTA7" {
		t.Errorf("the run to confirm has become %+v", m.confirm)
	}
	press(m, "n", "tab", "c")
	if m.confirm != nil || !strings.Contains(m.says, "no run to cancel") {
		t.Errorf("without a run: %+v, %q", m.confirm, m.says)
	}
}

// The test proves that the selected line stays on its run while other runs are inserted before it.
func TestOPS1_TopKeepsTheSelectedRun(t *testing.T) {
	m := topOf(80, 24)
	press(m, "j")
	runs := append([]admin.Run{{ID: "new one"}, {ID: "new two"}}, m.got.runs...)
	m.take(round{asked: question{tab: tabRuns}, at: topNow, runs: runs})
	if r := m.selectedRun(); r == nil || r.ID != "wrun_01M8BPMFVE1JNWX5VQHA56FTA7" {
		t.Errorf("the selected run has become %+v", r)
	}
	m.take(round{asked: question{tab: tabRuns}, at: topNow, runs: runs[:1]})
	if r := m.selectedRun(); r == nil || r.ID != "new one" {
		t.Errorf("once its run is gone %+v is selected, want what there is", r)
	}
	m.take(round{asked: question{tab: tabRuns}, at: topNow})
	if r := m.selectedRun(); r != nil {
		t.Errorf("%+v is selected of an empty list", r)
	}
}

func TestOPS1_TopReadsFilters(t *testing.T) {
	top := topOf(80, 24)
	err := top.setFilter(" status:failed,running workflow:a.b queue:q id:x tag:region=eu failing children system group:f1-9c0e11a2b3d4 parent:p root:r")
	want := admin.Filter{
		Statuses: []string{"failed", "running"}, Workflow: "a.b", Queue: "q", WorkflowID: "x", Tags: map[string]string{"region": "eu"}, Failing: true, Children: true, System: true,
		Group: "f1-9c0e11a2b3d4", Parent: "p", Root: "r", Limit: topPage,
	}
	if diff := cmp.Diff(want, top.filter); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"tag:x", "since:yesterday", "Status:failed"} {
		m := topOf(80, 24)
		press(m, "/", bad, "enter")
		if !m.typing || m.says == "" || m.filterText != "" {
			t.Errorf("the filter %q is taken: %q, says %q", bad, m.filterText, m.says)
		}
	}
	m := topOf(80, 24)
	press(m, "/", "queue:gpu", "enter")
	if m.typing || m.filter.Queue != "gpu" {
		t.Errorf("the filter is %+v", m.filter)
	}
	press(m, "/", "x", "esc")
	if m.typing || m.filterText != "queue:gpu" {
		t.Errorf("after esc the filter is %q", m.filterText)
	}
}
