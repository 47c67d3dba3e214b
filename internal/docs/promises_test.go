package docs

import (
	"bytes"
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

var update = flag.Bool("update", false, "write the lists of tests of docs/promises.md")

const promisesPage = "../../docs/promises.md"

var (
	promiseHeading = regexp.MustCompile(`^### ([A-Z]+)(\d+)$`)
	promiseTest    = regexp.MustCompile(`^Test([A-Z]+)(\d+)_`)
)

// listProofs returns the page with the tests of each promise listed under it, and the
// promises in the order of the page. tests are lines by promise.
func listProofs(page string, tests map[string][]string) (listed string, promises []string) {
	var b strings.Builder
	inList := false // in the old list, which is left out
	for line := range strings.Lines(page) {
		text := strings.TrimRight(line, "\n")
		if m := promiseHeading.FindStringSubmatch(text); m != nil {
			promises = append(promises, m[1]+m[2])
		}
		switch {
		case inList && (strings.HasPrefix(text, "- ") || text == "" || text == "(none)"):
			continue
		case inList:
			inList = false
			b.WriteString("\n")
		}
		b.WriteString(line)
		if text == "Proved by:" && len(promises) > 0 {
			inList = true
			b.WriteString("\n")
			for _, proof := range tests[promises[len(promises)-1]] {
				b.WriteString(proof + "\n")
			}
		}
	}
	return b.String(), promises
}

// family returns the letters of a promise's id.
func family(promise string) string { return strings.TrimRight(promise, "0123456789") }

// proofs returns the tests of the tree by the promise that their names begin with, each
// as a line of a list, in the order of their packages and names.
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

func TestPromises_AreListedWithTheTestsThatProveThem(t *testing.T) {
	page, err := os.ReadFile(promisesPage)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := proofs("../..")
	if err != nil {
		t.Fatal(err)
	}
	want, promises := listProofs(string(page), tests)
	families := make(map[string]bool)
	for _, p := range promises {
		families[family(p)] = true
		if len(tests[p]) == 0 {
			t.Errorf("no test proves %s: write one, or move it to Planned", p)
		}
	}
	for p, named := range tests {
		// Names may also begin with a rule of the store protocol, such as F2.
		if families[family(p)] && !slices.Contains(promises, p) {
			t.Errorf("docs/promises.md lacks %s, which these tests are named after: %s", p, strings.Join(named, " "))
		}
	}
	if *update {
		if err := os.WriteFile(promisesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(page, []byte(want)) {
		t.Errorf("docs/promises.md is out of date, run: go test ./internal/docs -run TestPromises -update\n%s", cmp.Diff(string(page), want))
	}
}

func TestListProofs_ReplacesTheOldLists(t *testing.T) {
	page := "# P\n\n### AB1\n\nSays.\n\nProved by:\n\n- old: `TestAB1_Gone`\n\n### AB2\n\nSays, too.\n\nProved by:\n\n(none)\n\n## Planned\n\n- **C1** x\n"
	want := "# P\n\n### AB1\n\nSays.\n\nProved by:\n\n- a: `TestAB1_X`\n- b: `TestAB1_Y`\n\n### AB2\n\nSays, too.\n\nProved by:\n\n\n## Planned\n\n- **C1** x\n"
	got, promises := listProofs(page, map[string][]string{"AB1": {"- a: `TestAB1_X`", "- b: `TestAB1_Y`"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"AB1", "AB2"}, promises); diff != "" {
		t.Error(diff)
	}
	again, _ := listProofs(got, map[string][]string{"AB1": {"- a: `TestAB1_X`", "- b: `TestAB1_Y`"}})
	if again != got {
		t.Error("a page that is up to date is changed")
	}
}
