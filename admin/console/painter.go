package console

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// painter converts the tree of a run to rows.
type painter struct {
	q     *request
	w     *window
	top   *node
	name  string          // name of the top lane
	open  map[string]bool // paths of the nodes whose operations are drawn one by one
	show  string
	first int64  // index of the first row to draw
	rows  int64  // number of all rows
	lines []line // rows to draw
	bars  int
}

// line is a row before it is drawn.
type line struct {
	n     *node
	depth int
	many  bool // whether several operations are drawn as this row
}

// walk counts the rows of a node, and keeps the rows to draw.
func (p *painter) walk(n *node, depth int) {
	if p.hides(n) {
		return
	}
	kids := n.settled()
	many := n.fan && (len(kids) > nodesFanned || len(kids) > fanned && n.label != graphLane)
	p.line(line{n, depth, many})
	if many && !p.open[n.path] {
		return
	}
	if n.flat && p.show == "all" {
		from := min(max(p.first-p.rows, 0), int64(len(kids)))
		p.rows += from
		left := kids[from:]
		for _, kid := range left[:min(len(left), rowsPerTimeline)] {
			p.line(line{kid, depth + 1, false})
		}
		p.rows += int64(max(len(left)-rowsPerTimeline, 0))
		return
	}
	for _, kid := range kids {
		p.walk(kid, depth+1)
	}
}

// line counts a row, and keeps the row if it must be drawn.
func (p *painter) line(l line) {
	if p.rows >= p.first && p.rows < p.first+rowsPerTimeline {
		p.lines = append(p.lines, l)
	}
	p.rows++
}

// hides reports whether the filter excludes all operations of a node.
func (p *painter) hides(n *node) bool {
	switch {
	case n == p.top:
		return false
	case p.show == "open":
		return n.open == 0
	case p.show == "failed":
		return n.bad == 0
	}
	return false
}

func (p *painter) row(l line) row {
	n := l.n
	r := row{ID: "n-" + strconv.FormatUint(n.first, 10) + "-" + strconv.Itoa(l.depth), Depth: min(l.depth, 6), Label: visible(n.label), Sub: visible(n.which())}
	if n == p.top {
		r.Label = visible(p.name)
	}
	switch {
	case n.op != nil:
		p.operation(&r, n.op)
	default:
		r.Kind, r.State = "branch", n.state()
		r.Count, r.Bad = n.size, n.bad
		begin, end := n.begin, n.end
		if n.open > 0 {
			end = 0
		}
		if n.size == 0 { // the run has not begun an operation
			begin, end = p.w.start, p.w.now
		}
		r.Took = p.took(begin, end)
		if l.many {
			r.Kind = "many"
			p.density(&r, n)
			p.fold(&r, n)
		} else {
			p.add(&r, bar{Kind: "lane"}, begin, end)
		}
		if n.bad > 0 {
			r.Text = fmt.Sprint(number(n.bad), " failed")
		}
		if n == p.top {
			r.Text, r.Count = "", 0
		}
	}
	return r
}

// fold sets the URL of the page on which the row of a node is expanded or, if the row is expanded
// on this page, collapsed.
func (p *painter) fold(r *row, n *node) {
	i := slices.Index(p.q.query["open"], n.path)
	values := url.Values{}
	maps.Copy(values, p.q.query)
	if i >= 0 {
		values["open"] = slices.Delete(slices.Clone(p.q.query["open"]), i, i+1)
	} else {
		values["open"] = append(slices.Clone(p.q.query["open"]), n.path)
	}
	at := p.q.h.cfg.Prefix + strings.TrimPrefix(p.q.r.URL.EscapedPath(), "/") + "?" + values.Encode()
	if i >= 0 {
		r.Close = at
	} else {
		r.Open = at
	}
}

func (p *painter) took(begin, end int64) string {
	if end == 0 {
		end = p.w.now
	}
	return took(time.Duration(end-begin) * time.Millisecond)
}

// add adds a bar to a row if the bar is within the window.
func (p *painter) add(r *row, b bar, begin, end int64) {
	x, width, ok := p.w.place(begin, end)
	if !ok || p.bars >= maxBars {
		return
	}
	p.bars++
	b.X, b.W = percent(x), percent(width)
	r.Bars = append(r.Bars, b)
}

// operation adds the bars of an operation to a row.
func (p *painter) operation(r *row, o *operation) {
	r.Kind, r.State, r.Run = o.kind, o.state, o.note.next
	r.Link = changed(p.q, "op", strconv.FormatUint(o.seq, 10))
	r.Here = p.q.query.Get("op") == strconv.FormatUint(o.seq, 10)
	r.Took = p.took(o.begin, o.end)
	r.Text = p.say(o)
	if o.kind != "step" || len(o.attempts) == 0 {
		kind := "wait"
		if o.kind == "child" {
			kind = "child " + o.state
		}
		if o.kind == "step" {
			kind = "queued"
		}
		p.add(r, bar{Kind: kind}, o.begin, o.end)
		return
	}
	at := o.begin
	for i, a := range shortened(o.attempts) {
		between := "retry"
		if i == 0 {
			between = "queued"
		}
		if a.begin > at {
			p.add(r, bar{Kind: between}, at, a.begin)
		}
		p.add(r, bar{Kind: a.state, Number: i + 1}, a.begin, a.end)
		at = max(a.end, a.begin)
	}
	if o.state == stateRetrying {
		p.add(r, bar{Kind: "retry"}, at, 0)
	}
}

// shortened combines the attempts in the middle into one if there are too many to draw.
func shortened(all []attempt) []attempt {
	if len(all) <= maxAttempts {
		return all
	}
	half := maxAttempts / 2
	middle := attempt{begin: all[half].begin, end: all[len(all)-half-1].end, state: "failed many"}
	return slices.Concat(all[:half], []attempt{middle}, all[len(all)-half:])
}

// say describes the state of an operation.
func (p *painter) say(o *operation) string {
	now := time.UnixMilli(p.w.now)
	due := ""
	if o.note.due != 0 {
		due = ago(now, time.UnixMilli(o.note.due))
	}
	switch {
	case o.state == stateRetrying:
		return fmt.Sprintf("attempt %d %s: %s", len(o.attempts)+1, due, o.note.text)
	case o.state == stateFailed && len(o.attempts) > 1:
		return fmt.Sprintf("%d attempts: %s", len(o.attempts), o.note.text)
	case o.state == stateFailed || o.state == stateCancelled:
		return o.note.text
	case o.state == stateOpen && len(o.attempts) > 1:
		return fmt.Sprintf("attempt %d, after: %s", len(o.attempts), o.note.text)
	case o.state == stateOpen && due != "":
		return "due " + due
	case len(o.attempts) > 1:
		return plural(len(o.attempts), "attempt", "attempts")
	}
	return ""
}

// density draws the number of concurrent operations of a node over the window.
func (p *painter) density(r *row, n *node) {
	var under, bad [cells]int
	most := 1
	n.each(func(o *operation) {
		x, width, ok := p.w.place(o.begin, o.end)
		if !ok {
			return
		}
		from := min(int(x*cells/100), cells-1)
		to := min(int((x+width)*cells/100), cells-1)
		for i := from; i <= to; i++ {
			under[i]++
			most = max(most, under[i])
		}
		if o.state == stateFailed {
			bad[to]++
		}
	})
	for i, count := range under {
		if count == 0 || p.bars >= maxBars {
			continue
		}
		p.bars++
		high := max(100*float64(count)/float64(most), 12)
		kind := "cell"
		if bad[i] > 0 {
			kind = "cell failed"
		}
		r.Bars = append(r.Bars, bar{Kind: kind, X: percent(float64(i) * 100 / cells), W: percent(100.0/cells - 0.3), Y: percent(100 - high), H: percent(high)})
	}
}
