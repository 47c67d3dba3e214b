// Package plot draws charts with logarithmic axes as SVG. The charts are readable on light and on
// dark pages.
package plot

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
)

// Chart shows values that depend on a size. Both axes are logarithmic. A horizontal line means that
// the value does not depend on the size.
type Chart struct {
	Title string
	X, Y  string // labels of the axes, including units
	Lines []Line
}

// Line is a series of values. Points that are not positive are omitted, because a logarithmic axis
// cannot represent them.
type Line struct {
	Name   string
	Points []Point
}

// Point is a value at a size.
type Point struct{ X, Y float64 }

// The dimensions of the image in pixels.
const (
	width, height            = 720, 420
	left, right, top, bottom = 80, 160, 50, 60
)

// style defines the colors on light and on dark pages.
const style = `
    text { font: 12px system-ui, sans-serif; fill: #222 }
    .title { font-size: 15px; font-weight: 600 }
    .grid { stroke: #ddd } .frame { stroke: #888; fill: none }
    .page { fill: #fff }
    .l0 { stroke: #1f6feb; fill: #1f6feb } .l1 { stroke: #c2410c; fill: #c2410c }
    .l2 { stroke: #15803d; fill: #15803d } .l3 { stroke: #7e22ce; fill: #7e22ce }
    path { fill: none !important; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd } .grid { stroke: #333 } .page { fill: #0d1117 }
      .l0 { stroke: #58a6ff; fill: #58a6ff } .l1 { stroke: #fb923c; fill: #fb923c }
      .l2 { stroke: #4ade80; fill: #4ade80 } .l3 { stroke: #c084fc; fill: #c084fc }
    }
`

// colors is the number of line colors that can be distinguished.
const colors = 4

// Encode writes the chart as SVG. It returns an error if the chart has no points.
func (c *Chart) Encode(w io.Writer) error {
	x, y := newAxis(left, width-right), newAxis(height-bottom, top)
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if p.visible() {
				x.include(p.X)
				y.include(p.Y)
			}
		}
	}
	if x.empty() {
		return fmt.Errorf("draw %q: no line has a point with two positive values", c.Title)
	}
	x.fit()
	y.fit()
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(out, "  <title>%s</title>\n  <style>%s  </style>\n", escape(c.Title), style)
	fmt.Fprintf(out, `  <rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	text(out, left, 28, "title", "start", c.Title)
	for _, v := range x.ticks() {
		at := x.place(v)
		fmt.Fprintf(out, `  <line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", at, top, at, height-bottom)
		text(out, at, height-bottom+18, "", "middle", label(v))
	}
	for _, v := range y.ticks() {
		at := y.place(v)
		fmt.Fprintf(out, `  <line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", left, at, width-right, at)
		text(out, left-8, at+4, "", "end", label(v))
	}
	fmt.Fprintf(out, `  <rect class="frame" x="%d" y="%d" width="%d" height="%d"/>`+"\n", left, top, width-left-right, height-top-bottom)
	text(out, float64(left+width-right)/2, height-18, "", "middle", c.X)
	text(out, left, top-8, "", "start", c.Y)
	for i, l := range c.Lines {
		l.draw(out, i, x, y)
	}
	fmt.Fprintln(out, "</svg>")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("draw %q: %w", c.Title, err)
	}
	return nil
}

func (p Point) visible() bool { return p.X > 0 && p.Y > 0 }

// draw writes line i and its entry in the legend.
func (l *Line) draw(out io.Writer, i int, x, y *axis) {
	class := fmt.Sprintf("l%d", i%colors)
	var path strings.Builder
	for _, p := range l.Points {
		if !p.visible() {
			continue
		}
		command := "L"
		if path.Len() == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, x.place(p.X), y.place(p.Y))
		fmt.Fprintf(out, `  <circle class="%s" cx="%.1f" cy="%.1f" r="3"><title>%s: %s</title></circle>`+"\n",
			class, x.place(p.X), y.place(p.Y), label(p.X), label(p.Y))
	}
	if path.Len() == 0 {
		return
	}
	fmt.Fprintf(out, `  <path class="%s" d="%s"/>`+"\n", class, path.String())
	at := float64(top + 12 + 20*i)
	fmt.Fprintf(out, `  <circle class="%s" cx="%d" cy="%.1f" r="4"/>`+"\n", class, width-right+16, at-4)
	text(out, width-right+26, at, "", "start", l.Name)
}

func text(out io.Writer, x, y float64, class, anchor, s string) {
	fmt.Fprintf(out, `  <text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, escape(s))
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace

// label formats a number as briefly as possible.
func label(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.3gG", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// axis maps values to pixels on a logarithmic scale.
type axis struct {
	from, to float64 // ends of the axis in pixels
	low      float64 // smallest and largest value on the axis
	high     float64
}

func newAxis(from, to float64) *axis { return &axis{from: from, to: to, low: math.Inf(1)} }

func (a *axis) include(v float64) { a.low, a.high = min(a.low, v), max(a.high, v) }
func (a *axis) empty() bool       { return a.high == 0 }

// fit extends the range of the axis to round numbers.
func (a *axis) fit() {
	all := steps(a.low, a.high)
	a.low, a.high = all[0], all[len(all)-1]
}

// ticks returns the values of the grid lines.
func (a *axis) ticks() []float64 {
	all := steps(a.low, a.high)
	if len(all) <= 10 {
		return all
	}
	var decades []float64
	for i := math.Floor(math.Log10(a.low)); i <= math.Ceil(math.Log10(a.high)); i++ {
		if v := math.Pow(10, i); v >= a.low*0.999 && v <= a.high*1.001 {
			decades = append(decades, v)
		}
	}
	return decades
}

func (a *axis) place(v float64) float64 {
	return a.from + (a.to-a.from)*(math.Log(v)-math.Log(a.low))/(math.Log(a.high)-math.Log(a.low))
}

// steps returns the values 1, 2 and 5 of each decade in the range from low to high. It returns at
// least two values that enclose the range.
func steps(low, high float64) []float64 {
	var all []float64
	for i := math.Floor(math.Log10(low)) - 1; ; i++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, i)
			switch {
			case v <= low*1.0000001:
				all = []float64{v}
			default:
				all = append(all, v)
				if v >= high*0.9999999 {
					return all
				}
			}
		}
	}
}
