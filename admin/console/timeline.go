package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// Limits of a timeline. They bound the work of browsers and keep the timeline readable.
const (
	rowsPerTimeline = 80
	maxBars         = 400
	maxAttempts     = 8  // maximum number of attempts in a row; attempts in the middle are combined
	fanned          = 6  // maximum number of branches of one operation that are drawn one by one
	nodesFanned     = 40 // maximum number of nodes of a graph that are drawn one by one; it is higher because nodes differ
	cells           = 40 // number of cells in the density of many operations
)

// timelineView contains the template data for the timeline of a run.
type timelineView struct {
	Rows     []row
	Ticks    []tick
	Idle     []idle
	Axis     string // scale for scripts; see window.axis
	From, To int64  // limits of the window, in milliseconds since the beginning of the run
	Total    int64
	Window   string
	In, Out  string // URLs of the pages with a smaller and a larger window
	Left, Right,
	Fit string
	Show       string // all, open or failed
	Shows      []choice
	More, Less string // URLs of the pages with the following and the preceding rows
	First, Of  int
	Operation  *operationView
	Err        *admin.Problem
	Events     uint64
	Machine    *machineView // nil if the run is not a state machine
	Graph      *graphView   // nil if the run has no graph
}

type choice struct {
	Name, Link string
	Current    bool
}

// tick is a vertical line of the scale.
type tick struct {
	X, Text string
	Second  bool // whether the line is omitted in narrow windows
}

// idle is a period without work that is drawn shortened.
type idle struct{ X, W, Took string }

// row is one row of the timeline.
type row struct {
	ID    string
	Depth int
	Label string
	Sub   string // text that distinguishes the row from others with the same label
	Kind  string
	State string
	Text  string // description of the state
	Took  string
	Bars  []bar
	Link  string // URL of the operation
	Count int    // number of operations that are drawn as this row; 0 means one
	Bad   int
	Open  string // URL of the page on which the row is expanded
	Close string
	Run   string // the run that executes the operation
	Here  bool
}

// bar is a part of a row. Numbers are percentages of the width of the window.
type bar struct {
	Kind   string // done, failed, open, interrupted or cancelled for attempts; retry, queued or wait between attempts; cell in a density
	X, W   string
	Y, H   string
	Cut    bool // whether the bar continues outside of the window
	Number int  // number of the attempt
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
			one := *o // a copy, because the cached operation may change
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

// windowOf returns the part of the run that a request selects.
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

// links sets the URLs of the pages with other windows and rows.
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
		t.Fit = changed(q, "from", "", "to", "", "row", "") // the window follows a run that goes on
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

// changed returns the URL of the page with some query parameters replaced. It removes parameters
// whose new value is empty.
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

// draw adds the rows to the view.
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

// stretch is a period in which a run works. In this period, its code executes, or attempts of its
// steps or runs below it are in progress.
type stretch struct{ begin, end int64 } // Unix time in milliseconds

// maxStretches is the maximum number of stretches of a run. If there are more, the shortest gaps
// count as work.
const maxStretches = 64

// worked extends the stretches to the time of an event. busy reports whether an operation was in
// progress before the event.
func worked(all []stretch, at int64, busy bool) []stretch {
	last := len(all) - 1
	switch {
	case last >= 0 && (busy || at <= all[last].end):
		all[last].end = max(all[last].end, at)
		return all
	case last+1 < maxStretches:
		return append(all, stretch{at, at})
	}
	all = append(all, stretch{at, at})
	shortest := 1
	for i := 2; i < len(all); i++ {
		if all[i].begin-all[i-1].end < all[shortest].begin-all[shortest-1].end {
			shortest = i
		}
	}
	all[shortest-1].end = all[shortest].end
	return slices.Delete(all, shortest, shortest+1)
}

// stretches returns the periods in which the run worked. The last one ends at the present if the
// run is working.
func (s *skeleton) stretches(w *window, running bool) []stretch {
	all := slices.Clone(s.work)
	if !w.ended && len(all) > 0 && (running || s.busy > 0) {
		all[len(all)-1].end = max(all[len(all)-1].end, w.now)
	}
	return all
}

// window is the displayed part of the time of a run.
type window struct {
	start    int64 // Unix time in milliseconds
	from, to int64 // milliseconds since start
	now      int64 // Unix time in milliseconds
	ended    bool
	gaps     []gap // sorted by time
}

// gap is a part of a window without work, which is drawn shortened. Its fields are in milliseconds.
// from and to are relative to the start of the run.
type gap struct{ from, to, drawn int64 }

// whole returns the duration of the run in milliseconds. It adds a margin if the run has not ended.
func (w *window) whole() int64 {
	long := w.now - w.start
	if !w.ended {
		long += long / 20
	}
	return max(long, 10)
}

const (
	idleTimes = 3  // maximum ratio of the total length of unshortened gaps to the work in a window
	leastWork = 10 // minimum length of the work in a window, in milliseconds
	leastGaps = 4  // minimum total length of the shortened gaps, in milliseconds, so that half of a window is smaller than the window
)

// fold shortens the longest gaps between stretches of work, so that the work remains visible. It
// never shortens work, and it does not change a window without work.
func (w *window) fold(work []stretch) {
	var gaps []gap
	at, sum, worked := w.from, int64(0), false
	for _, s := range work {
		begin, end := max(s.begin-w.start, at), min(s.end-w.start, w.to)
		if end < begin {
			continue
		}
		if begin > at {
			gaps = append(gaps, gap{from: at, to: begin})
		}
		at, sum, worked = end, sum+end-begin, true
	}
	if w.to > at {
		gaps = append(gaps, gap{from: at, to: w.to})
	}
	left := w.to - w.from - sum
	sum = max(sum, leastWork)
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	n := 0
	for ; worked && n < len(gaps) && left > idleTimes*sum; n++ {
		left -= gaps[n].to - gaps[n].from
	}
	w.gaps = gaps[:n]
	for i := range w.gaps {
		g := &w.gaps[i]
		g.drawn = min(max((sum+left)/max(8, 2*int64(n)), (leastGaps+int64(n)-1)/int64(n)), g.to-g.from)
	}
	slices.SortFunc(w.gaps, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
}

// drawn returns the position of a time on the shortened scale. Both are in milliseconds. The time
// is relative to the start of the run, and the position is relative to the window.
func (w *window) drawn(at int64) int64 {
	x := at - w.from
	for _, g := range w.gaps {
		if at <= g.from {
			break
		}
		passed := min(at, g.to) - g.from
		x -= passed - int64(float64(passed)*float64(g.drawn)/float64(g.to-g.from))
	}
	return x
}

// time is the inverse of drawn. It returns the time at a position on the shortened scale.
func (w *window) time(x int64) int64 {
	at := w.from + x
	for _, g := range w.gaps {
		if at <= g.from {
			break
		}
		if at < g.from+g.drawn {
			return g.from + int64(float64(at-g.from)*float64(g.to-g.from)/float64(g.drawn))
		}
		at += g.to - g.from - g.drawn
	}
	return at
}

// place returns the position and the width of a period in percent of the window. An end of 0 means
// that the period has not ended. ok is false if the period is outside of the window.
func (w *window) place(begin, end int64) (x, width float64, ok bool) {
	if end == 0 {
		end = w.now
	}
	from, to := begin-w.start, end-w.start
	if to < w.from || from > w.to {
		return 0, 0, false
	}
	a, b, span := w.drawn(max(from, w.from)), w.drawn(min(max(to, from, w.from), w.to)), w.drawn(w.to)
	x = 100 * float64(a) / float64(span)
	width = max(100*float64(b-a)/float64(span), 0.25)
	return min(x, 99.75), min(width, 100-min(x, 99.75)), true
}

// axis returns the times at which the scale of the window changes, for scripts. Each entry consists
// of a fraction of the width and a time.
func (w *window) axis() string {
	if len(w.gaps) == 0 {
		return ""
	}
	span := float64(w.drawn(w.to))
	points := []int64{w.from}
	for _, g := range w.gaps {
		points = append(points, g.from, g.to)
	}
	var b strings.Builder
	for _, at := range append(points, w.to) {
		fmt.Fprintf(&b, "%.4f:%d ", float64(w.drawn(at))/span, at)
	}
	return strings.TrimSpace(b.String())
}

// idles returns the shortened gaps as percentages of the window.
func idles(w *window) (all []idle) {
	for _, g := range w.gaps {
		if x, width, ok := w.place(w.start+g.from, w.start+g.to); ok {
			all = append(all, idle{percent(x), percent(width), took(time.Duration(g.to-g.from) * time.Millisecond)})
		}
	}
	return all
}

// tickSteps lists the possible distances between ticks in milliseconds.
var tickSteps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
	3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 24 * 3_600_000, 7 * 24 * 3_600_000, 30 * 24 * 3_600_000, 365 * 24 * 3_600_000,
}

// ticks returns the vertical lines of the scale. There are none in shortened gaps.
func ticks(w *window) []tick {
	span := w.drawn(w.to)
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if span/s <= 5 {
			step = s
			break
		}
	}
	var all []tick
	part := func(at int64) float64 { return 100 * float64(w.drawn(at)) / float64(span) }
	const text = 6 // approximate width of a label, in percent of the window
	gaps, free := w.gaps, 0.0
	for at := (w.from + step - 1) / step * step; at <= w.to && len(all) < 12; at += step {
		for len(gaps) > 0 && at >= gaps[0].to {
			free, gaps = max(free, part(gaps[0].to)), gaps[1:]
		}
		if len(gaps) > 0 && at > gaps[0].from {
			at = (gaps[0].to - 1) / step * step // the next tick is after the gap
			continue
		}
		x, label := part(at), "+"+took(time.Duration(at)*time.Millisecond)
		if x > 100-text {
			break // the label would be outside of the window
		}
		if x < free || len(gaps) > 0 && x+text > part(gaps[0].from) || len(all) > 0 && all[len(all)-1].Text == label {
			continue
		}
		all = append(all, tick{percent(x), label, len(all)%2 == 1})
		free = x + text
	}
	return all
}
