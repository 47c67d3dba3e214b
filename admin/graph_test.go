package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// logOf returns the graphs of a log. An event is written as TYPE KEY if it begins an operation, or
// as TYPE =N if it belongs to the operation that began with event N.
func logOf(t *testing.T, build string, events ...string) *admin.GraphLog {
	t.Helper()
	var l admin.GraphLog
	l.Add(&admin.Event{Type: "run_created", Seq: 1, Ref: 1, Creates: true})
	l.Add(&admin.Event{Type: "run_started", Seq: 2, Build: build})
	for i, text := range events {
		e := admin.Event{Seq: uint64(i + 3), Time: time.UnixMilli(int64(i))}
		var about string
		if n, err := fmt.Sscan(text, &e.Type, &about); n != 2 {
			t.Fatal(text, err)
		}
		e.Type, _, _ = strings.Cut(e.Type, "!")
		if strings.Contains(text, "!cancelled") {
			e.Failure = &admin.Failure{Code: "cancelled"}
		}
		if _, err := fmt.Sscanf(about, "=%d", &e.Ref); err != nil {
			e.Ref, e.Creates, e.Key = e.Seq, true, about
		}
		l.Add(&e)
	}
	return &l
}

// told returns the nodes of a graph with their states.
func told(g admin.Graph) []string {
	var all []string
	for i := range g.Nodes {
		n := &g.Nodes[i]
		line := fmt.Sprintf("%d %s %s", n.Layer, n.ID, n.State)
		if note := n.Note(); note != "" {
			line += ", " + note
		}
		all = append(all, line)
	}
	return all
}

func knownAs(build string, nodes ...admin.CatalogNode) admin.CatalogVersion {
	return admin.CatalogVersion{Build: build, Graph: &admin.CatalogGraph{Nodes: nodes}}
}

// order is a graph with a node of each kind.
var order = []admin.CatalogNode{
	{ID: "plan"}, {ID: "fetch", Each: "plan"}, {ID: "review", Needs: []string{"fetch"}, If: true, MayFail: true}, {ID: "sign", Needs: []string{"review"}},
	{ID: "write", Needs: []string{"fetch"}, Maybe: []string{"review"}}, {ID: "send", Needs: []string{"write"}},
}

func TestOPS2_NodesOfAGraphAreAsFarAsTheLogSays(t *testing.T) {
	running, over := admin.Run{Workflow: "docs.paper", Status: "running"}, admin.Run{Workflow: "docs.paper", Status: "failed", EndedAt: time.UnixMilli(99)}
	done := admin.Run{Workflow: "docs.paper", Status: "completed", EndedAt: time.UnixMilli(99)}
	plan := []string{"step_created paper/graph#1.plan/p#1", "step_started =3", "step_completed =3"} // events 3 to 5
	fetch := append(plan[:3:3], "step_created paper/graph#1.fetch/map#1.1/f#1", "step_created paper/graph#1.fetch/map#1.2/f#1")
	fetched := append(fetch[:5:5], "step_completed =6", "step_completed =7") // events 3 to 9
	for what, c := range map[string]struct {
		run    admin.Run
		events []string
		want   []string
	}{
		"nothing has begun":     {running, nil, []string{"0 plan not reached", "1 fetch not reached", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached"}},
		"it waits for a worker": {running, plan[:1], []string{"0 plan waiting", "1 fetch not reached", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached"}},
		"some of each have ended": {running, append(fetch[:5:5], "step_started =6", "step_completed =6", "step_started =7"), []string{
			"0 plan done", "1 fetch running, 1 of 2 have ended", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached",
		}},
		"it is tried again": {running, append(fetched[:7:7], "step_created paper/graph#1.review/r#1", "step_started =10", "step_retrying =10"), []string{
			"0 plan done", "1 fetch done, 2 operations", "2 review retrying", "3 sign not reached", "3 write not reached", "4 send not reached",
		}},
		"its condition said no": {running, append(fetched[:7:7], "step_created paper/graph#1.write/w#1", "step_started =10"), []string{
			"0 plan done", "1 fetch done, 2 operations", "2 review skipped", "3 sign skipped", "3 write running", "4 send not reached",
		}},
		"it has failed, and may": {running, append(fetched[:7:7], "step_created paper/graph#1.review/r#1", "step_failed =10", "step_created paper/graph#1.write/w#1", "step_started =12"), []string{
			"0 plan done", "1 fetch done, 2 operations", "2 review failed, counts as skipped", "3 sign skipped", "3 write running", "4 send not reached",
		}},
		"there was nothing to do for each": {done, append(plan[:3:3], "step_created paper/graph#1.write/w#1", "step_completed =6", "step_created paper/graph#1.send/s#1", "step_completed =8"), []string{
			"0 plan done", "1 fetch done, there was nothing to do", "2 review skipped", "3 sign skipped", "3 write done", "4 send done",
		}},
		"its failure ended the run": {over, append(fetch[:5:5], "step_failed =6", "step_failed!cancelled =7"), []string{
			"0 plan done", "1 fetch failed, 2 operations, 1 failed", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached",
		}},
		"the run was cancelled": {over, append(fetch[:5:5], "step_failed!cancelled =6", "step_failed!cancelled =7"), []string{
			"0 plan done", "1 fetch stopped, 2 operations", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached",
		}},
		"the run was terminated": {over, append(fetch[:5:5], "step_started =6"), []string{
			"0 plan done", "1 fetch stopped, 0 of 2 have ended", "2 review not reached", "3 sign not reached", "3 write not reached", "4 send not reached",
		}},
	} {
		g, ok := admin.GraphOf(&c.run, "", logOf(t, "b1", c.events...), []admin.CatalogVersion{knownAs("b1", order...)})
		if diff := cmp.Diff(c.want, told(g)); !ok || g.Build != "b1" || g.Total != len(order) || diff != "" {
			t.Errorf("%s: build %q, %d nodes, why %q (-want +got):\n%s", what, g.Build, g.Total, g.Why, diff)
		}
		sum := 0
		for _, n := range g.States {
			sum += n
		}
		if sum != len(order) {
			t.Errorf("%s: states %v", what, g.States)
		}
	}
}

// TestOPS2_AGraphOfAnotherBuildIsShownOnlyIfTheRunFitsIt proves that the dependencies in the
// catalog are used only if the log of the run is consistent with them.
func TestOPS2_AGraphOfAnotherBuildIsShownOnlyIfTheRunFitsIt(t *testing.T) {
	r := admin.Run{Workflow: "docs.paper", Status: "running"}
	older := knownAs("b1", admin.CatalogNode{ID: "plan"}, admin.CatalogNode{ID: "write", Needs: []string{"plan"}})
	newer := knownAs("b2", admin.CatalogNode{ID: "plan"}, admin.CatalogNode{ID: "check", Needs: []string{"plan"}}, admin.CatalogNode{ID: "write", Needs: []string{"check"}})
	silent := admin.CatalogVersion{Build: "b0"}
	planned := []string{"step_created paper/graph#1.plan/p#1", "step_completed =3"}
	written := append(planned[:2:2], "step_created paper/graph#1.write/w#1")
	for what, c := range map[string]struct {
		build      string
		events     []string
		known      []admin.CatalogVersion
		want, says string // want is the build whose dependencies are used; says is the reason if there is none
	}{
		"that of the run's own":                            {"b1", planned, []admin.CatalogVersion{newer, older}, "b1", ""},
		"the newest, if its own is not there":              {"b3", planned, []admin.CatalogVersion{newer, older}, "b2", ""},
		"the newest that fits":                             {"b3", written, []admin.CatalogVersion{newer, older}, "b1", ""},
		"a build that does not say":                        {"b0", planned, []admin.CatalogVersion{newer, silent}, "b2", ""},
		"none has a graph":                                 {"b0", planned, []admin.CatalogVersion{silent}, "", "no build has described the dependencies"},
		"nobody has said anything":                         {"b0", planned, nil, "", "no build has described the dependencies"},
		"too many nodes":                                   {"b1", planned, []admin.CatalogVersion{{Build: "b1", Graph: &admin.CatalogGraph{TooMany: 12345}}}, "", "the graph has 12345 nodes"},
		"a node that it does not have":                     {"b1", append(planned[:2:2], "step_created paper/graph#1.gone/x#1"), []admin.CatalogVersion{older}, "", `the graph of build b1 does not match the log of this run: node "gone" has begun, which it does not have`},
		"a node that began before what it needs had ended": {"b1", []string{"step_created paper/graph#1.plan/p#1", "step_created paper/graph#1.write/w#1", "step_completed =3"}, []admin.CatalogVersion{older}, "", `node "write" has begun before "plan" had ended`},
		"a node that began without what it needs":          {"b1", []string{"step_created paper/graph#1.write/w#1"}, []admin.CatalogVersion{older}, "", `node "write" has begun, and not "plan"`},
		"more than one step in a node":                     {"b1", append(planned[:2:2], "step_created paper/graph#1.plan/p#2"), []admin.CatalogVersion{older}, "", `node "plan" has begun more than one step`},
	} {
		g, ok := admin.GraphOf(&r, "", logOf(t, c.build, c.events...), c.known)
		if !ok || g.Build != c.want || g.Code != c.build || !strings.Contains(g.Why, c.says) || (g.Why == "") != (c.says == "") {
			t.Errorf("%s: build %q of %q, why %q; want %q, why %q", what, g.Build, g.Code, g.Why, c.want, c.says)
		}
	}
}

// TestOPS2_NodesOfAGraphThatIsBuiltWhileItRunsAreInTheOrderOfTime proves that the layers of a graph
// that workflow code builds follow the order of events. A node is in a later layer than the nodes
// that had ended when it began.
func TestOPS2_NodesOfAGraphThatIsBuiltWhileItRunsAreInTheOrderOfTime(t *testing.T) {
	l := logOf(t, "b1",
		"step_created perform/graph#1.a/x#1", "step_created perform/graph#1.b/x#1", "step_completed =3", // events 3 to 5
		"step_created perform/graph#1.c/x#1", "step_completed =4", "step_created perform/graph#1.d/x#1", // events 6 to 8
		"step_failed =6", "step_created perform/graph#1.c/x#2", "step_completed =10", "step_failed =8", // events 9 to 12
		"wait_created perform/graph#1.e/graph#1.inner/sleep#1", "step_created perform/after#1", // events 13 and 14
	)
	r := admin.Run{Workflow: "tasks.perform", Status: "running"}
	g, ok := admin.GraphOf(&r, "", l, nil)
	want := []string{"0 a done", "0 b done", "1 c done, 2 operations, 1 failed", "1 d failed", "2 e waiting"}
	if diff := cmp.Diff(want, told(g)); !ok || diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	inner := "perform/graph#1.e/graph#1"
	if diff := cmp.Diff([]string{"perform/graph#1", inner}, g.Paths); diff != "" || g.Path != "perform/graph#1" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if g, ok = admin.GraphOf(&r, inner, l, nil); !ok || cmp.Diff([]string{"0 inner waiting"}, told(g)) != "" {
		t.Errorf("the inner one: %v %v", ok, told(g))
	}
	for _, path := range []string{"perform/graph#2", "perform", "perform/graph#1.e"} {
		if g, ok := admin.GraphOf(&r, path, l, nil); ok {
			t.Errorf("at %s: %+v", path, g)
		}
	}
	var plain admin.GraphLog
	plain.Add(&admin.Event{Type: "step_created", Seq: 3, Ref: 3, Creates: true, Key: "perform/graph#1.x"}) // the last element of the key is the step itself, so the step is outside of the graph
	if g, ok := admin.GraphOf(&r, "", &plain, []admin.CatalogVersion{knownAs("b1", order...)}); ok {
		t.Errorf("a run that has done other things: %+v", g)
	}
}

// TestOPS2_OfALargeGraphTheFirstNodesAreTold proves that, for a graph of 10,000 nodes, the first
// 1,000 are returned, and that time and memory are proportional to the number of nodes.
func TestOPS2_OfALargeGraphTheFirstNodesAreTold(t *testing.T) {
	var l admin.GraphLog
	for i := range uint64(10_000) {
		l.Add(&admin.Event{Type: "step_created", Seq: 2*i + 1, Ref: 2*i + 1, Creates: true, Key: fmt.Sprintf("perform/graph#1.n%d/x#1", i)})
		l.Add(&admin.Event{Type: "step_completed", Seq: 2*i + 2, Ref: 2*i + 1})
	}
	g, ok := admin.GraphOf(&admin.Run{Workflow: "tasks.perform"}, "", &l, nil)
	if !ok || len(g.Nodes) != 1000 || g.Total != 10_000 || g.States[admin.NodeDone] != 10_000 || g.Nodes[999].Layer != 999 {
		t.Errorf("%d of %d nodes, %v", len(g.Nodes), g.Total, g.States)
	}
	if size := l.Size(); size < 10_000*100 || size > 10_000*1000 {
		t.Errorf("%d bytes are counted", size)
	}
}
