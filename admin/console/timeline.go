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
	Idle     []idle
	Axis     string // for scripts: see window.axis
	From, To int64  // of the window, in milliseconds since the run began
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

// idle is a time without work that is drawn shorter than it was.
type idle struct{ X, W, Took string }

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

func percent(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) + "%" }

func timelineTab(q *request, v *runView) (any, error) {
	t := &timelineView{Events: v.Events, Show: q.query.Get("show")}
	if t.Show != "open" && t.Show != "failed" {
		t.Show = "all"
	}
	w := windowOf(q, v)
	t.From, t.To, t.Total = w.from, w.to, w.whole()
	t.Window = took(time.Duration(w.to-w.from) * time.Millisecond)
	var shown *operation
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, err error) {
		t.Err = admin.ProblemOf(err)
		t.Machine = s.machineOf()
		w.fold(s.stretches(&w, v.Status == "running"))
		t.draw(q, v, &w, s.lanes.top())
		if o := s.operation(seqOf(q.query.Get("op"))); o != nil {
			one := *o // others extend what is kept
			shown = &one
		}
	})
	t.links(q, &w)
	t.Ticks, t.Idle, t.Axis = ticks(&w), idles(&w), w.axis()
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
	w.to = number64(q.query.Get("to"), whole)
	w.from = min(max(w.from, 0), whole)
	w.to = min(w.to, whole)
	if w.to <= w.from {
		w.from, w.to = 0, whole
	}
	return w
}

func number64(s string, otherwise int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// links fills in the addresses of other windows and of other rows.
func (t *timelineView) links(q *request, w *window) {
	to := func(from, to int64) string {
		if to-from < 10 || from < 0 {
			return ""
		}
		return changed(q, "from", strconv.FormatInt(from, 10), "to", strconv.FormatInt(min(to, t.Total), 10), "row", "")
	}
	span := t.To - t.From
	drawn := w.drawn(t.To)
	t.In = to(w.time(drawn/4), w.time(drawn-drawn/4))
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
