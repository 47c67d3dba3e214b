package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/flowgen/flowgen/lab/versus/internal/measure"
)

// The dimensions of the chart in pixels.
const (
	width     = 760
	left      = 220 // where bars begin
	right     = 680 // where the longest bar ends
	rowHeight = 20
	barHeight = 13
	heading   = 40
)

const style = `
    text { font: 12px system-ui, sans-serif; fill: #222 }
    .title { font-size: 14px; font-weight: 600 } .end { text-anchor: end } .page { fill: #fff } .peer { fill: #94a3b8 } .flowgen { fill: #1f6feb }
    @media (prefers-color-scheme: dark) { text { fill: #ddd } .page { fill: #0d1117 } .peer { fill: #64748b } .flowgen { fill: #58a6ff } }
`

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace

// WriteChart writes the steps per second as SVG, a group of bars for each workload. All bars of a
// group have the same linear scale, which begins at zero.
func (r *Report) WriteChart(w io.Writer) error {
	var groups []*measure.Workload
	height := 10
	for _, l := range measure.Workloads {
		if rows := r.of(l); l.Throughput && len(rows) > 0 {
			groups = append(groups, l)
			height += heading + rowHeight*len(rows)
		}
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(out, "  <title>Steps per second</title>\n  <style>%s  </style>\n", style)
	fmt.Fprintf(out, `  <rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	y := 0
	for _, l := range groups {
		y = drawGroup(out, l, r.of(l), y)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// drawGroup draws the bars of a workload below y and returns the y of their end.
func drawGroup(out io.Writer, l *measure.Workload, rows []*measure.Result, y int) int {
	fmt.Fprintf(out, `  <text class="title" x="12" y="%d">%s, steps per second</text>`+"\n", y+28, escape(l.Name))
	y += heading
	var most float64
	for _, r := range rows {
		most = max(most, r.StepsPerSecond)
	}
	for _, r := range rows {
		class, label := "peer", number(r.StepsPerSecond)
		if strings.HasPrefix(r.System, "flowgen") {
			class = "flowgen"
		}
		if r.Skipped != "" {
			label = "skipped"
		}
		length := 0.0
		if most > 0 {
			length = (right - left) * r.StepsPerSecond / most
		}
		fmt.Fprintf(out, `  <text class="end" x="%d" y="%d">%s, %s</text>`+"\n", left-8, y+barHeight-2, escape(r.System), escape(r.Store))
		fmt.Fprintf(out, `  <rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", class, left, y, length, barHeight)
		fmt.Fprintf(out, `  <text x="%.1f" y="%d">%s</text>`+"\n", left+length+6, y+barHeight-2, label)
		y += rowHeight
	}
	return y
}
