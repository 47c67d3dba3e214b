package admintest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

// The workflows with graphs.
const (
	GraphWorkflow = "admintest.shipment" // the catalog contains its nodes, as for a struct with //flow:dag
	BuiltWorkflow = "admintest.tasks"    // its nodes are known only at run time
)

var (
	parcel = shim.NewWorkflow[string, string](GraphWorkflow, "what", shim.WorkflowPolicy{})
	built  = shim.NewWorkflow[int, int](BuiltWorkflow, "n", shim.WorkflowPolicy{})
)

// parcelNodes describes the graph of GraphWorkflow in the catalog.
var parcelNodes = []shim.Node{
	{ID: "pick"}, {ID: "check", Needs: []string{"pick"}}, {ID: "gift", Needs: []string{"pick"}, If: true}, {ID: "pack", Needs: []string{"check"}, Maybe: []string{"gift"}},
	{ID: "stamp", Each: "check"}, {ID: "hand.over", Needs: []string{"pack", "stamp"}},
}

// packs packs a parcel. With the input "hang", the check of the parcel takes until the scene ends.
// With the input "bad", the check fails.
func packs(ctx workflow.Context, what string) (string, error) {
	g := graph.New()
	node := func(s shim.Step[func(context.Context, string) (string, error)], what string) func(ctx workflow.Context) (string, error) {
		return func(ctx workflow.Context) (string, error) { return shim.Call[string](ctx, s, what) }
	}
	check := node(label, what)
	if what == "hang" {
		check = node(hang, what)
	}
	pick := graph.AddNode(g, "pick", node(label, "pick"))
	checked := graph.AddNode(g, "check", func(ctx workflow.Context) ([]string, error) {
		got, err := check(ctx)
		return []string{got, got}, err
	}, pick)
	gift := graph.AddNode(g, "gift", node(label, "gift"), pick).If(func() bool { return false })
	pack := graph.AddNode(g, "pack", node(label, "pack"), checked, gift.Maybe())
	stamp := graph.AddEach(g, "stamp", checked, func(ctx workflow.Context, _ string) (string, error) { return node(label, "stamp")(ctx) })
	over := graph.AddNode(g, "hand.over", node(label, "over"), pack, stamp)
	if err := g.Run(ctx); err != nil {
		return "", err
	}
	return over.Value(), nil
}

// builds executes a graph of n nodes. Each node needs the node with half its number.
func builds(ctx workflow.Context, n int) (int, error) {
	g := graph.New()
	for i := range n {
		var needs []graph.Dependency
		if i > 1 {
			needs = append(needs, graph.NodeOf[string](g, "n"+strconv.Itoa(i/2)))
		}
		graph.AddNode(g, "n"+strconv.Itoa(i), func(ctx workflow.Context) (string, error) { return shim.Call[string](ctx, label, "n") }, needs...)
	}
	return n, g.Run(ctx)
}

func bindGraphs(w *worker.Worker) {
	shim.BindGraph(w, parcel, packs, parcelNodes...)
	shim.BindWorkflow(w, built, builds)
}

// Graph starts a run and returns its ID. If what is a number, the run is a run of BuiltWorkflow
// with that number of nodes. Otherwise it is a run of GraphWorkflow with the input what.
func (s *Scene) Graph(what, id string) string {
	s.Helper()
	s.described()
	start := admin.Start{Workflow: GraphWorkflow, Input: admin.Payload(`{"what":` + strconv.Quote(what) + `}`), ID: id}
	if _, err := strconv.Atoi(what); err == nil {
		start.Workflow, start.Input = BuiltWorkflow, admin.Payload(`{"n":`+what+`}`)
	}
	got, err := s.Direct.Start(s.ctx(), start)
	if err != nil {
		s.Fatal(err)
	}
	return got.Run
}

// GraphUntil waits until a node in the graph of a run has the given state.
func (s *Scene) GraphUntil(ref, node, state string) {
	s.Helper()
	for ctx := s.ctx(); ; {
		g, err := s.Direct.Graph(ctx, ref, "")
		if p := admin.ProblemOf(err); err != nil && p.Code != admin.CodeNotFound { // the graph is not found until the run has begun an operation or a worker has registered the workflow
			s.Fatal(err)
		}
		for i := range g.Nodes {
			if g.Nodes[i].ID == node && g.Nodes[i].State == state {
				return
			}
		}
	}
}

func showsGraphs(s *Scene) {
	s.described()
	states := func(ref string) (all []string) {
		s.Helper()
		g, err := s.Service.Graph(s.ctx(), ref, "")
		if err != nil {
			s.Fatal(err)
		}
		direct, err := s.Direct.Graph(s.ctx(), ref, "")
		if err != nil {
			s.Fatal(err)
		}
		same(s, "the graph", g, direct)
		if g.Run == "" || g.Build == "" || g.Build != g.Code || g.Why != "" || g.Path != "shipment/graph#1" || g.Total != len(parcelNodes) {
			s.Errorf("got %+v", g)
		}
		for i := range g.Nodes {
			all = append(all, g.Nodes[i].ID+" "+g.Nodes[i].State)
		}
		return all
	}
	hanging := s.Graph("hang", "graph/β")
	s.GraphUntil(hanging, "check", admin.NodeRunning)
	same(s, "nodes", states("id:graph/β"), []string{"pick done", "check running", "gift not reached", "pack not reached", "stamp not reached", "hand.over not reached"})
	bad := s.Graph("bad", "")
	s.Until(bad, "failed")
	same(s, "nodes of a run that has failed", states(bad), []string{"pick done", "check failed", "gift not reached", "pack not reached", "stamp not reached", "hand.over not reached"})
	good := s.Graph("good", "")
	s.Until(good, "completed")
	same(s, "nodes of a run that has completed", states(good), []string{"pick done", "check done", "gift skipped", "pack done", "stamp done", "hand.over done"})

	many := s.Graph("5", "")
	s.Until(many, "completed")
	g, err := s.Service.Graph(s.ctx(), many, "tasks/graph#1")
	if err != nil || g.Build != "" || g.Why == "" || g.Total != 5 || g.States[admin.NodeDone] != 5 || len(g.Nodes[4].Needs) != 0 {
		s.Errorf("a graph that is built while it runs: %+v, %v", g, err)
	}
	_, err = s.Service.Graph(s.ctx(), many, "tasks/graph#2")
	problem(s, "a graph that is not there", err, http.StatusNotFound, admin.CodeNotFound)
	_, err = s.Service.Graph(s.ctx(), s.Ended("good", ""), "")
	problem(s, "a run without a graph", err, http.StatusNotFound, admin.CodeNotFound)
	_, err = s.Service.Graph(s.ctx(), "id:nobody", "")
	problem(s, "a run that is not there", err, http.StatusNotFound, admin.CodeNotFound)
}
