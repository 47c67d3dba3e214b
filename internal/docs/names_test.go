package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// packages contains the packages whose exported names may appear on the pages. The tests check that
// these names exist.
var packages = []string{
	"runtime/workflow", "runtime/step", "runtime/worker", "runtime/event", "runtime/store",
	"runtime/store/storetest", "runtime/store/fsck", "runtime/workflowtest", "runtime/step/sqlstep", "runtime/invoke", "memstore", "sqlitestore",
}

var (
	// qualified matches a qualified identifier of one of these packages, with or without a member.
	qualified = regexp.MustCompile(`\b(workflow|step|worker|event|store|storetest|fsck|workflowtest|sqlstep|invoke|memstore|sqlitestore)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	// testName matches the name of a test, or of a behaviour of the conformance suite.
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*|[FMCWKP][1-4]_\\w+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code     = regexp.MustCompile("(?s)(?:^|\n)```.*?\n```|`[^`\n]*`")
)

// madeUp contains names that do not exist and are examples of naming.
var madeUp = map[string]bool{
	"sqlitestore.OpenSQLiteStore":         true,
	"TestCommit_FencedOwnerWritesNothing": true,
}

func TestPages_NameWhatIsExported(t *testing.T) {
	names := exported(t)
	found := 0
	for name, page := range pages(t) {
		for _, m := range qualified.FindAllStringSubmatch(page, -1) {
			found++
			if madeUp[m[0]] {
				continue
			}
			if !names[m[1]+"."+m[2]] {
				t.Errorf("%s: %s does not exist", name, m[0])
			} else if m[3] != "" && !names[m[1]+"."+m[2]+"."+m[3]] {
				t.Errorf("%s: %s has no %s", name, m[1]+"."+m[2], m[3])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names were looked up", found)
	}
}

// exported returns the exported names of the packages in the forms package.Name and
// package.Type.Member.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, path := range packages {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(path), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("read package %s: %d files, %v", path, len(files), err)
		}
		prefix := path[strings.LastIndexByte(path, '/')+1:] + "."
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				declare(all, prefix, d)
			}
		}
	}
	return all
}

func declare(all map[string]bool, prefix string, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			prefix += receiver(d.Recv.List[0].Type) + "."
		}
		all[prefix+d.Name.Name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					all[prefix+n.Name] = true
				}
			case *ast.TypeSpec:
				all[prefix+s.Name.Name] = true
				members(all, prefix+s.Name.Name+".", s.Type)
			}
		}
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func members(all map[string]bool, prefix string, typ ast.Expr) {
	var fields *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			all[prefix+n.Name] = true
		}
	}
}

func TestPages_NameTestsThatExist(t *testing.T) {
	tests := declaredTests(t)
	found := map[string]bool{}
	for name, page := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(page, -1) {
			found[m[1]] = true
			if !tests[m[1]] && !madeUp[m[1]] {
				t.Errorf("%s: there is no test %s", name, m[1])
			}
		}
	}
	if len(found) < 30 {
		t.Errorf("only %d tests were looked up: %v", len(found), slices.Sorted(maps.Keys(found)))
	}
}

// declaredTests returns the names of all tests, and of the behaviours of the conformance suite.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	behavior := regexp.MustCompile(`(?m)^\s*\{"(\w+)", `)
	all := map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		suite := strings.HasPrefix(name, "runtime/store/storetest/")
		if !suite && !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := readFile(name)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllStringSubmatch(source, -1) {
			all[m[1]] = true
		}
		if suite {
			for _, m := range behavior.FindAllStringSubmatch(source, -1) {
				all[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPages_LinkToWhatExists(t *testing.T) {
	all := pages(t)
	followed := 0
	for name, page := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(file)))
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s: %s leads nowhere: %v", name, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, target, anchor)
			}
		}
	}
	if followed < 20 {
		t.Errorf("only %d links were followed", followed)
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) []string {
	var all []string
	fenced := false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		text := strings.TrimLeft(line, "#")
		if fenced || text == line || !strings.HasPrefix(text, " ") {
			continue
		}
		kept := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', r >= '0' && r <= '9', r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(text)))
		all = append(all, kept)
	}
	return all
}

func TestAnchors_AreThoseOfHeadings(t *testing.T) {
	got := anchors("# A b\n```\n# c\n```\n## From `Run`, in short\n#nothing\n")
	if want := []string{"a-b", "from-run-in-short"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPages_AreInTheIndex(t *testing.T) {
	all := pages(t)
	listed := link.FindAllStringSubmatch(all["docs/README.md"], -1)
	for name := range all {
		at, inDocs := strings.CutPrefix(name, "docs/")
		if inDocs && at != "README.md" && !slices.ContainsFunc(listed, func(m []string) bool { return m[1] == at }) {
			t.Errorf("docs/README.md has no link to %s", at)
		}
	}
}
