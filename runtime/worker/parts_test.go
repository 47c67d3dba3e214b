package worker_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestParts_KnowNothingOfTheWorker proves that no part of a worker refers to the Worker. A part
// that could reach the Worker could reach every other part. Only functions that create, host or
// change a Worker may refer to it.
func TestParts_KnowNothingOfTheWorker(t *testing.T) {
	testPartsDoNotName(t, "Worker", "host", "invoker") // host is the interface of the Worker for clients, and invoker the one for package invoke
}

// TestParts_KnowNothingOfTheRunLoop proves that no part of a run loop refers to the run loop. The
// parts return decisions that only the loop can make.
func TestParts_KnowNothingOfTheRunLoop(t *testing.T) {
	testPartsDoNotName(t, "runLoop")
}

func testPartsDoNotName(t *testing.T, whole string, knowing ...string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, name := range files {
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
				if !ok || typ.Name.Name == whole || slices.Contains(knowing, typ.Name.Name) {
					continue
				}
				parts++
				if names(typ.Type, whole) {
					t.Errorf("%s: type %s names %s: give it what it needs, in a struct or a small interface", name, typ.Name.Name, whole)
				}
			}
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Type.Params != nil && names(f.Type.Params, whole) {
				t.Errorf("%s: func %s takes a %s: give it what it needs", name, f.Name.Name, whole)
			}
		}
	}
	if parts < 20 {
		t.Errorf("found %d types beside %s, want them all", parts, whole)
	}
}

func names(n ast.Node, whole string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == whole
		return true
	})
	return found
}
