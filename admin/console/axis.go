package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// stretch is a time in which a run works: attempts of its steps or runs below it are under way, or its code does something.
type stretch struct{ begin, end int64 } // Unix time in milliseconds

// maxStretches bounds how many stretches of a run are kept: between those that are too many the shortest gaps count as work.
const maxStretches = 64

// worked takes in that an event has come, and whether something was under way before it.
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

// stretches returns the times in which the run has worked, up to now if it still does.
func (s *skeleton) stretches(w *window, running bool) []stretch {
	all := slices.Clone(s.work)
	if !w.ended && len(all) > 0 && (running || s.busy > 0) {
		all[len(all)-1].end = max(all[len(all)-1].end, w.now)
	}
	return all
}

// window is the part of a run's time that is drawn.
type window struct {
	start    int64 // Unix time in milliseconds
	from, to int64 // since start
	now      int64 // Unix time in milliseconds
	ended    bool
	gaps     []gap // in order
}

// gap is a part of a window without work, which is drawn as if it was shorter. Times are since the start of the run.
type gap struct{ from, to, drawn int64 }

// whole returns how long the run is, with some room on the right if it goes on.
func (w *window) whole() int64 {
	long := w.now - w.start
	if !w.ended {
		long += long / 20
	}
	return max(long, 10)
}

const (
	idleTimes = 3  // is how much longer than the work of a window all gaps may be that are drawn as long as they were
	leastWork = 10 // is how long the work of a window is taken to be at least, in milliseconds
)

// fold shortens the longest gaps between stretches of work, so that the work can be seen. Work is never shortened, nor is a window
// without any.
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
		g.drawn = min(max((sum+left)/max(8, 2*int64(n)), 1), g.to-g.from)
	}
	slices.SortFunc(w.gaps, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
}

// drawn returns how far from the left a time since the start of the run is drawn, in milliseconds of work.
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

// time returns the time that is drawn at x: the reverse of drawn.
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

// place returns where a part of the run is drawn, in percent of the window; end 0: it goes on.
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

// axis has, for scripts, the times at which the scale of the window changes: pairs of a part of its width and a time.
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

// idles returns the gaps as they are drawn.
func idles(w *window) (all []idle) {
	for _, g := range w.gaps {
		if x, width, ok := w.place(w.start+g.from, w.start+g.to); ok {
			all = append(all, idle{percent(x), percent(width), took(time.Duration(g.to-g.from) * time.Millisecond)})
		}
	}
	return all
}

// steps between ticks, in milliseconds.
var tickSteps = []int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000,
	3_600_000, 2 * 3_600_000, 6 * 3_600_000, 12 * 3_600_000, 24 * 3_600_000, 7 * 24 * 3_600_000, 30 * 24 * 3_600_000, 365 * 24 * 3_600_000,
}

// ticks returns the lines of the scale. There are none in gaps that are drawn shorter.
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
	const text = 6 // is about how wide a text is
	gaps, free := w.gaps, 0.0
	for at := (w.from + step - 1) / step * step; at <= w.to && len(all) < 12; at += step {
		for len(gaps) > 0 && at >= gaps[0].to {
			free, gaps = max(free, part(gaps[0].to)), gaps[1:]
		}
		if len(gaps) > 0 && at > gaps[0].from {
			at = (gaps[0].to - 1) / step * step // the next one is after the gap
			continue
		}
		x, label := part(at), "+"+took(time.Duration(at)*time.Millisecond)
		if x > 100-text {
			break // its text would stand outside
		}
		if x < free || len(gaps) > 0 && x+text > part(gaps[0].from) || len(all) > 0 && all[len(all)-1].Text == label {
			continue
		}
		all = append(all, tick{percent(x), label, len(all)%2 == 1})
		free = x + text
	}
	return all
}
