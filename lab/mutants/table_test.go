package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

func TestTable_FitsTheSource(t *testing.T) {
	table := Table()
	for i := range table {
		if _, err := table[i].ApplyIn(root); err != nil {
			t.Error(err)
		}
	}
	for i := range hosting {
		if _, err := hosting[i].ApplyIn(root); err != nil {
			t.Error(err)
		}
	}
}

func TestTable_SaysOfEachMutantWhatItIs(t *testing.T) {
	ids := map[string]bool{}
	shape := regexp.MustCompile(`^([A-Z][1-9][0-9]?|streams|limits|lists|engine)/[a-z]+/[a-z-]+$`)
	for _, m := range Table() {
		switch {
		case !shape.MatchString(m.ID):
			t.Errorf("id %q: want subject/place/what", m.ID)
		case ids[m.ID]:
			t.Errorf("there are two mutants %s", m.ID)
		case m.Disabled == "" || strings.ContainsAny(m.Disabled, "|`\n"):
			t.Errorf("mutant %s: what it disables cannot stand in a table: %q", m.ID, m.Disabled)
		case len(m.Tests) == 0:
			t.Errorf("mutant %s: no test is to kill it", m.ID)
		}
		ids[m.ID] = true
	}
}

func TestTable_BreaksEveryRuleOnRedis(t *testing.T) {
	places := map[string]map[string]bool{}
	for _, m := range Table() {
		if places[m.Subject()] == nil {
			places[m.Subject()] = map[string]bool{}
		}
		places[m.Subject()][m.Place()] = true
	}
	for _, rule := range Rules {
		_, elsewhere := Elsewhere[rule.Name]
		if broken := places[rule.Name]["redis"]; broken == elsewhere {
			t.Errorf("rule %s on Redis: broken: %t, held elsewhere: %t", rule.Name, broken, elsewhere)
		}
		if len(places[rule.Name]) == 0 {
			t.Errorf("rule %s is broken nowhere", rule.Name)
		}
	}
	engine := 0
	for _, m := range Table() {
		if m.Subject() == "engine" {
			engine++
		}
	}
	if engine < 20 {
		t.Errorf("%d decisions of the engine are disabled, want at least 20", engine)
	}
}

// The test proves that every test in the table exists. If a test was renamed, testing its mutants
// would have no effect.
func TestTable_NamesTestsThatExist(t *testing.T) {
	known := map[string]map[string]bool{}
	behaviors := stringsIn(t, filepath.Join(root, "runtime", "store", "storetest", "behavior", "*"))
	behaviors["RandomHistoriesMatchTheModel"] = true
	for _, m := range Table() {
		if known[m.Package] == nil {
			known[m.Package] = testsIn(t, filepath.Join(root, filepath.FromSlash(m.Package)))
		}
		for _, name := range m.Tests {
			top, sub, _ := strings.Cut(name, "/")
			if !known[m.Package][top] {
				t.Errorf("mutant %s: package %s has no test %s", m.ID, m.Package, top)
			}
			last := sub[strings.LastIndexByte(sub, '/')+1:]
			if suite := top == "TestConformance" || top == "TestStore_KeepsTheContract"; suite && !behaviors[last] {
				t.Errorf("mutant %s: the conformance suite has no behaviour %s", m.ID, last)
			}
		}
	}
}

// each calls visit for every node of the matching Go files in a directory.
func each(t *testing.T, dir, files string, visit func(n ast.Node)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, files))
	if err != nil || len(names) == 0 {
		t.Fatalf("read %s: %d files, %v", dir, len(names), err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	each(t, dir, "*_test.go", func(n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
			names[f.Name.Name] = true
		}
	})
	return names
}

func stringsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	each(t, dir, "*.go", func(n ast.Node) {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				found[s] = true
			}
		}
	})
	return found
}

func TestElsewhere_IsAboutRules(t *testing.T) {
	for rule := range Elsewhere {
		if !slices.ContainsFunc(Rules, func(r Rule) bool { return r.Name == rule }) {
			t.Errorf("%s is no rule", rule)
		}
	}
}
