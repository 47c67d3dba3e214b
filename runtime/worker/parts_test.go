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

// A part that could reach the worker could reach every other part. The worker refers to its parts.
// No part refers to the worker, and no function does except those that make, host or instrument
// one.
func TestParts_KnowNothingOfTheWorker(t *testing.T) {
	testPartsDoNotName(t, "Worker", "host") // host is the interface of the worker for clients
}

// The same holds for the parts of a run loop: they return what only the loop can decide.
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
