package runs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN7_TheTreeOfARunHasItsChildrenAndTheirDepths(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		mids, tops := flowtest.Flow[int, int]("mids"), flowtest.Flow[int, int]("tops")
		twice := func(d workflow.Definition[int, int]) func(workflow.Context, int) (int, error) {
			return func(ctx workflow.Context, n int) (int, error) {
				first, err := d.Child(ctx, n)
				if err != nil {
					return 0, err
				}
				second, err := d.Child(ctx, n)
				return first + second, err
			}
		}
		w.Work(worker.Config{}, flowtest.Double, flowtest.As(mids, twice(flowtest.Doubles)), flowtest.As(tops, twice(mids)))
		run := flowtest.Start(w, tops, 1)
		if got := flowtest.Result(w, run); got != 8 {
			t.Fatalf("got %d, want 8", got)
		}
		tree, err := ops.New(w.Client).Tree(w.Ctx, run.ID())
		if err != nil {
			t.Fatal(err)
		}
		nodes := 0
		var walk func(t ops.Tree, parent workflow.RunID, depth int)
		walk = func(n ops.Tree, parent workflow.RunID, depth int) {
			nodes++
			if n.Parent != parent || n.Depth != depth || n.Root != run.ID() || n.Status != workflow.StatusCompleted {
				t.Errorf("%s of %s: parent %s, depth %d, root %s, %s", n.ID, n.Workflow, n.Parent, n.Depth, n.Root, n.Status)
			}
			for _, c := range n.Children {
				walk(c, n.ID, depth+1)
			}
		}
		walk(tree, "", 0)
		if nodes != 7 {
			t.Errorf("the tree has %d runs, want 7", nodes)
		}
		depths := map[int]int{}
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{Root: run.ID()}) {
			if err != nil {
				t.Fatal(err)
			}
			depths[info.Depth]++
		}
		if diff := cmp.Diff(map[int]int{0: 1, 1: 2, 2: 4}, depths); diff != "" {
			t.Errorf("listed runs of the root by depth (-want +got):\n%s", diff)
		}
		below, err := ops.New(w.Client).Tree(w.Ctx, tree.Children[1].ID)
		if err != nil || len(below.Children) != 2 || below.Children[0].Depth != 2 {
			t.Errorf("the tree of a child: %+v, %v", below, err)
		}
	})
}
