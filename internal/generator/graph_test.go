package generator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/usermodule"
)

// The test proves that the generator reports all mistakes in a graph with their positions and
// writes nothing. The folders dag_* of testdata/mistakes contain further mistakes.
func TestDAG2_AllMistakesInAGraphAreReportedWithTheirPositionAndNothingIsWritten(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"ring/ring.go": `package ring

import "context"

//flow:dag
type ring struct{}

//flow:step
func (ring) a(ctx context.Context, c int) (int, error) { return c, nil }

//flow:step
func (ring) b(ctx context.Context, a string) (int, error) { return 0, nil }

//flow:step
func (ring) c(ctx context.Context, b int) (int, error) { return b, nil }

//flow:step name=ring.ring.c
func (ring) d(ctx context.Context, bb int) (int, error) { return 0, nil }
`})
	var got []string
	for _, d := range run(t, dir).Diagnostics {
		got = append(got, d.String())
	}
	want := []string{
		`ring/ring.go:9:13: steps of graph ring need each other: a → c → b → a: remove one of these dependencies`,
		`ring/ring.go:12:36: step b of graph ring takes a as string: it is int: take int`,
		`ring/ring.go:18:13: step d has the stored name "ring.ring.c" of step c at ring.go:15: give one of them another with name=full.name`,
		`ring/ring.go:18:13: step d of graph ring has the id "c", as has step c at ring.go:15: an id is the last part of the stored name: give one of them another with name=ring.ring.id`,
		`ring/ring.go:18:36: step d of graph ring has a parameter bb, and graph ring has no step of that name: did you mean b?`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("diagnostics (-want +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(dir, "ring", "flow_gen.go")); !os.IsNotExist(err) {
		t.Errorf("flow_gen.go: %v", err)
	}
}

const study = `package study

import "context"

//flow:dag
type study struct{ Question string }

//flow:step
func (s *study) plan(ctx context.Context) (string, error) { return s.Question, nil }

//flow:step
func (s *study) write(ctx context.Context, plan string) (string, error) { return plan, nil }
`

func TestGEN3_NamesStoredNamesOfAGraphThatChangedAndHowToKeepThem(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"study/study.go": study})
	mustRun(t, dir)
	renamed := strings.NewReplacer("Question", "Subject", "plan", "outline")
	usermodule.Write(t, dir, "study/study.go", renamed.Replace(study))
	want := []string{
		`study/study.go:6:6: workflow Study stored a parameter as "Question", which is gone, and "Subject" is new: runs under way that hold the old name will be blocked: ` +
			`if it was renamed, keep the stored name with the tag json:"Question" on field Subject; if not, keep Question until no such run is left`,
		`study/study.go:9:17: no step is stored as "study.study.plan" any more, and runs under way may have that name: ` +
			`if studyOutline took its place, keep the stored name with name=study.study.plan; if not, keep the step until no such run is left`,
		`study/study.go:12:17: step studyWrite stored a parameter as "plan", which is gone, and "outline" is new: runs under way that hold the old name will be blocked: ` +
			`if it was renamed, keep the stored name with wire=outline:plan; if not, keep plan until no such run is left`,
	}
	if d := cmp.Diff(want, warnings(mustRun(t, dir))); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
	build(t, dir)
	// The generated file preserves all names, so a second execution of flowgen yields the same
	// result.
	usermodule.Write(t, dir, "study/study.go", study)
	mustRun(t, dir)
	usermodule.Write(t, dir, "study/study.go", strings.NewReplacer("Question string", "Subject string `json:\"Question\"`",
		"//flow:step\nfunc (s *study) plan", "//flow:step name=study.study.plan\nfunc (s *study) outline",
		"//flow:step\nfunc (s *study) write", "//flow:step wire=outline:plan\nfunc (s *study) write",
		"plan", "outline", "s.Question", "s.Subject").Replace(study))
	if w := warnings(mustRun(t, dir)); len(w) > 0 {
		t.Errorf("warnings about names that were kept: %q", w)
	}
	if text := read(t, dir, "study/flow_gen.go"); !strings.Contains(text, `AddNode(g, "plan", `) {
		t.Errorf("the step has another id in the graph:\n%s", text)
	}
}

// The test proves that a step that runs for each element may be declared after the steps that use
// its results.
func TestDAG2_StepsOfAGraphMayStandInAnyOrder(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"back/back.go": `package back

import "context"

//flow:dag
type back struct{}

//flow:step
func (back) publish(ctx context.Context, compile []string) (int, error) { return len(compile), nil }

//flow:step each=plan
func (back) compile(ctx context.Context, plan string) (string, error) { return plan, nil }

//flow:step
func (back) plan(ctx context.Context) ([]string, error) { return nil, nil }
`})
	if ds := run(t, dir).Diagnostics; len(ds) > 0 {
		t.Errorf("got %v, want none", ds)
	}
}

// The test proves that a step of a graph may have the name of a package. The nodes of a graph are
// variables of the generated function, which also uses packages.
func TestDAG2_StepsOfAGraphMayHaveTheNamesOfPackages(t *testing.T) {
	dir := usermodule.New(t, map[string]string{"named/named.go": `package named

import "context"

//flow:dag
type named struct{}

//flow:step
func (named) graph(ctx context.Context) error { return nil }

//flow:step after=graph
func (named) workflow(ctx context.Context) error { return nil }

//flow:step after=workflow
func (named) shim(ctx context.Context) error { return nil }

//flow:step after=shim
func (named) sum(ctx context.Context) (int, error) { return 1, nil }
`})
	mustRun(t, dir)
	build(t, dir)
}
