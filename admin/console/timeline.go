package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// The bounds of a timeline: more would be too much for a browser, and for people.
const (
	rowsPerTimeline = 80
	maxBars         = 400
	maxAttempts     = 8  // of a row: those between are drawn as one
	fanned          = 6  // so many branches of one operation are drawn one by one
	nodesFanned     = 40 // so many nodes of a graph are, which are not alike
	cells           = 40 // of the density of many operations
)

// timelineView is the picture of a run over time.
type timelineView struct {
	Rows     []row
	Ticks    []tick
	From, To int64 // of the window, in milliseconds since the run began
	Total    int64
	Window   string
	In, Out  string // addresses of other windows
	Left, Right,
	Fit string
	Show       string // all, open or failed
	Shows      []choice
	More, Less string // addresses of the rows that follow, and of those before
	First, Of  int
	Operation  *operationView
	Err        *admin.Problem
	Events     uint64
	Machine    *machineView // nil: the run is none
	Graph      *graphView   // nil: the run executes none
	Now        string       // where now is, in percent; empty: outside
}

type choice struct {
	Name, Link string
	Current    bool
}

// tick is a line of the scale.
type tick struct {
	X, Text string
	Second  bool // it is left out where there is little room
}

// row is one line of the timeline.
type row struct {
	ID    string
	Depth int
	Label string
	Sub   string // what tells it from others of the same name
	Kind  string
	State string
	Text  string // what is known of it
	Took  string
	Bars  []bar
	Link  string // shows its operation
	Count int    // of operations that are drawn as one; 0: one
	Bad   int
	Open  string // the address at which it is expanded
	Close string
	Run   string // another run that it is
	Here  bool
}

// bar is a part of a row. Numbers are in percent of the window.
type bar struct {
	Kind   string // done, failed, open, interrupted, cancelled: attempts; retry, queued, wait: between; cell
	X, W   string
	Y, H   string
	Cut    bool // it goes on beyond the window
	Number int  // of the attempt
}

// window is the part of a run's time that is drawn.
type window struct {
	start    int64 // Unix time in milliseconds
	from, to int64 // since start
	now      int64 // Unix time in milliseconds
	ended    bool
}

func (w *window) place(begin, end int64) (x, width float64, ok bool) {
	if end == 0 {
		end = w.now
	}
	a, b := begin-w.start-w.from, end-w.start-w.from
	span := w.to - w.from
	if b < 0 || a > span {
		return 0, 0, false
	}
	a, b = max(a, 0), min(max(b, a), span)
	x = 100 * float64(a) / float64(span)
	width = max(100*float64(b-a)/float64(span), 0.25)
	return min(x, 99.75), min(width, 100-min(x, 99.75)), true
}

func percent(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) + "%" }

func timelineTab(q *request, v *runView) (any, error) {
	t := &timelineView{Events: v.Events, Show: q.query.Get("show")}
	if t.Show != "open" && t.Show != "failed" {
		t.Show = "all"
	}
	w := windowOf(q, v)
	t.From, t.To, t.Total = w.from, w.to, w.whole()
	t.Window = took(time.Duration(w.to-w.from) * time.Millisecond)
	t.links(q)
	t.Ticks = ticks(&w)
	if x, _, ok := w.place(w.now, w.now); ok && !w.ended {
		t.Now = percent(x)
	}
	var shown *operation
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, err error) {
		t.Err = admin.ProblemOf(err)
		t.Machine = s.machineOf()
		t.draw(q, v, &w, s.lanes.top())
		if o := s.operation(seqOf(q.query.Get("op"))); o != nil {
			one := *o // others extend what is kept
			shown = &one
		}
	})
	t.Graph = q.graph(v)
	if shown != nil {
		t.Operation = operationOf(q, v, shown)
	}
	return t, nil
}

// windowOf returns the part of the run that a request asks for.
func windowOf(q *request, v *runView) window {
	w := window{start: v.CreatedAt.UnixMilli(), now: q.now.UnixMilli(), ended: !v.EndedAt.IsZero()}
	if w.ended {
		w.now = v.EndedAt.UnixMilli()
	}
	w.now = max(w.now, w.start)
	whole := w.whole()
	w.from = number64(q.query.Get("from"), 0)
	w.to = number64(q.query.Get("to"), w.work(v, whole))
	w.from = min(max(w.from, 0), whole)
	w.to = min(w.to, whole)
	if w.to <= w.from {
		w.from, w.to = 0, whole
	}
	return w
}

// idleTimes is by how much a run must have waited for longer than it has worked, so that its work alone is drawn at first.
const idleTimes = 3

// work returns where the window ends if the reader has not said it: with the run, but for one that waits for long after its work, which
// would be too small to see. That ends some time after its last event.
func (w *window) work(v *runView, whole int64) int64 {
	did := v.UpdatedAt.UnixMilli() - w.start
	if w.ended || v.UpdatedAt.IsZero() || v.Status == "running" || did <= 0 || w.now-w.start-did < idleTimes*did {
		return whole
	}
	return min(did+max(did/4, 10), whole)
}

// whole returns how long the run is, with some room on the right if it goes on.
func (w *window) whole() int64 {
	long := w.now - w.start
	if !w.ended {
		long += long / 20
	}
	return max(long, 10)
}

func number64(s string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// links fills in the addresses of other windows and of other rows.
func (t *timelineView) links(q *request) {
	to := func(from, to int64) string {
		if to-from < 10 || from < 0 {
			return ""
		}
		return changed(q, "from", strconv.FormatInt(from, 10), "to", strconv.FormatInt(min(to, t.Total), 10), "row", "")
	}
	span := t.To - t.From
	t.In = to(t.From+span/4, t.To-span/4)
	if span < t.Total {
		t.Out = to(max(t.From-span/2, 0), t.To+span/2)
		t.Fit = to(0, t.Total)
		if t.From > 0 {
			t.Left = to(max(t.From-span/2, 0), max(t.From-span/2, 0)+span)
		}
		if t.To < t.Total {
			t.Right = to(min(t.From+span/2, t.Total-span), min(t.From+span/2, t.Total-span)+span)
		}
	}
	for _, show := range []string{"all", "open", "failed"} {
		t.Shows = append(t.Shows, choice{show, changed(q, "show", show, "row", ""), show == t.Show})
	}
}

// changed returns the address of the page with other parameters; an empty one is left out.
func changed(q *request, pairs ...string) string {
	values := url.Values{}
	for k, v := range q.query {
		if k != "did" && k != "of" {
			values[k] = v
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			values.Del(pairs[i])
		} else {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	at := q.h.cfg.Prefix + strings.TrimPrefix(q.r.URL.EscapedPath(), "/")
	if len(values) > 0 {
		at += "?" + values.Encode()
	}
	return at
}

// steps between ticks, in milliseconds.
var tickSteps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
	3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 24 * 3_600_000, 7 * 24 * 3_600_000, 30 * 24 * 3_600_000, 365 * 24 * 3_600_000,
}

func ticks(w *window) []tick {
	span := w.to - w.from
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if span/s <= 5 {
			step = s
			break
		}
	}
	var all []tick
	for at := (w.from + step - 1) / step * step; at <= w.to && len(all) < 12; at += step {
		x := 100 * float64(at-w.from) / float64(span)
		if x > 94 {
			break // its text would stand outside
		}
		all = append(all, tick{percent(x), "+" + took(time.Duration(at)*time.Millisecond), len(all)%2 == 1})
	}
	return all
}

// draw fills in the rows.
func (t *timelineView) draw(q *request, v *runView, w *window, top *node) {
	p := &painter{q: q, w: w, top: top, name: firstOf(top.label, v.Workflow), show: t.Show, open: map[string]bool{}}
	for _, at := range q.query["open"] {
		p.open[at] = true
	}
	p.first = max(number64(q.query.Get("row"), 0), 0)
	if p.walk(top, 0); p.rows <= p.first {
		p.first, p.rows, p.lines = 0, 0, p.lines[:0]
		p.walk(top, 0)
	}
	t.Of, t.First = int(p.rows), int(p.first)+1
	if p.first > 0 {
		t.Less = changed(q, "row", strconv.FormatInt(max(p.first-rowsPerTimeline, 0), 10))
	}
	if next := p.first + rowsPerTimeline; next < p.rows {
		t.More = changed(q, "row", strconv.FormatInt(next, 10))
	}
	for _, l := range p.lines {
		t.Rows = append(t.Rows, p.row(l))
	}
}
