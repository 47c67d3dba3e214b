package worker_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A part that could reach the worker could reach every other part. The worker knows its
// parts; none of them, and no function but those that make, host or instrument a worker,
// names it.
func TestParts_KnowNothingOfTheWorker(t *testing.T) {
	knowing := map[string]bool{"host": true} // the worker as clients see it
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok || typ.Name.Name == "Worker" || knowing[typ.Name.Name] {
					continue
				}
				parts++
				if namesWorker(typ.Type) {
					t.Errorf("%s: type %s names Worker: give it what it needs, in a struct or a small interface", name, typ.Name.Name)
				}
			}
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Type.Params != nil && namesWorker(f.Type.Params) {
				t.Errorf("%s: func %s takes a Worker: give it what it needs", name, f.Name.Name)
			}
		}
	}
	if parts < 20 {
		t.Errorf("found %d types beside Worker, want them all", parts)
	}
}

func namesWorker(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "Worker"
		return true
	})
	return found
}
