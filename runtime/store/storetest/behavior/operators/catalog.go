package operators

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// describe describes a workflow for a build. The input schema has says as its title. describe
// returns the version that the catalogue must then contain.
func (h *harness) describe(workflow, build, says string) store.CatalogVersion {
	h.Helper()
	v := store.CatalogVersion{Build: build, Queue: "q", Input: json.RawMessage(fmt.Sprintf(`{"title":%q}`, says)), Output: json.RawMessage(`{}`)}
	h.Check("describe", store.Describe(h.Ctx, h.entries(), workflow, v))
	v.At = time.UnixMilli(h.Clock.Now().UnixMilli()).UTC()
	return v
}

// aGraph returns a graph that contains every kind of node.
func aGraph() []store.CatalogNode {
	return []store.CatalogNode{
		{ID: "plan"}, {ID: "fetch", Each: "plan"}, {ID: "review.é", Needs: []string{"fetch"}, If: true, MayFail: true},
		{ID: "write", Needs: []string{"fetch"}, Maybe: []string{"review.é"}},
	}
}

// catalogued returns the catalogue entries that match a query.
func (h *harness) catalogued(q store.CatalogQuery) []store.CatalogEntry {
	h.Helper()
	all, err := store.Catalog(h.Ctx, h.entries(), q)
	h.Check("catalog", err)
	return all
}

// said returns the versions of a workflow in the catalogue, each as its build and its input schema.
func (h *harness) said(workflow string) (all []string) {
	h.Helper()
	for _, e := range h.catalogued(store.CatalogQuery{Workflow: workflow}) {
		for i := range e.Versions {
			all = append(all, e.Versions[i].Build+" "+strings.Trim(string(e.Versions[i].Input), `{}`))
		}
	}
	return all
}

var catalogBehaviors = []behavior{
	{"CAT1_WhatABuildSaysIsKeptAsItWasSaid", func(h *harness) {
		h.Equal("catalogue", h.catalogued(store.CatalogQuery{}), []store.CatalogEntry{})
		v := h.describe("orders.<fulfil>/β", "b1", "é <&> \u2028")
		got := h.catalogued(store.CatalogQuery{Workflow: "orders.<fulfil>/β"})
		if len(got) != 1 || len(got[0].Versions) != 1 || got[0].Workflow != "orders.<fulfil>/β" {
			h.Fatalf("got %+v", got)
		}
		kept := got[0].Versions[0]
		var said, want any
		if json.Unmarshal(kept.Input, &said) != nil || json.Unmarshal(v.Input, &want) != nil {
			h.Fatalf("got %s", kept.Input)
		}
		h.Equal("schema", said, want)
		h.Equal("version", []any{kept.Build, kept.Queue, string(kept.Output), kept.At.Equal(v.At)}, []any{"b1", "q", "{}", true})
	}},
	{"CAT1_ABuildThatSaysTheSameAgainChangesNothing", func(h *harness) {
		v := h.describe("w", "b1", "a")
		h.Clock.Advance(time.Hour)
		spaced := v
		spaced.Input = json.RawMessage(" " + string(v.Input) + "\n")
		h.Check("describe", store.Describe(h.Ctx, h.entries(), "w", spaced))
		h.Equal("versions", h.catalogued(store.CatalogQuery{})[0].Versions, []store.CatalogVersion{v})
	}},
	{"CAT1_ABuildThatSaysWhatAnotherHasSaidTakesItsPlace", func(h *harness) {
		h.describe("w", "b1", "a")
		h.Clock.Advance(time.Hour)
		v := h.describe("w", "b2", "a")
		h.Equal("versions", h.catalogued(store.CatalogQuery{})[0].Versions, []store.CatalogVersion{v})
	}},
	{"CAT1_ABuildThatSaysSomethingElseIsTheNewest", func(h *harness) {
		h.describe("w", "b1", "a")
		h.describe("w", "b2", "b")
		h.Equal("said", h.said("w"), []string{`b2 "title":"b"`, `b1 "title":"a"`})
		h.describe("w", "b1", "a") // as if a worker of the older build restarted
		h.Equal("when the older one starts again", h.said("w"), []string{`b2 "title":"b"`, `b1 "title":"a"`})
		h.describe("w", "b3", "a") // a newer build with the description of the oldest
		h.Equal("when a newer one goes back", h.said("w"), []string{`b3 "title":"a"`, `b2 "title":"b"`})
	}},
	{"CAT1_AQueueAResultAndLimitsCountAsWell", func(h *harness) {
		v := h.describe("w", "b1", "a")
		for _, change := range []func(v *store.CatalogVersion){
			func(v *store.CatalogVersion) { v.Queue = "other" }, func(v *store.CatalogVersion) { v.Output = nil }, func(v *store.CatalogVersion) { v.Input = nil },
			func(v *store.CatalogVersion) { v.Limits = []string{"a", "é/β"} },
			func(v *store.CatalogVersion) { v.Graph = store.NewCatalogGraph(aGraph()) },
			func(v *store.CatalogVersion) { v.Graph = store.NewCatalogGraph(aGraph()[:3]) },
		} {
			other := v
			change(&other)
			h.Check("describe", store.Describe(h.Ctx, h.entries(), "w", other))
			got := h.catalogued(store.CatalogQuery{Workflow: "w"})[0].Versions[0]
			h.Equal("the newest", got.Same(&other), true)
		}
		h.Equal("versions", len(h.said("w")), 4)
	}},
	{"CAT1_AGraphIsKeptAsItWasSaid", func(h *harness) {
		h.describe("w", "b1", "a") // this build describes no graph
		v := store.CatalogVersion{Build: "b2", Queue: "q", Graph: store.NewCatalogGraph(aGraph())}
		h.Check("describe", store.Describe(h.Ctx, h.entries(), "w", v))
		h.Check("describe again", store.Describe(h.Ctx, h.entries(), "w", v))
		got := h.catalogued(store.CatalogQuery{Workflow: "w"})[0].Versions
		if len(got) != 2 || got[0].Graph == nil || got[1].Graph != nil {
			h.Fatalf("got %+v", got)
		}
		h.Equal("nodes", got[0].Graph.Nodes, aGraph())
		h.Equal("is the same", got[0].Same(&v), true)
		v.Graph = store.NewCatalogGraph(aGraph()[:3]) // the same build with another graph
		h.Check("describe another one", store.Describe(h.Ctx, h.entries(), "w", v))
		h.Equal("nodes of the other one", h.catalogued(store.CatalogQuery{Workflow: "w"})[0].Versions[0].Graph.Nodes, aGraph()[:3])
	}},
	{"CAT1_OfAGraphThatIsTooLongTheNumberOfNodesIsKept", func(h *harness) {
		nodes := make([]store.CatalogNode, 10_000)
		for i := range nodes {
			nodes[i].ID = fmt.Sprint("n", i)
		}
		v := store.CatalogVersion{Build: "b1", Graph: store.NewCatalogGraph(nodes)}
		h.Check("describe", store.Describe(h.Ctx, h.entries(), "w", v))
		h.Equal("graph", *h.catalogued(store.CatalogQuery{})[0].Versions[0].Graph, store.CatalogGraph{TooMany: 10_000})
		kept := store.NewCatalogGraph(nodes[:1000])
		h.Equal("nodes of a shorter one", len(kept.Nodes), 1000)
		h.Check("describe a shorter one", store.Describe(h.Ctx, h.entries(), "w", store.CatalogVersion{Build: "b2", Graph: kept}))
	}},
	{"CAT1_OldVersionsAreForgotten", func(h *harness) {
		for i := range store.MaxCatalogVersions + 3 {
			h.describe("w", fmt.Sprint("b", i), fmt.Sprint(i))
		}
		got := h.said("w")
		h.Equal("versions", len(got), store.MaxCatalogVersions)
		h.Equal("the newest", got[0], fmt.Sprintf(`b%[1]d "title":"%[1]d"`, store.MaxCatalogVersions+2))
	}},
	{"CAT1_PagesHaveEachWorkflowOnceByName", func(h *harness) {
		var want []string
		for i := range 23 {
			want = append(want, fmt.Sprintf("w%02d", i))
		}
		for i := range want {
			h.describe(want[(i*7)%23], "b", "a")
		}
		for _, limit := range []int{0, 1, 5, 22, 23, 24} {
			var got []string
			for q := (store.CatalogQuery{Limit: limit}); ; {
				page := h.catalogued(q)
				if len(page) == 0 {
					break
				}
				if limit > 0 && len(page) > limit {
					h.Fatalf("a page of %d has %d", limit, len(page))
				}
				for i := range page {
					got = append(got, page[i].Workflow)
				}
				q.After = page[len(page)-1].Workflow
			}
			h.Equal(fmt.Sprint("in pages of ", limit), got, want)
		}
		h.Equal("one that nobody has described", h.catalogued(store.CatalogQuery{Workflow: "w"}), []store.CatalogEntry{})
	}},
	{"CAT1_WhatIsNoDescriptionIsRefused", func(h *harness) {
		for what, v := range map[string]store.CatalogVersion{
			"input that is not JSON":  {Input: json.RawMessage(`{`)},
			"result that is not JSON": {Output: json.RawMessage(`}`)},
			"too large a schema":      {Input: json.RawMessage(`"` + strings.Repeat("x", store.MaxCatalogSchema) + `"`)},
			"a build that is none":    {Build: "\x00"},
			"a queue that is none":    {Queue: "\xff"},
			"a limit that is none":    {Limits: []string{"a", ""}},
			"too many limits":         {Limits: slices.Repeat([]string{"a"}, store.MaxUses+1)},
			"a node without an id":    {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{}}}},
			"a node that is none":     {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{ID: "\x00"}}}},
			"a node twice":            {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{ID: "a"}, {ID: "a"}}}},
			"a need that is none":     {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{ID: "a", Needs: []string{"b"}}}}},
			"a node that needs one after it": {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{
				{ID: "a", Maybe: []string{"b"}}, {ID: "b"},
			}}},
			"a node that needs itself": {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{ID: "a", Each: "a"}}}},
			"a graph of nothing":       {Graph: &store.CatalogGraph{}},
			"nodes, and too many":      {Graph: &store.CatalogGraph{Nodes: aGraph(), TooMany: 3}},
			"too long a graph":         {Graph: &store.CatalogGraph{Nodes: []store.CatalogNode{{ID: "a"}, {ID: "b", Needs: slices.Repeat([]string{"a"}, store.MaxCatalogGraph/4)}}}},
		} {
			if err := store.Describe(h.Ctx, h.entries(), "w", v); !errors.As(err, new(*store.InvalidError)) {
				h.Errorf("%s: got %v", what, err)
			}
		}
		for _, name := range []string{"", "\x00", strings.Repeat("x", store.MaxName+1)} {
			if err := store.Describe(h.Ctx, h.entries(), name, store.CatalogVersion{}); !errors.As(err, new(*store.InvalidError)) {
				h.Errorf("workflow %.10q: got %v", name, err)
			}
		}
		h.Equal("catalogue", h.catalogued(store.CatalogQuery{}), []store.CatalogEntry{})
	}},
	{"CAT1_WorkersThatStartAtOnceLoseNothing", func(h *harness) {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for n := range store.MaxCatalogVersions {
					v := store.CatalogVersion{Build: fmt.Sprint("b", n), Input: json.RawMessage(fmt.Sprint(n))}
					if err := store.Describe(h.Ctx, h.entries(), fmt.Sprint("w", i%2), v); err != nil {
						h.Errorf("describe: %v", err)
					}
				}
			})
		}
		wg.Wait()
		for _, name := range []string{"w0", "w1"} {
			h.Equal("versions of "+name, len(h.said(name)), store.MaxCatalogVersions)
		}
	}},
	{"CAT1_AClosedStoreSaysNothing", func(h *harness) {
		c := h.entries()
		h.Check("close", h.Store.Close())
		if err := store.Describe(h.Ctx, c, "w", store.CatalogVersion{}); err == nil {
			h.Errorf("a workflow was described")
		}
		if _, err := store.Catalog(h.Ctx, c, store.CatalogQuery{}); err == nil {
			h.Errorf("the catalogue was read")
		}
	}},
}

var reopenCatalogBehaviors = []behavior{
	{"CAT1_TheCatalogueIsThereAfterTheStoreWasOpenedAgain", func(h *harness) {
		h.describe("w", "b1", "a")
		h.Reopen()
		h.Equal("said", h.said("w"), []string{`b1 "title":"a"`})
	}},
}
