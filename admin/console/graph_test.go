package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

var (
	graphPart = regexp.MustCompile(`(?s)<section class="graph".*?</section>`)
	tableRow  = regexp.MustCompile(`(?s)<tr><th scope="row".*?</tr>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	spoken    = regexp.MustCompile(`class="g-[a-z-]+" (?:role="img" )?aria-label="([^"]*)"`)
)

// graphOf returns the graph on the page of a run. It returns the markup, the text of the table
// without times, and the texts of the nodes for screen readers.
func (s *site) graphOf(ref string) (part string, rows, said []string) {
	s.Helper()
	part = graphPart.FindString(s.get("runs/"+ref, 200))
	for _, row := range tableRow.FindAllString(part, -1) {
		cells := strings.Split(strings.ReplaceAll(row, "</td>", "</th>"), "</th>")
		var texts []string
		for _, cell := range cells[:3] {
			texts = append(texts, strings.TrimSpace(tag.ReplaceAllString(cell, "")))
		}
		rows = append(rows, strings.Join(texts, " | "))
	}
	for _, m := range spoken.FindAllStringSubmatch(part, -1) {
		said = append(said, m[1])
	}
	return part, rows, said
}

// TestOPS2_AGraphIsDrawnWithItsStates proves that a graph is shown as a drawing and as a table,
// with the state of each node in words and with the dependencies.
func TestOPS2_AGraphIsDrawnWithItsStates(t *testing.T) {
	s := newSite(t, console.Config{})
	ref := s.Graph("hang", "")
	s.GraphUntil(ref, "check", admin.NodeRunning)
	part, rows, said := s.graphOf(ref)
	want := []string{
		"pick | done | ", "check | running | pick", "gift | not reached | pick, that its condition holds", "pack | not reached | check, gift or that it was skipped",
		"stamp | not reached | each of check", "hand.over | not reached | pack, stamp",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	nodes := []string{
		"pick: done", "check: running; needs pick", "gift: not reached; needs pick, that its condition holds", "pack: not reached; needs check, gift or that it was skipped",
		"stamp: not reached; needs each of check", "hand.over: not reached; needs pack, stamp",
	}
	if diff := cmp.Diff(append(nodes, nodes...), said); diff != "" { // both drawings contain all nodes
		t.Errorf("what is said of the nodes (-want +got):\n%s", diff)
	}
	has(t, part, "1 done", "1 running", "4 not reached", `class="way taken"`, `class="tip ahead"`, "?op=3", "says which node needs which")
	hasNot(t, part, "executes this run", "No ways between")

	done := s.Graph("good", "")
	s.Until(done, "completed")
	_, rows, _ = s.graphOf(done)
	if diff := cmp.Diff([]string{"check | done | pick", "gift | skipped | pick, that its condition holds", "stamp | done, 2 operations | each of check"}, []string{rows[1], rows[2], rows[4]}); diff != "" {
		t.Errorf("of a run that has ended (-want +got):\n%s", diff)
	}
	if part := graphPart.FindString(s.get("runs/"+s.Ended("good", ""), 200)); part != "" {
		t.Errorf("a run without a graph has %s", part)
	}
}

// TestOPS2_AGraphWithoutAShapeIsDrawnAsItsLogHasIt proves that the nodes of a graph that workflow
// code builds are drawn in the order of the log. For a large graph, only the counts are shown.
func TestOPS2_AGraphWithoutAShapeIsDrawnAsItsLogHasIt(t *testing.T) {
	s := newSite(t, console.Config{})
	small, large := s.Graph("7", ""), s.Graph("150", "")
	s.Until(small, "completed")
	s.Until(large, "completed")
	part, rows, _ := s.graphOf(small)
	has(t, part, "7 done", "Nodes stand in the order of time", "No ways between nodes are drawn: no build has described the dependencies", `class="col"`)
	hasNot(t, part, `class="way`, "says which node needs which", ">Needs<")
	if len(rows) != 7 {
		t.Errorf("the table has %q", rows)
	}
	part, rows, _ = s.graphOf(large)
	has(t, part, "150 done", "More than 100 nodes are not drawn")
	if hasNot(t, part, "<svg", "in the order of time"); len(rows) != 0 || len(part) > 4000 {
		t.Errorf("%d nodes are shown in %d bytes", len(rows), len(part))
	}
}

// TestOPS2_AGraphOfAnotherBuildSaysSo proves that the page draws the graph of another build, with
// the name of the build, if the run is consistent with the graph. Otherwise the page shows the
// reason.
func TestOPS2_AGraphOfAnotherBuildSaysSo(t *testing.T) {
	st := memstore.New()
	now := time.Now()
	s := newSiteOn(t, st, console.Config{Now: func() time.Time { return now }})
	ref := s.Graph("hang", "")
	s.GraphUntil(ref, "check", admin.NodeRunning)
	kept, err := store.Catalog(t.Context(), st, store.CatalogQuery{Workflow: admintest.GraphWorkflow})
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	graph := kept[0].Versions[0].Graph.Nodes
	describe := func(build string, nodes []store.CatalogNode) {
		t.Helper()
		for i := range store.MaxCatalogVersions { // registers versions until the catalog has dropped the others
			v := store.CatalogVersion{Build: build, Queue: fmt.Sprint("q", i), Graph: store.NewCatalogGraph(nodes)}
			if err := store.Describe(t.Context(), st, admintest.GraphWorkflow, v); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Minute) // the cache entry has expired
	}
	describe("next<b>", graph)
	part, _, _ := s.graphOf(ref)
	has(t, part, "Build ", "next&lt;b&gt;", "executes this run, and what it has done fits that", `class="way taken"`)
	describe("later", append([]store.CatalogNode{{ID: "audit"}, {ID: "pick", Needs: []string{"audit"}}}, graph[1:]...))
	part, rows, _ := s.graphOf(ref)
	has(t, part, "the graph of build later does not match the log of this run: node &#34;pick&#34; has begun, and not &#34;audit&#34;")
	if hasNot(t, part, `class="way`); len(rows) != 2 {
		t.Errorf("the table has %q", rows)
	}
	describe("silent", nil)
	part, _, _ = s.graphOf(ref)
	has(t, part, "No ways between nodes are drawn: no build has described the dependencies")
}

// TestOPS2_NodesOfHostileNamesAreShownAsTheyAre proves that a run that has not begun is drawn with
// all nodes of its graph, whatever their names are.
func TestOPS2_NodesOfHostileNamesAreShownAsTheyAre(t *testing.T) {
	st := memstore.New()
	s := newSiteOn(t, st, console.Config{})
	const hostile = `<script>alert(1)</script>"' ` + "\u202e"
	v := store.CatalogVersion{Build: hostile, Graph: store.NewCatalogGraph([]store.CatalogNode{{ID: hostile}, {ID: "a", Needs: []string{hostile}}})}
	if err := store.Describe(t.Context(), st, "nobody.serves", v); err != nil {
		t.Fatal(err)
	}
	got, err := s.Direct.Start(t.Context(), admin.Start{Workflow: "nobody.serves", Input: admin.Payload(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	part, rows, _ := s.graphOf(got.Run)
	if has(t, part, "&lt;script&gt;alert(1)&lt;/script&gt;", "2 not reached"); len(rows) != 2 {
		t.Errorf("the table has %q", rows)
	}
	hasNot(t, part, "<script", "\u202e")
}
