package cli

import (
	"fmt"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/flowgen/flowgen/admin"
)

// topActions contains the actions by their keys.
var topActions = map[string]string{"c": "cancel", "p": "pause", "r": "resume", "t": "retry"}

// topHelp contains the lines of the help for the keys.
var topHelp = []string{
	"j k, down up      move, in a run: scroll",
	"g G, pgup pgdown  first, last, page by page",
	"enter             open a run, or the runs of a group or a queue",
	"esc               back",
	"tab               the next list: runs, failures, queues, workers, limits, steps",
	"/                 the filter: status: workflow: queue: id: tag: group: since: failing children",
	"c p r t           cancel, pause, resume, retry the run, after a confirmation",
	"?                 show or hide this help",
	"q, ctrl+c         quit",
}

// key handles a key.
func (m *topModel) key(k tea.KeyMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		return m.typeKey(k)
	case m.confirm != nil:
		return m.confirmKey(name)
	}
	m.says = ""
	if m.help {
		m.help = false
		return nil
	}
	page := max(m.height-8, 1)
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "j", "down":
		m.move(1)
	case "k", "up":
		m.move(-1)
	case "pgdown", "ctrl+f", " ":
		m.move(page)
	case "pgup", "ctrl+b":
		m.move(-page)
	case "g", "home":
		m.move(-1 << 20)
	case "G", "end":
		m.move(1 << 20)
	case "/":
		m.typing, m.typed = true, m.filterText
	case "esc", "backspace":
		if m.open != "" {
			m.open = ""
			return m.ask()
		}
	case "tab", "shift+tab":
		step := 1
		if name == "shift+tab" {
			step = tabs - 1
		}
		m.tab, m.open = (m.tab+step)%tabs, ""
		return m.ask()
	case "enter":
		return m.enter()
	default:
		if verb := topActions[name]; verb != "" {
			m.propose(verb)
		}
	}
	return nil
}

// typeKey edits the filter.
func (m *topModel) typeKey(k tea.KeyMsg) tea.Cmd {
	switch k.Type {
	case tea.KeyEsc:
		m.typing = false
	case tea.KeyEnter:
		if err := m.setFilter(m.typed); err != nil {
			m.says = problemText(err)
			return nil
		}
		m.typing, m.open, m.says = false, "", ""
		return m.ask()
	case tea.KeyBackspace:
		if all := []rune(m.typed); len(all) > 0 {
			m.typed = string(all[:len(all)-1])
		}
	case tea.KeyCtrlU:
		m.typed = ""
	case tea.KeySpace:
		m.typed += " "
	case tea.KeyRunes:
		m.typed += string(k.Runes)
	}
	return nil
}

// propose requests the confirmation of an action, so that an accidental key has no effect.
func (m *topModel) propose(verb string) {
	p := &pending{verb: verb, run: m.open, name: m.open}
	if m.open == "" {
		r := m.selectedRun()
		if r == nil {
			m.says = "no run to " + verb + ": switch to the list of runs"
			return
		}
		p.run, p.name = r.ID, nameOf(r)
	}
	m.confirm = p
}

func (m *topModel) confirmKey(name string) tea.Cmd {
	p := *m.confirm
	m.confirm = nil
	if name != "y" && name != "Y" {
		m.says = "nothing was done"
		return nil
	}
	return func() tea.Msg {
		got, err := m.service.Act(m.ctx, p.run, admin.Action{Verb: p.verb})
		return acted{pending: p, got: got, err: err}
	}
}

// enter opens the selected row. A row of another list becomes a filter for runs.
func (m *topModel) enter() tea.Cmd {
	if m.open != "" {
		return nil
	}
	at := m.at[m.tab]
	var words string
	switch {
	case m.tab == tabRuns && at < len(m.got.runs):
		m.open, m.scroll, m.got.lines = m.got.runs[at].ID, 0, nil
		return m.ask()
	case m.tab == tabFailures && at < len(m.got.failures):
		words = "group:" + m.got.failures[at].Group + " children system"
	case m.tab == tabQueues && at < len(m.got.queues):
		words = "queue:" + m.got.queues[at].Queue + " workflow:" + m.got.queues[at].Workflow + " children system"
	default:
		return nil
	}
	m.tab = tabRuns
	if err := m.setFilter(words); err != nil { // The name of the queue contains spaces, so it cannot be part of a filter.
		m.says = problemText(err)
	}
	return m.ask()
}

// move moves the selection, or scrolls the open run.
func (m *topModel) move(by int) {
	if m.open != "" {
		m.scroll = min(max(m.scroll+by, 0), max(len(m.got.lines)-1, 0))
		return
	}
	m.at[m.tab] = min(max(m.at[m.tab]+by, 0), max(m.lines()-1, 0))
}

// lines returns the number of lines of the current list.
func (m *topModel) lines() int {
	return [tabs]int{len(m.got.runs), len(m.got.failures), len(m.got.queues), len(m.got.workers), len(m.got.pools), len(m.got.steps())}[m.tab]
}

// selectedRun returns the run to which an action applies, or nil.
func (m *topModel) selectedRun() *admin.Run {
	if m.tab != tabRuns || m.at[tabRuns] >= len(m.got.runs) {
		return nil
	}
	return &m.got.runs[m.at[tabRuns]]
}

func nameOf(r *admin.Run) string {
	if r.WorkflowID != "" {
		return r.WorkflowID
	}
	return r.ID
}

func outcomeText(a acted) string {
	if a.err != nil {
		return problemText(a.err)
	}
	text := a.verb + " " + a.name + ": done"
	if a.got.New != "" {
		text += ", in the new run " + a.got.New
	}
	return text
}

// problemText returns a problem and its fix as one line.
func problemText(err error) string {
	p := admin.ProblemOf(err)
	text := p.Detail
	if p.Fix != "" && !strings.Contains(p.Detail, p.Fix) {
		text = fmt.Sprintf("%s: %s", p.Detail, p.Fix)
	}
	return text
}
