package console

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// Limits of the drawing of a graph. For a larger graph, the page shows only the number of nodes in
// each state.
const (
	maxNodesDrawn = 100
	maxEdgesDrawn = 400
	maxGraphs     = 12  // maximum number of graphs of a run to choose from
	maxNeeds      = 400 // maximum length of the list of a node's dependencies, in characters
)

// shapes caches the catalog entries of workflows. An entry changes only if a worker of another
// build starts, but pages are drawn every second.
type shapes struct {
	now func() time.Time
	mu  sync.Mutex
	by  map[string]shape
}

type shape struct {
	read     time.Time
	versions []admin.CatalogVersion // without their schemas
}

// Limits of the age and the number of cached entries.
const (
	shapeFor   = 10 * time.Second
	unknownFor = time.Second // for unknown workflows; their worker may have just started
	maxShapes  = 500
)

func newShapes(now func() time.Time) *shapes { return &shapes{now: now, by: map[string]shape{}} }

// of returns the versions of a workflow in the catalog. It ignores errors, because the run is drawn
// even without the catalog.
func (s *shapes) of(q *request, workflow string) []admin.CatalogVersion {
	s.mu.Lock()
	kept, ok := s.by[workflow]
	s.mu.Unlock()
	most := shapeFor
	if len(kept.versions) == 0 {
		most = unknownFor
	}
	if ok && s.now().Sub(kept.read) < most {
		return kept.versions
	}
	page, err := q.service.Catalog(q.ctx(), admin.CatalogFilter{Workflow: workflow, Limit: 1})
	if q.ctx().Err() != nil {
		return nil
	}
	kept = shape{read: s.now()}
	if err == nil && len(page.Workflows) == 1 {
		for _, v := range page.Workflows[0].Versions {
			kept.versions = append(kept.versions, admin.CatalogVersion{Build: v.Build, At: v.At, Graph: v.Graph})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.by) >= maxShapes {
		clear(s.by)
	}
	s.by[workflow] = kept
	return kept.versions
}

// graphView is the drawing of a graph.
type graphView struct {
	Path   string
	Others []choice // the other graphs of the run
	Counts []graphCount
	Total  int
	Said   string // description for screen readers
	Build  string
	Code   string // build of the run, if it differs from the build of the graph
	Why    string // reason why the dependencies are unknown
	Many   string // reason why the graph is not drawn
	Nodes  []graphRow
	Wide   *graphDrawing // drawing from left to right
	Long   bool          // whether the drawing is too wide for narrow screens
	Tall   *graphDrawing // drawing from top to bottom, for narrow screens
}

// graphCount is the number of nodes in a state.
type graphCount struct {
	State, Kind string
	Count       int
}

// graphRow is a node in the table below the drawing.
type graphRow struct {
	ID, State, Kind string
	Needs           string
	Began, Took     string
	Text            string // additional information about the state
	Link            string
}

// graphDrawing is a drawing of a graph. Numbers are in units of its viewBox.
type graphDrawing struct {
	Width, Height int
	BoxWidth      int
	Taken, Ahead  string      // SVG paths of the edges
	Tips, Points  string      // SVG paths of the arrowheads of these edges
	Lines         []graphLine // lines between layers, if there are no edges
	Nodes         []graphBox
}

type graphLine struct{ X1, Y1, X2, Y2 int }

// graphBox is a node in a drawing.
type graphBox struct {
	X, Y, TextX, NameY, StateY int
	Name, Full, State, Kind    string
	Said                       string
	Link                       string
	Many                       bool // whether the node executes once per element
}

// graph returns the drawing of a graph of a run. It returns nil if the run has no graph.
func (q *request) graph(v *runView) *graphView {
	of := func(known []admin.CatalogVersion) (g admin.Graph, ok bool) {
		q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, _ error) {
			if g, ok = admin.GraphOf(&v.Run, q.query.Get("graph"), &s.graph, known); !ok {
				g, ok = admin.GraphOf(&v.Run, "", &s.graph, known)
			}
		})
		return g, ok
	}
	var plain bool // true if all operations so far are outside of graphs, so that the catalog need not be read
	q.h.logs.with(q.ctx(), q, v.ID, v.Events, func(s *skeleton, _ error) { plain = s.graph.Begun && len(s.graph.Paths()) == 0 })
	if plain {
		return nil
	}
	g, ok := of(q.h.shapes.of(q, v.Workflow))
	if !ok {
		return nil
	}
	view := graphViewOf(q, v, &g)
	for _, at := range g.Paths[:min(len(g.Paths), maxGraphs)] {
		view.Others = append(view.Others, choice{at, changed(q, "graph", at), at == g.Path})
	}
	return view
}

// graphViewOf returns the drawing of a graph.
func graphViewOf(q *request, v *runView, g *admin.Graph) *graphView {
	view := &graphView{Path: g.Path, Total: g.Total, Build: g.Build, Why: visible(g.Why)}
	if g.Build != "" && g.Code != g.Build {
		view.Code = g.Code
	}
	var said []string
	for _, state := range admin.GraphStates() {
		if n := g.States[state]; n > 0 {
			view.Counts = append(view.Counts, graphCount{state, kindOfState(state), n})
			said = append(said, number(n)+" "+state)
		}
	}
	view.Said = plural(g.Total, "node", "nodes") + ": " + strings.Join(said, ", ")
	edges := 0
	for i := range g.Nodes {
		edges += len(g.Nodes[i].Before())
	}
	switch {
	case g.Total > maxNodesDrawn:
		view.Many = fmt.Sprintf("More than %d nodes are not drawn: the timeline has those that have begun.", maxNodesDrawn)
		return view
	case edges > maxEdgesDrawn:
		view.Many = fmt.Sprintf("The nodes need each other in %s ways: more than %d are not drawn.", number(edges), maxEdgesDrawn)
	}
	for i := range g.Nodes {
		view.Nodes = append(view.Nodes, graphRowOf(q, v, &g.Nodes[i]))
	}
	if view.Many != "" {
		return view
	}
	view.Wide = planOf(g.Nodes, 0).draw(g.Nodes, view.Nodes, false)
	if len(g.Nodes) <= maxTall {
		view.Tall, view.Long = planOf(g.Nodes, abreast).draw(g.Nodes, view.Nodes, true), view.Wide.Width > narrow
	}
	return view
}

// kindOfState returns the CSS class for a state.
func kindOfState(state string) string { return strings.ReplaceAll(state, " ", "-") }

// graphRowOf returns the table row of a node.
func graphRowOf(q *request, v *runView, n *admin.GraphNode) graphRow {
	r := graphRow{ID: n.ID, State: n.State, Kind: kindOfState(n.State), Needs: cut(maxNeeds, strings.Join(n.Waits(), ", "))}
	if n.Seq > 0 {
		r.Link = changed(q, "op", strconv.FormatUint(n.Seq, 10))
		end := n.Ended
		if end.IsZero() {
			end = q.now
		}
		r.Began = "+" + took(max(n.Began.Sub(v.CreatedAt), 0))
		r.Took = took(max(end.Sub(n.Began), 0))
	}
	r.Text = n.Note()
	return r
}
