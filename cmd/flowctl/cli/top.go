package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli/internal/quiet"
	"github.com/flowgen/flowgen/internal/environ"
)

func init() { quiet.Restore() } //nolint:gochecknoinits // bubbletea has been initialised

func (c *command) top() *cobra.Command {
	once := false
	cmd := &cobra.Command{
		Use: "top [FILTER]", Short: "Watch runs, failures, queues, workers, limits and steps in the terminal, and act on runs", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Top shows runs, failures, queues, workers, limits and the latencies of steps, and refreshes them every second. The third\n" +
			"line has the throughput of the last minute. With --once or -o json it prints the figures once and needs no terminal.\n" +
			"FILTER consists of terms such as\n" +
			"status:failed workflow:orders.fulfil queue:gpu id:ORDER-17 tag:region=eu group:f1-9c0e11a2b3d4 since:24h failing children.\n" +
			"Keys: j k move, enter opens a run, tab changes the list, / edits the filter, ? lists the keys, q quits.",
		Example: "  flowctl top status:running since:1h\n  flowctl top --once queue:gpu\n  flowctl top -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if once || c.output == "json" {
				return c.topOnce(cmd, strings.Join(args, " "))
			}
			if !isTerminal(c.Stdin) || !isTerminal(c.Stdout) {
				return &admin.InputError{What: "top needs a terminal", Fix: "use flowctl top --once, flowctl runs --watch, or flowctl runs -o jsonl"}
			}
			m := newTop(cmd.Context(), c)
			if err := m.setFilter(strings.Join(args, " ")); err != nil {
				return err
			}
			s, _, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			m.service = s
			return m.run(c.Stdin, c.Stdout)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print the figures once: counts, throughput, latencies of steps, queues and limits")
	return cmd
}

// run shows the screen until the user quits or the context ends. At its end, and after a panic,
// bubbletea restores the terminal. Signals end the context, which Main created.
func (m *topModel) run(in io.Reader, out io.Writer) error {
	m.renderer = lipgloss.NewRenderer(out)
	m.renderer.SetHasDarkBackground(true) // The colors are readable on any background, so the terminal need not be queried.
	_, err := tea.NewProgram(m, tea.WithContext(m.ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler()).Run()
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	return err
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(f.Fd())
}

// The tabs of flowctl top. tabs is their number.
const (
	tabRuns = iota
	tabFailures
	tabQueues
	tabWorkers
	tabLimits
	tabSteps
	tabs
)

const (
	// topPause is the minimum interval between the starts of two rounds of requests.
	topPause = time.Second
	// topPatience is the time limit of a round.
	topPatience = 10 * time.Second
	// topPage is the number of lines that top requests for a list.
	topPage = 200
	// topEvents is the number of events that top requests from the end of the log of an open run.
	topEvents = 500
)

// round contains the results of one round of requests.
type round struct {
	asked    question
	at       time.Time
	err      error
	counts   admin.Counts
	runs     []admin.Run
	failures []admin.FailureGroup
	queues   []admin.Queue
	workers  []admin.Worker
	pools    []admin.Pool
	rates    *admin.Rates // nil if they cannot be read
	opened   string       // run that was requested
	lines    []string     // output for that run
}

// question contains the parameters of the requests of a round.
type question struct {
	tab    int
	filter admin.Filter
	open   string // a run; empty to request lists
	number int    // sequence number of the question
}

// topModel is the state of the screen of flowctl top.
type topModel struct {
	ctx      context.Context //nolint:containedctx // of the program: bubbletea gives its commands none
	c        *command
	service  service
	renderer *lipgloss.Renderer
	now      func() time.Time
	where    string

	width, height int
	tab           int
	at            [tabs]int // index of the selected line of each list
	filterText    string
	filter        admin.Filter
	got           round // results of the last successful round
	failedSince   time.Time
	err           error

	asked  time.Time // start of the last round
	number int       // sequence number of the last question
	asking bool

	open   string // run that is shown; empty if a list is shown
	scroll int

	typing  bool   // the user is editing the filter
	typed   string // text of the edited filter
	confirm *pending
	says    string // result of the last action
	help    bool
}

// pending is an action that waits for confirmation.
type pending struct{ verb, run, name string }

func newTop(ctx context.Context, c *command) *topModel {
	where := cmp.Or(c.server, c.url)
	if u, s, err := c.where(); err == nil {
		where = cmp.Or(s, u)
	}
	return &topModel{ctx: ctx, c: c, now: time.Now, where: environ.HidePassword(where), width: 80, height: 24, renderer: lipgloss.DefaultRenderer()}
}

// setFilter parses a filter and makes it the current filter.
func (m *topModel) setFilter(text string) error {
	f, err := admin.ParseFilter(text, m.now())
	f.Limit = topPage
	if err == nil {
		m.filterText, m.filter, m.at[tabRuns] = text, f, 0
	}
	return err
}

// Init requests the first round.
func (m *topModel) Init() tea.Cmd { return m.ask() }

// due is the number of a question that may be sent.
type due int

// acted is the result of an action.
type acted struct {
	pending
	got admin.Acted
	err error
}

// ask schedules the next round with a new question. If there are several questions within topPause,
// only the last one is sent. During a round it schedules nothing, because answered calls ask at the
// end of the round.
func (m *topModel) ask() tea.Cmd {
	m.number++
	if m.asking {
		return nil
	}
	number := m.number
	wait := topPause - m.now().Sub(m.asked)
	if m.asked.IsZero() || wait <= 0 {
		return func() tea.Msg { return due(number) }
	}
	return tea.Tick(wait, func(time.Time) tea.Msg { return due(number) })
}

// Update handles keys, results and changes of the terminal size.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case due:
		if int(msg) != m.number || m.asking {
			return m, nil
		}
		m.asking, m.asked = true, m.now()
		asked := question{tab: m.tab, filter: m.filter, open: m.open, number: m.number}
		return m, func() tea.Msg { return m.round(asked) }
	case round:
		return m, m.answered(msg)
	case acted:
		m.says = outcomeText(msg)
		return m, m.ask()
	case tea.KeyMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// answered handles the end of a round. It shows the results unless a newer question exists, and
// schedules the next round.
func (m *topModel) answered(r round) tea.Cmd {
	m.asking = false
	switch {
	case r.err != nil:
		if m.err == nil {
			m.failedSince = r.at
		}
		m.err = r.err
	default:
		m.err = nil
		if r.asked.number == m.number {
			m.take(r)
		}
	}
	return m.ask()
}

// take shows the results of a round. If the selected run has moved, the selection moves with it.
func (m *topModel) take(r round) {
	if r.asked.open != "" {
		m.got.lines, m.got.opened, m.got.at = r.lines, r.opened, r.at
		return
	}
	before := m.selectedRun()
	was := m.got
	m.got = r
	for _, keep := range []struct {
		tab int
		do  func()
	}{
		{tabRuns, func() { m.got.runs = was.runs }},
		{tabFailures, func() { m.got.failures = was.failures }},
		{tabQueues, func() { m.got.queues = was.queues }},
		{tabWorkers, func() { m.got.workers = was.workers }},
		{tabLimits, func() { m.got.pools = was.pools }},
	} {
		if keep.tab != r.asked.tab {
			keep.do()
		}
	}
	if i := slices.IndexFunc(m.got.runs, func(one admin.Run) bool { return before != nil && one.ID == before.ID }); i >= 0 && r.asked.tab == tabRuns {
		m.at[tabRuns] = i
	}
	m.move(0)
}

// round executes the requests of a question.
func (m *topModel) round(q question) (r round) {
	ctx, cancel := context.WithTimeout(m.ctx, topPatience)
	defer cancel()
	r = round{asked: q, at: m.now()}
	if q.open != "" {
		r.opened = q.open
		r.lines, r.err = m.c.screenful(ctx, m.service, q.open)
		return r
	}
	if r.counts, r.err = m.service.Count(ctx, q.filter); r.err != nil {
		return r
	}
	if rates, err := m.service.Rates(ctx); err == nil { // an earlier release of the server has no rates
		r.rates = &rates
	}
	switch q.tab {
	case tabRuns:
		var page admin.RunPage
		page, r.err = m.service.Runs(ctx, q.filter)
		r.runs = page.Runs
	case tabFailures:
		var page admin.FailurePage
		page, r.err = m.service.Failures(ctx, admin.FailureFilter{Workflow: q.filter.Workflow, Since: q.filter.Since, Limit: topPage})
		r.failures = page.Groups
	case tabQueues:
		var page admin.QueuePage
		page, r.err = m.service.Queues(ctx, admin.FleetFilter{Queue: q.filter.Queue, Limit: topPage})
		r.queues = page.Queues
	case tabWorkers:
		var page admin.WorkerPage
		page, r.err = m.service.Workers(ctx, admin.FleetFilter{Queue: q.filter.Queue, Limit: topPage})
		r.workers = page.Workers
	case tabLimits:
		var page admin.PoolPage
		page, r.err = m.service.Pools(ctx, admin.PoolFilter{Limit: topPage})
		r.pools = page.Pools
	}
	return r
}

// screenful returns the lines of flowctl show for a run.
func (c *command) screenful(ctx context.Context, s service, ref string) ([]string, error) {
	r, err := s.Run(ctx, ref)
	if err != nil {
		return nil, err
	}
	page, err := s.Events(ctx, r.ID, r.Events-min(r.Events, topEvents)+1, topEvents)
	if err != nil {
		return nil, err
	}
	streams, err := shownStreams(ctx, s, r.ID)
	if err != nil {
		return nil, err
	}
	if c.hidden() {
		hide(&r, page.Events)
	}
	var b bytes.Buffer
	on := &command{Config: Config{Stdout: &b, Stderr: io.Discard}, output: "table", hide: c.hide}
	if err := on.head(&r, &streams); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	if err := timeline(&b, &r, page.Events); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), nil
}

// topFigures contains the figures that flowctl top prints once.
type topFigures struct {
	Counts admin.Counts  `json:"counts"`
	Rates  admin.Rates   `json:"rates"`
	Queues []admin.Queue `json:"queues"`
	Limits []admin.Pool  `json:"limits"`
}

// topOnce prints the figures of flowctl top. The filter selects the runs of the counts and the queue.
func (c *command) topOnce(cmd *cobra.Command, filter string) error {
	f, err := admin.ParseFilter(filter, time.Now())
	if err != nil {
		return err
	}
	return c.do(cmd, func(ctx context.Context, s service) error {
		got, err := topFiguresOf(ctx, s, f)
		if err != nil {
			return err
		}
		if c.jsonOut() {
			return c.print(got)
		}
		return c.printTop(&got)
	})
}

func topFiguresOf(ctx context.Context, s service, f admin.Filter) (got topFigures, err error) {
	if got.Counts, err = s.Count(ctx, f); err != nil {
		return got, err
	}
	if got.Rates, err = s.Rates(ctx); err != nil {
		return got, err
	}
	queues, err := s.Queues(ctx, admin.FleetFilter{Queue: f.Queue, Limit: topPage})
	if err != nil {
		return got, err
	}
	limits, err := s.Pools(ctx, admin.PoolFilter{Limit: topPage})
	got.Queues, got.Limits = queues.Queues, limits.Pools
	return got, err
}

// printTop prints the figures as tables. A list without rows has no table.
func (c *command) printTop(got *topFigures) error {
	m := &topModel{got: round{counts: got.Counts, at: time.Now()}}
	fmt.Fprintf(c.Stdout, "%s\nlast minute: %s, workers %d\n", clean(m.countLine(math.MaxInt)), strings.Join(throughput(&got.Rates), "  "), got.Rates.Workers)
	for _, table := range []struct {
		rows  int
		print func() error
	}{
		{len(got.Rates.Steps), func() error { return printTable(c, admin.StepRateColumns, got.Rates.Steps) }},
		{len(got.Queues), func() error { return printTable(c, admin.QueueColumns, got.Queues) }},
		{len(got.Limits), func() error { return printTable(c, admin.PoolColumns, got.Limits) }},
	} {
		if table.rows == 0 {
			continue
		}
		fmt.Fprintln(c.Stdout)
		if err := table.print(); err != nil {
			return err
		}
	}
	return nil
}

// steps returns the steps whose rates are known.
func (r *round) steps() []admin.StepRate {
	if r.rates == nil {
		return nil
	}
	return r.rates.Steps
}
