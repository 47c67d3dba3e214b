package layers_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/environ"
)

// foreign returns a pattern for text that ties a file to the machine of its author: a path in a
// home directory, or the host of a package registry. The pattern is assembled from parts, so that
// this file does not match it.
func foreign(t *testing.T) *regexp.Regexp {
	t.Helper()
	parts := []string{
		`/(root|home/[\w.-]+|Users/[\w.-]+)/`,
		`[A-Z]:\\+Users\\`,
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	for _, dir := range []string{root, home} {
		if strings.Count(dir, "/") > 1 { // shorter paths, such as "/src", are too general
			parts = append(parts, regexp.QuoteMeta(dir)+`\b`)
		}
	}
	paths := `(^|[^\w./-])(` + strings.Join(parts, "|") + `)`
	hosts := `\b(proxy\.go` + `lang\.org|sum\.go` + `lang\.org|go` + `proxy\.(io|cn|dev)|registry\.npm` + `js\.org|index\.docker` + `\.io|pypi` + `\.org)\b`
	return regexp.MustCompile(`(?m)` + paths + `|` + hosts)
}

// suspicious reports whether a text contains one of the words without which foreign cannot match.
// Few files do. Matching the pattern itself takes a hundred times as long.
func suspicious(t *testing.T, text []byte) bool {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir()
	for _, word := range []string{"/ro" + "ot/", "/ho" + "me/", "Use" + "rs", "prox" + "y.", "sum.", "registry.", "index.", "pyp" + "i", root, home} {
		if word != "" && bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

func TestTree_NamesNoMachineAndNoRegistry(t *testing.T) {
	pattern := foreign(t)
	files := map[string]bool{}
	sources(t, func(name string, content []byte) {
		files[name] = true
		if !suspicious(t, content) {
			return
		}
		if at := pattern.FindIndex(content); at != nil {
			line := 1 + strings.Count(string(content[:at[0]]), "\n")
			t.Errorf("%s:%d: %q belongs to a machine or a registry: leave it out", name, line, strings.TrimSpace(string(content[at[0]:at[1]])))
		}
	})
	for _, name := range []string{"go.mod", "LICENSE", "Makefile", ".ci/run", "runtime/event/doc.go", "internal/layers/tree_test.go"} {
		if !files[name] {
			t.Errorf("%s was not looked at", name)
		}
	}
}

// variable matches the name of an environment variable of flowgen.
var variable = regexp.MustCompile(`\bFLOWGEN_[A-Z0-9_]*[A-Z0-9]\b`)

// TestOPS6_TreeUsesOnlyKnownVariables proves that no file uses an environment variable that
// programs would refuse as unknown. Tests and tools use variables that begin with FLOWTEST_.
func TestOPS6_TreeUsesOnlyKnownVariables(t *testing.T) {
	known := map[string]bool{}
	for _, name := range environ.Names() {
		known[name], known[name+"_FILE"] = true, true
	}
	used := 0
	sources(t, func(name string, content []byte) {
		if strings.HasPrefix(name, "internal/environ/") || strings.HasSuffix(name, "_test.go") || name == "docs/use/configuration.md" {
			return // They contain unknown variables, or those that Kubernetes sets.
		}
		for _, found := range variable.FindAll(content, -1) {
			if used++; !known[string(found)] {
				t.Errorf("%s: %s is unknown: add it to a config struct and to package environ, or begin its name with FLOWTEST_", name, found)
			}
		}
	})
	if used < 20 {
		t.Errorf("%d uses of variables were found", used)
	}
}

func TestTree_TellsPathsOfMachinesFromOthers(t *testing.T) {
	pattern := foreign(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{
		"see /" + "root/go/pkg", `"/` + `home/jane/src"`, "/" + "Users/jane/x", `C:\` + `Users\jane`,
		"https://proxy.go" + "lang.org/x", "GOPROXY=go" + "proxy.io", "(/" + "home/a.b/c)",
		"sum.go" + "lang.org", "registry.npm" + "js.org", "index.docker" + ".io", "pypi" + ".org",
	}
	if strings.Count(root, "/") > 1 {
		bad = append(bad, root+"/x.go", "at "+root)
	}
	for _, text := range bad {
		if !suspicious(t, []byte(text)) || !pattern.MatchString(text) {
			t.Errorf("%q is not found", text)
		}
	}
	for _, text := range []string{"/usr/local/bin", "the root/leaf", "runs/root/parent", "https://example.com/home/x/", "github.com/flowgen/flowgen", "/homepage/x"} {
		if pattern.MatchString(text) {
			t.Errorf("%q is taken for a machine's", text)
		}
	}
}

// sources calls visit for each file of the tree that is or could be committed.
func sources(t *testing.T, visit func(name string, content []byte)) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "clients/ts/node_modules" || name == "clients/ts/dist"):
			return fs.SkipDir
		case !d.Type().IsRegular() || name == "coverage.out" || strings.Contains(name, ".db"):
			return nil
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		visit(name, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
