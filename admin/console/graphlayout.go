package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// graphPlan is the layout of a graph. Each node is in a layer to the right of its dependencies. A
// few rounds of sorting reduce the number of crossings. The layout depends only on the nodes, so
// the drawing does not move while the run progresses.
type graphPlan struct {
	cells  []graphCell // first the nodes in their order, then the cells of edges
	layers [][]int     // cells of each layer, in the order of their positions
	edges  [][]int     // for each edge, the cells from a node to the dependent node
	starts []int       // layers that are known to begin later than the preceding layers
}

// graphCell is a position in a layer. It contains a node, or an edge that passes through the layer.
type graphCell struct {
	layer     int
	node      int   // index of the node; -1 for an edge
	ins, outs []int // adjacent cells in the preceding and in the following layer
}

// planOf computes the layout of nodes. The parameter most is the maximum number of nodes in a
// layer; 0 means any number.
func planOf(nodes []admin.GraphNode, most int) *graphPlan {
	p := &graphPlan{}
	at := make(map[string]int, len(nodes))
	before := make([][]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
	}
	timed := true // true if no dependencies are known, so that the layers are those of the log
	for i := range nodes {
		for _, id := range nodes[i].Before() {
			before[i] = append(before[i], at[id])
			timed = false
		}
	}
	for i, layer := range p.stack(nodes, before, timed, most) {
		p.cell(layer, i)
	}
	for i := range nodes {
		for _, from := range before[i] {
			p.edge(from, i)
		}
	}
	p.sort()
	return p
}

// stack returns the layer of each node. It moves nodes that exceed the limit of a layer to the
// following layers.
func (p *graphPlan) stack(nodes []admin.GraphNode, before [][]int, timed bool, most int) []int {
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return nodes[a].Layer - nodes[b].Layer })
	layers, taken := make([]int, len(nodes)), map[int]int{}
	now, begin, last := 0, 0, 0
	for _, i := range order {
		if timed && nodes[i].Layer > now {
			now, begin = nodes[i].Layer, last+1
			p.starts = append(p.starts, begin)
		}
		layer := begin
		for _, o := range before[i] {
			layer = max(layer, layers[o]+1)
		}
		for most > 0 && taken[layer] >= most {
			layer++
		}
		taken[layer]++
		layers[i], last = layer, max(last, layer)
	}
	return layers
}

func (p *graphPlan) cell(layer, node int) int {
	i := len(p.cells)
	p.cells = append(p.cells, graphCell{layer: layer, node: node})
	for len(p.layers) <= layer {
		p.layers = append(p.layers, nil)
	}
	p.layers[layer] = append(p.layers[layer], i)
	return i
}

// edge connects two nodes through the layers between them.
func (p *graphPlan) edge(from, to int) {
	way := []int{from}
	for layer := p.cells[from].layer + 1; layer < p.cells[to].layer; layer++ {
		way = append(way, p.cell(layer, -1))
	}
	way = append(way, to)
	for i := range way[1:] {
		a, b := way[i], way[i+1]
		p.cells[a].outs, p.cells[b].ins = append(p.cells[a].outs, b), append(p.cells[b].ins, a)
	}
	p.edges = append(p.edges, way)
}

// sweeps is the number of rounds in which the order within layers is improved.
const sweeps = 8

// sort orders each layer by the positions of adjacent cells, forward and backward, and keeps the
// order with the fewest crossings.
func (p *graphPlan) sort() {
	best, fewest := p.order(), p.crossings()
	for i := range sweeps {
		for l := range p.layers {
			if i%2 == 1 {
				l = len(p.layers) - 1 - l
			}
			p.sortLayer(l, i%2 == 0)
		}
		if n := p.crossings(); n < fewest {
			best, fewest = p.order(), n
		}
	}
	p.layers = best
}

func (p *graphPlan) order() [][]int {
	all := make([][]int, len(p.layers))
	for i := range all {
		all[i] = slices.Clone(p.layers[i])
	}
	return all
}

// places returns the position of each cell in the order of its layer.
func (p *graphPlan) places() []int {
	at := make([]int, len(p.cells))
	for _, layer := range p.layers {
		for i, c := range layer {
			at[c] = i
		}
	}
	return at
}

// sortLayer orders a layer by the mean positions of the adjacent cells in the preceding layer if
// before is true, and otherwise in the following layer. Cells without adjacent cells keep their
// positions approximately.
func (p *graphPlan) sortLayer(l int, before bool) {
	at := p.places()
	mean := func(c int) (sum, n int) {
		near := p.cells[c].outs
		if before {
			near = p.cells[c].ins
		}
		for _, o := range near {
			sum += 2*at[o] + 1
		}
		if len(near) == 0 {
			return 2*at[c] + 1, 1
		}
		return sum, len(near)
	}
	slices.SortStableFunc(p.layers[l], func(a, b int) int {
		x, n := mean(a)
		y, m := mean(b)
		return x*m - y*n
	})
}

// crossings counts the pairs of edges that cross.
func (p *graphPlan) crossings() (count int) {
	at := p.places()
	for _, layer := range p.layers {
		var ends []int // ends of the edges of the preceding cells
		for _, c := range layer {
			for _, o := range p.cells[c].outs {
				for _, end := range ends {
					if end > at[o] {
						count++
					}
				}
			}
			for _, o := range p.cells[c].outs {
				ends = append(ends, at[o])
			}
		}
	}
	return count
}

// Sizes of a drawing, in units of its viewBox.
const (
	wideBox, tallBox = 146, 126 // widths of nodes in wide and in tall drawings
	boxHeight        = 44
	wideGap, tallGap = 34, 32 // distances between layers
	nodeGap, edgeGap = 14, 8  // distance between the nodes of a layer, and distance from an edge that passes through the layer
	edgeRoom         = 6      // width reserved for such an edge
	abreast          = 2      // maximum number of nodes side by side in a tall drawing, which is for narrow screens
	maxTall          = 40     // maximum number of nodes in a tall drawing
	narrow           = 700    // maximum width of a drawing that narrow screens show
	graphMargin      = 6
	charWidth        = 8 // approximate maximum width of a character
)

// spread returns the positions of the centers of cells across the layers. It keeps their order,
// avoids overlaps, and places cells close to their adjacent cells.
func (p *graphPlan) spread(size int) []int {
	room := func(c int) int {
		if p.cells[c].node >= 0 {
			return size
		}
		return edgeRoom
	}
	apart := func(a, b int) int {
		if p.cells[a].node >= 0 && p.cells[b].node >= 0 {
			return (room(a)+room(b))/2 + nodeGap
		}
		return (room(a)+room(b))/2 + edgeGap
	}
	at := make([]int, len(p.cells))
	far := 0 // half the size of the widest layer, which bounds the positions in all layers
	for _, layer := range p.layers {
		for i, c := range layer[1:] {
			at[c] = at[layer[i]] + apart(layer[i], c)
		}
		last := layer[len(layer)-1]
		middle := at[last] / 2
		far = max(far, (at[last]+room(layer[0])/2+room(last)/2+1)/2)
		for _, c := range layer {
			at[c] -= middle
		}
	}
	for i := range 2 * sweeps {
		for l := range p.layers {
			if i%2 == 1 {
				l = len(p.layers) - 1 - l
			}
			layer := p.layers[l]
			p.settle(layer, at, apart, room(layer[0])/2-far, far-room(layer[len(layer)-1])/2)
		}
	}
	least := at[0]
	for _, layer := range p.layers {
		least = min(least, at[layer[0]]-room(layer[0])/2)
	}
	for i := range at {
		at[i] -= least
	}
	return at
}

// settle moves the cells of a layer toward the means of their adjacent cells, as far as their order
// and sizes allow. Cells that would overlap form a block, which is placed at the mean of the wanted
// positions. least and most bound the positions of the first and the last cell.
func (p *graphPlan) settle(layer, at []int, apart func(a, b int) int, least, most int) {
	type block struct{ sum, weight, n int }
	var blocks []block
	offset, offsets := 0, make([]int, len(layer))
	for i, c := range layer {
		if i > 0 {
			offset += apart(layer[i-1], c)
		}
		offsets[i] = offset
		want, weight := p.wanted(c, at), 1
		if p.cells[c].node < 0 {
			weight = 4
		}
		blocks = append(blocks, block{(want - offset) * weight, weight, 1})
		for k := len(blocks); k > 1 && blocks[k-2].sum*blocks[k-1].weight > blocks[k-1].sum*blocks[k-2].weight; k = len(blocks) {
			a, b := blocks[k-2], blocks[k-1]
			blocks = append(blocks[:k-2], block{a.sum + b.sum, a.weight + b.weight, a.n + b.n})
		}
	}
	i := 0
	for _, b := range blocks {
		for range b.n {
			at[layer[i]] = max(min(b.sum/b.weight, most-offset), least) + offsets[i]
			i++
		}
	}
}

// wanted returns the position at which a cell is closest to its adjacent cells. An edge that passes
// through several layers is kept straight if possible.
func (p *graphPlan) wanted(c int, at []int) int {
	sum, weights := 0, 0
	for _, near := range [][]int{p.cells[c].ins, p.cells[c].outs} {
		for _, o := range near {
			weight := 1
			if p.cells[c].node < 0 && p.cells[o].node < 0 {
				weight = 6
			}
			sum, weights = sum+weight*at[o], weights+weight
		}
	}
	if weights == 0 {
		return at[c]
	}
	return sum / weights
}

// draw returns a drawing of the nodes from left to right, or from top to bottom if tall is true.
// The rows contain the texts of the nodes.
func (p *graphPlan) draw(nodes []admin.GraphNode, rows []graphRow, tall bool) *graphDrawing {
	width, along, across, gap := wideBox, wideBox, boxHeight, wideGap
	if tall {
		width, along, across, gap = tallBox, boxHeight, tallBox, tallGap
	}
	at := p.spread(across)
	begin := func(layer int) int { return graphMargin + layer*(along+gap) }
	far := 0
	for i := range p.cells {
		half := edgeRoom / 2
		if p.cells[i].node >= 0 {
			half = across / 2
		}
		far = max(far, at[i]+half)
	}
	d := &graphDrawing{Width: begin(len(p.layers)-1) + along + graphMargin, Height: far + 2*graphMargin}
	if tall {
		d.Width, d.Height = d.Height, d.Width
	}
	d.BoxWidth = width
	for _, layer := range p.starts {
		a := begin(layer) - gap/2
		line := graphLine{a, 0, a, d.Height}
		if tall {
			line = graphLine{0, a, d.Width, a}
		}
		d.Lines = append(d.Lines, line)
	}
	for i := range nodes {
		x, y := begin(p.cells[i].layer), graphMargin+at[i]-across/2
		if tall {
			x, y = y, x
		}
		d.Nodes = append(d.Nodes, boxOf(&nodes[i], &rows[i], x, y, width))
	}
	var taken, tips, ahead, points strings.Builder
	for _, way := range p.edges {
		lines, ends := &ahead, &points
		if from, to := &nodes[way[0]], &nodes[way[len(way)-1]]; to.Seq > 0 && from.Seq > 0 {
			lines, ends = &taken, &tips
		}
		p.drawEdge(lines, ends, way, at, begin, along, tall)
	}
	d.Taken, d.Tips, d.Ahead, d.Points = taken.String(), tips.String(), ahead.String(), points.String()
	return d
}

// tip is the length of an arrowhead.
const tip = 6

// drawEdge appends an edge to the SVG path lines, and its arrowhead to the SVG path ends.
func (p *graphPlan) drawEdge(lines, ends *strings.Builder, way, at []int, begin func(layer int) int, along int, tall bool) {
	pair := func(a, b int) string { // coordinates along and across the layers
		if tall {
			a, b = b, a
		}
		return fmt.Sprintf("%d %d", a, b)
	}
	last := len(way) - 1
	for i := range last {
		a, b := &p.cells[way[i]], &p.cells[way[i+1]]
		x, y := begin(a.layer)+along, graphMargin+at[way[i]]
		to, v := begin(b.layer), graphMargin+at[way[i+1]]
		if i == 0 {
			lines.WriteString("M" + pair(x, y))
		} else {
			lines.WriteString("L" + pair(x, y))
		}
		if i+1 == last {
			to -= tip
			fmt.Fprintf(ends, "M%sL%sL%sz", pair(to, v-4), pair(to+tip, v), pair(to, v+4))
		}
		middle := (x + to) / 2
		fmt.Fprintf(lines, "C%s %s %s", pair(middle, y), pair(middle, v), pair(to, v))
	}
}

// boxOf returns the box of a node at a position.
func boxOf(n *admin.GraphNode, r *graphRow, x, y, width int) graphBox {
	b := graphBox{X: x, Y: y, TextX: x + width/2, NameY: y + 18, StateY: y + 34, Name: cut(width/charWidth, n.ID), Full: cut(120, n.ID), Kind: r.Kind, Link: r.Link, Many: n.Each != ""}
	b.State = n.State
	switch {
	case n.Open > 0 && n.Operations > 1:
		b.State += fmt.Sprintf(" · %s/%s", number(n.Operations-n.Open), number(n.Operations))
	case n.Operations > 1:
		b.State += fmt.Sprintf(" ×%s · %s", number(n.Operations), r.Took)
	case r.Took != "":
		b.State += " · " + r.Took
	}
	b.Said = strings.TrimSuffix(b.Full+": "+n.State+", "+r.Text, ", ")
	if r.Needs != "" {
		b.Said += "; needs " + r.Needs
	}
	return b
}
