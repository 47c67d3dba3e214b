package console

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// someGraph returns n nodes with random dependencies on preceding nodes.
func someGraph(r *rand.Rand, n int) []admin.GraphNode {
	nodes := make([]admin.GraphNode, n)
	for i := range nodes {
		nodes[i].ID = fmt.Sprint("n", i)
		for range r.IntN(4) {
			if i > 0 {
				j := i - 1 - r.IntN(min(i, 8))
				nodes[i].Needs = append(nodes[i].Needs, nodes[j].ID)
				nodes[i].Layer = max(nodes[i].Layer, nodes[j].Layer+1)
			}
		}
	}
	return nodes
}

// TestOPS2_NodesOfAGraphDoNotOverlapAndFollowWhatTheyNeed proves for random graphs that all nodes
// are in the drawing, that no two nodes overlap, that each node follows its dependencies, and that
// the layout is deterministic.
func TestOPS2_NodesOfAGraphDoNotOverlapAndFollowWhatTheyNeed(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		nodes := someGraph(r, 1+r.IntN(maxNodesDrawn))
		rows := make([]graphRow, len(nodes))
		for _, tall := range []bool{false, true} {
			most, width := 0, wideBox
			if tall {
				most, width = abreast, tallBox
			}
			d := planOf(nodes, most).draw(nodes, rows, tall)
			if diff := cmp.Diff(d, planOf(nodes, most).draw(nodes, rows, tall)); diff != "" {
				t.Fatalf("seed %d: another picture of the same graph (-first +second):\n%s", seed, diff)
			}
			at := map[string]graphBox{}
			beside := map[int]int{}
			for i, b := range d.Nodes {
				at[b.Full] = b
				beside[b.Y]++
				if b.X < 0 || b.Y < 0 || b.X+width > d.Width || b.Y+boxHeight > d.Height {
					t.Errorf("seed %d: node %+v is outside of %d by %d", seed, b, d.Width, d.Height)
				}
				for _, o := range d.Nodes[:i] {
					if abs(b.X-o.X) < width+nodeGap && abs(b.Y-o.Y) < boxHeight+nodeGap {
						t.Errorf("seed %d: nodes %+v and %+v overlap", seed, b, o)
					}
				}
				if tall && beside[b.Y] > abreast {
					t.Errorf("seed %d: %d nodes stand beside each other", seed, beside[b.Y])
				}
			}
			for i := range nodes {
				for _, id := range nodes[i].Needs {
					b, o := at[nodes[i].ID], at[id]
					if !tall && b.X < o.X+width+wideGap || tall && b.Y < o.Y+boxHeight+tallGap {
						t.Errorf("seed %d: node %+v stands before %+v, which it needs", seed, b, o)
					}
				}
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// TestOPS2_EdgesOfAGraphCrossLittle proves that edges do not cross if they can be drawn without
// crossings.
func TestOPS2_EdgesOfAGraphCrossLittle(t *testing.T) {
	node := func(id string, layer int, needs ...string) admin.GraphNode {
		return admin.GraphNode{ID: id, Layer: layer, Needs: needs}
	}
	for what, c := range map[string]struct {
		nodes []admin.GraphNode
		want  int
	}{
		"two chains that were told crosswise": {[]admin.GraphNode{node("a", 0), node("b", 0), node("b1", 1, "b"), node("a1", 1, "a"), node("a2", 2, "a1"), node("b2", 2, "b1")}, 0},
		"an edge that passes a layer":         {[]admin.GraphNode{node("a", 0), node("b", 0), node("c", 1, "b"), node("d", 2, "a", "c")}, 0},
		"two and two":                         {[]admin.GraphNode{node("a", 0), node("b", 0), node("c", 1, "a", "b"), node("d", 1, "a", "b")}, 1},
	} {
		if n := planOf(c.nodes, 0).crossings(); n != c.want {
			t.Errorf("%s: %d crossings, want %d", what, n, c.want)
		}
	}
	chain := []admin.GraphNode{node("a", 0), node("b", 1, "a"), node("c", 2, "b")}
	d := planOf(chain, 0).draw(chain, make([]graphRow, 3), false)
	if d.Height != boxHeight+2*graphMargin || d.Ahead != "M152 28C166 28 166 28 180 28M332 28C346 28 346 28 360 28" || d.Taken != "" {
		t.Errorf("a chain is %d high, its edges are %q and %q", d.Height, d.Ahead, d.Taken)
	}
}

// TestOPS2_ColumnsOfTimeHaveLinesBetweenThem proves that nodes with unknown dependencies are drawn
// in columns in the order of time, with lines between the columns.
func TestOPS2_ColumnsOfTimeHaveLinesBetweenThem(t *testing.T) {
	var nodes []admin.GraphNode
	for i := range 7 {
		nodes = append(nodes, admin.GraphNode{ID: fmt.Sprint("n", i), Layer: []int{0, 1, 1, 1, 1, 2, 2}[i]})
	}
	rows := make([]graphRow, len(nodes))
	wide, tall := planOf(nodes, 0).draw(nodes, rows, false), planOf(nodes, abreast).draw(nodes, rows, true)
	var got [][2]int
	for i := range nodes {
		got = append(got, [2]int{(wide.Nodes[i].X - graphMargin) / (wideBox + wideGap), (tall.Nodes[i].Y - graphMargin) / (boxHeight + tallGap)})
	}
	if diff := cmp.Diff([][2]int{{0, 0}, {1, 1}, {1, 1}, {1, 2}, {1, 2}, {2, 3}, {2, 3}}, got); diff != "" {
		t.Errorf("columns and rows (-want +got):\n%s", diff)
	}
	if len(wide.Lines) != 2 || len(tall.Lines) != 2 || wide.Lines[1].X1 != graphMargin+2*(wideBox+wideGap)-wideGap/2 || tall.Lines[1].Y1 != graphMargin+3*(boxHeight+tallGap)-tallGap/2 {
		t.Errorf("lines %+v and %+v", wide.Lines, tall.Lines)
	}
}
