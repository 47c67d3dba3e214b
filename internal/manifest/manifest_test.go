package manifest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/testutil/usermodule"
	"github.com/google/go-cmp/cmp"
)

// declarations contains the declarations of a package. A name between § is the name of a local
// variable or function. No hash depends on such a name.
var declarations = []string{
	"// Order is an input.\ntype Order struct {\n\tID    string `json:\"id\"`\n\tLines []Line\n\tNote  *string `json:\",omitempty\"`\n}",
	"// Line is a part of it.\ntype Line struct {\n\tName string\n\tN    int\n\tOf   *Line `json:\",omitempty\"`\n}",
	"//flow:step\nfunc charge(ctx context.Context, id string, cents int) (string, error) { return id, nil }",
	"//flow:step key=line.Name queue=slow retries=3\nfunc pack(ctx context.Context, line Line) error { return nil }",
	"var limit = 3",
	"// Verdict is waited for.\nvar Verdict = workflow.NewTopic[Line](\"verdict\")",
	"func §price§(§o§ Order) int {\n\t§n§ := 0\n\tfor _, §l§ := range §o§.Lines {\n\t\t§n§ += §l§.N * limit\n\t}\n\treturn §n§\n}",
	"func §pay§(§c§ workflow.Context, §o§ Order) (string, error) {\n\t§r§, err := Charge(§c§, §o§.ID, §price§(§o§))\n\tif err != nil {\n\t\treturn \"\", err\n\t}\n\treturn §r§, nil\n}",
	"//flow:workflow\nfunc fulfil(§ctx§ workflow.Context, order Order) (string, error) {\n\t§receipt§, §err§ := §pay§(§ctx§, order)\n\tif §err§ != nil {\n\t\treturn \"\", §err§\n\t}\n" +
		"\t§left§ := len(order.Lines)\n\tfor §left§ > 0 {\n\t\t§left§--\n\t\tif §err§ := Pack(§ctx§, order.Lines[§left§]); §err§ != nil {\n\t\t\treturn \"\", §err§\n\t\t}\n\t}\n" +
		"\tif _, §err§ := Verdict.Receive(§ctx§); §err§ != nil {\n\t\treturn \"\", §err§\n\t}\n\treturn §receipt§, nil\n}",
}

var name = regexp.MustCompile(`§(\w+)§`)

// variant returns the files of a package that contains the declarations with other names, in
// another order, in different files, and with additional comments and log calls.
func variant(rng *rand.Rand) []string {
	files := []string{"", ""}
	for _, i := range rng.Perm(len(declarations)) {
		names := map[string]string{}
		text := declarations[i]
		if rng.IntN(2) == 0 {
			text = strings.Replace(text, "§ctx§ workflow.Context, order Order) (string, error) {\n", "§ctx§ workflow.Context, order Order) (string, error) {\n\t// It begins.\n\tworkflow.Logger(§ctx§).Info(\"begin\", \"order\", order.ID)\n", 1)
		}
		text = name.ReplaceAllStringFunc(text, func(s string) string {
			s = strings.Trim(s, "§")
			if s == "price" || s == "pay" { // These names must be the same in all declarations.
				return s + "Of"
			}
			if names[s] == "" {
				names[s] = fmt.Sprintf("%s%d", s, rng.IntN(100))
			}
			return names[s]
		})
		files[rng.IntN(2)] += text + "\n\n"
	}
	for i, text := range files {
		head := "package p\n\nimport (\n"
		for mention, path := range map[string]string{"context.": "context", "workflow.": "github.com/flowgen/flowgen/runtime/workflow"} {
			if strings.Contains(text, mention) {
				head += fmt.Sprintf("\t%q\n", path)
			}
		}
		files[i] = head + ")\n\n" + text
	}
	return files
}

// The test proves that a manifest does not depend on formatting, comments, names of local variables
// and Go functions, the division into files, and log calls. It compares the manifests of 50
// variants.
func TestVER4_OneManifestWhateverThingsAreCalled(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir := module(t)
	for i := range 50 {
		for j, text := range variant(rng) {
			usermodule.Write(t, dir, fmt.Sprintf("v%d/f%d.go", i, j), text)
		}
	}
	var first string
	for path, m := range manifests(t, dir, "./...") {
		w := m.Workflows["p.fulfil"]
		if w == nil {
			t.Fatalf("%s has no workflow: %s", path, m.Encode())
		}
		m.Package = "p"
		w.Decides = nil // Decides is indexed by function names, which differ between the variants.
		text := strings.NewReplacer("priceOf", "price").Replace(string(m.Encode()))
		if first == "" {
			first = text
		}
		if d := cmp.Diff(first, text); d != "" {
			t.Fatalf("%s (-first +this):\n%s", path, d)
		}
	}
}

// The test proves that Decode returns the encoded manifest, and that the encoding is sorted.
func TestVER4_AManifestIsReadAsItWasWritten(t *testing.T) {
	for path, m := range manifests(t, filepath.Join("..", ".."), "./examples/guide/...") {
		text := m.Encode()
		if !json.Valid(text) {
			t.Fatalf("%s is not JSON: %s", path, text)
		}
		back, err := manifest.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(text), string(back.Encode())); d != "" {
			t.Errorf("%s (-written +read and written):\n%s", path, d)
		}
		if !back.Current() {
			t.Errorf("%s: its hashes are not current", path)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, ".go:") {
				t.Errorf("%s:%d has a position: %s", path, n+1, line)
			}
		}
		if len(manifest.Mermaid(m)) == 0 && len(m.Workflows) > 0 {
			t.Errorf("%s is not drawn", path)
		}
	}
	if _, err := manifest.Decode([]byte(`{"format": 2}`)); err == nil {
		t.Error("a manifest of another format was read")
	}
}

// The test proves that a manifest contains the operations of a workflow in order, including the
// operations of an inlined helper.
func TestVER4_AManifestHasTheOperationsInOrder(t *testing.T) {
	dir := module(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for j, text := range variant(rng) {
		usermodule.Write(t, dir, fmt.Sprintf("v/f%d.go", j), text)
	}
	for _, m := range manifests(t, dir, "./v") {
		var got []string
		manifest.Walk(m.Workflows["p.fulfil"].Ops, func(o *manifest.Op) {
			got = append(got, strings.TrimSpace(strings.Join(append([]string{o.Op, o.Name, o.Text}, o.Args...), " ")))
		})
		for _, want := range []string{"step p.charge  p.order.ID p.priceOf(p.order)", "receive topic verdict"} {
			if !slices.Contains(got, want) {
				t.Errorf("got %q, want among others %q", got, want)
			}
		}
	}
}

func manifests(t *testing.T, dir, pattern string) map[string]*manifest.Manifest {
	t.Helper()
	set, roots, err := load.Module(t.Context(), dir, []string{pattern}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := manifest.NewWorld(set.Packages)
	all := map[string]*manifest.Manifest{}
	for _, p := range roots {
		if m := w.Of(p); m != nil {
			all[p] = m
		}
	}
	if len(all) == 0 {
		t.Fatal("there is no manifest")
	}
	return all
}

// module creates a module that requires the module under test.
func module(t *testing.T) string {
	t.Helper()
	dir := usermodule.New(t, nil)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -mod=mod")
	return dir
}

// The test proves that the manifest of a machine contains a state for each step and the schema of
// the scratchpad.
func TestVER4_AMachineHasItsStepsInTheManifest(t *testing.T) {
	for path, m := range manifests(t, filepath.Join("..", ".."), "./generated/machines") {
		w := m.Workflows["machines.onboarding"]
		if w == nil {
			t.Fatalf("%s has no machine", path)
		}
		steps := 0
		manifest.Walk(w.Ops, func(o *manifest.Op) {
			if o.Op == "step" {
				steps++
			}
		})
		if steps != 5 || len(w.Scratchpad) == 0 {
			t.Errorf("got %d steps and scratchpad %q, want 5 steps and a schema", steps, w.Scratchpad)
		}
	}
}
