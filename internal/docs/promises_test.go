package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var write = flag.String("promises", "", "write the promises with their tests into this `file`")

const promisesPage = "promises.md"

var (
	promiseHeading = regexp.MustCompile(`^### ([A-Z]+)(\d+)$`)
	promiseTest    = regexp.MustCompile(`^Test([A-Z]+)(\d+)_`)
)

// listProofs returns the page with a list of tests after each promise, and the promises in the
// order of the page. tests contains the lines of the list by promise.
func listProofs(page string, tests map[string][]string) (listed string, promises []string) {
	var b strings.Builder
	list := func() {
		if n := len(promises); n > 0 && len(tests[promises[n-1]]) > 0 {
			b.WriteString("Proved by:\n\n" + strings.Join(tests[promises[n-1]], "\n") + "\n\n")
		}
	}
	inPromise := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "##") && inPromise {
			list()
			inPromise = false
		}
		if m := promiseHeading.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			promises = append(promises, m[1]+m[2])
			inPromise = true
		}
		b.WriteString(line)
	}
	if inPromise {
		b.WriteString("\n")
		list()
	}
	return b.String(), promises
}

// family returns the letters in the ID of a promise.
func family(promise string) string { return strings.TrimRight(promise, "0123456789") }

// proofs returns the tests of the tree by the promise with which their names begin. Each test is a
// line of a list, sorted by package and name.
func proofs(root string) (map[string][]string, error) {
	found := make(map[string][]string)
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(at, "_test.go") || strings.Contains(at, "testdata") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(at))
		for _, decl := range file.Decls {
			if fn, isFunc := decl.(*ast.FuncDecl); isFunc && fn.Recv == nil {
				if m := promiseTest.FindStringSubmatch(fn.Name.Name); m != nil {
					found[m[1]+m[2]] = append(found[m[1]+m[2]], fmt.Sprintf("- %s: `%s`", filepath.ToSlash(dir), fn.Name.Name))
				}
			}
		}
		return err
	})
	for _, tests := range found {
		slices.Sort(tests)
	}
	return found, err
}

func TestPromises_AreProvedByTests(t *testing.T) {
	page, err := os.ReadFile(promisesPage)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := proofs("../..")
	if err != nil {
		t.Fatal(err)
	}
	listed, promises := listProofs(string(page), tests)
	families := make(map[string]bool)
	for _, p := range promises {
		families[family(p)] = true
		if len(tests[p]) == 0 {
			t.Errorf("no test proves %s: write one, or move it to Planned", p)
		}
	}
	for p, named := range tests {
		// Test names may also begin with a rule of the store protocol, such as F2, whose family has
		// no promises.
		if families[family(p)] && !slices.Contains(promises, p) {
			t.Errorf("internal/docs/promises.md lacks %s, which these tests are named after: %s", p, strings.Join(named, " "))
		}
	}
	if *write != "" {
		if err := os.WriteFile(*write, []byte(listed), 0o644); err != nil { //nolint:gosec // a page that anyone may read
			t.Fatal(err)
		}
	}
}

func TestListProofs_PutsTheTestsAtTheEndOfEachPromise(t *testing.T) {
	page := "# P\n\n### AB1\n\nText.\n\nMore.\n\n### AB2\n\nText.\n\n## Planned\n\n- **C1** x\n\n### AB3\n\nText.\n"
	want := "# P\n\n### AB1\n\nText.\n\nMore.\n\nProved by:\n\n- a: `TestAB1_X`\n- b: `TestAB1_Y`\n\n### AB2\n\nText.\n\n## Planned\n\n- **C1** x\n\n" +
		"### AB3\n\nText.\n\nProved by:\n\n- c: `TestAB3_X`\n\n"
	got, promises := listProofs(page, map[string][]string{"AB1": {"- a: `TestAB1_X`", "- b: `TestAB1_Y`"}, "AB3": {"- c: `TestAB3_X`"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"AB1", "AB2", "AB3"}, promises); diff != "" {
		t.Error(diff)
	}
}
