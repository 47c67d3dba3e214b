package dag_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/dag"
)

func takes(names ...string) (needs []dag.Need) {
	for _, n := range names {
		needs = append(needs, dag.Need{Name: n, Takes: true})
	}
	return needs
}

func maybe(name string) dag.Need { return dag.Need{Name: name, Takes: true, Maybe: true} }

func after(name string) dag.Need { return dag.Need{Name: name, Maybe: true} }

func TestOrder_KeepsNodesAsTheyAreWhereNothingForcesAnother(t *testing.T) {
	nodes := []dag.Node{{Name: "d", Needs: takes("b", "c")}, {Name: "a"}, {Name: "c", Needs: takes("a")}, {Name: "b", Needs: takes("a")}, {Name: "e", Needs: takes("unknown")}}
	if diff := cmp.Diff([]int{1, 2, 3, 0, 4}, dag.Order(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrder_LeavesOutWhatNeedsACycle(t *testing.T) {
	nodes := []dag.Node{{Name: "a", Needs: takes("b")}, {Name: "b", Needs: takes("a")}, {Name: "c", Needs: takes("b")}, {Name: "d"}}
	if diff := cmp.Diff([]int{3}, dag.Order(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCycles_NamesEach(t *testing.T) {
	nodes := []dag.Node{
		{Name: "a", Needs: takes("c")}, {Name: "b", Needs: takes("a", "a")}, {Name: "c", Needs: takes("b", "x")},
		{Name: "x", Needs: takes("y")}, {Name: "y", Needs: append(takes("x"), after("y"))}, {Name: "good", Needs: takes("a", "none")},
	}
	want := [][]string{{"a", "c", "b", "a"}, {"x", "y", "x"}, {"y", "y"}}
	if diff := cmp.Diff(want, dag.Cycles(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSkippable_PassesToWhoTakesAResultAndHasNoOtherWay(t *testing.T) {
	nodes := []dag.Node{
		{Name: "may", MaySkip: true}, {Name: "takes", Needs: takes("may")}, {Name: "far", Needs: takes("takes")},
		{Name: "pointer", Needs: []dag.Need{maybe("may")}}, {Name: "waits", Needs: []dag.Need{after("may")}},
		{Name: "both", Needs: append(takes("far"), maybe("may"))},
	}
	if diff := cmp.Diff(map[string]bool{"may": true, "takes": true, "far": true, "both": true}, dag.Skippable(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSinks_HaveResultsThatNobodyTakes(t *testing.T) {
	nodes := []dag.Node{
		{Name: "taken", HasResult: true}, {Name: "sink", HasResult: true, Needs: takes("taken")}, {Name: "none", Needs: []dag.Need{after("sink")}},
		{Name: "other", HasResult: true, Needs: []dag.Need{after("taken")}},
	}
	if diff := cmp.Diff([]int{1, 3}, dag.Sinks(nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
