package load

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/tools/go/packages"
)

// DotImported returns the exported names of a package that a test imports with a dot. A generated
// declaration must not have one of these names, because Go rejects it.
func (p *Package) DotImported(path string) []string { return p.dots[path] }

// nameDotImports finds the names that the dot imports of tests declare, and returns the packages
// that it has read. It uses the syntax, because tests are not type-checked. It ignores packages
// that cannot be found, because the compiler reports them.
func nameDotImports(ctx context.Context, dir string, pkgs []*Package) []*packages.Package {
	dots := make(map[string][]string)
	for _, p := range pkgs {
		p.dots = dots
		for _, f := range p.Others {
			if f.AST.Name.Name != p.Name {
				continue
			}
			for _, spec := range f.AST.Imports {
				if path, err := strconv.Unquote(spec.Path.Value); err == nil && spec.Name != nil && spec.Name.Name == "." {
					dots[path] = nil
				}
			}
		}
	}
	if len(dots) == 0 {
		return nil
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedModule, Context: ctx, Dir: dir,
	}, slices.Sorted(maps.Keys(dots))...)
	if err != nil {
		return nil
	}
	for _, p := range loaded {
		dots[p.PkgPath] = exportedNames(p.GoFiles)
	}
	return loaded
}

func exportedNames(files []string) []string {
	var names []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		Declared(file, func(id *ast.Ident) {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		})
	}
	return names
}

// Declared calls note for every identifier that the file declares at package level.
func Declared(file *ast.File, note func(*ast.Ident)) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil && decl.Name.Name != "init" {
				note(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					note(spec.Name)
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						note(id)
					}
				}
			}
		}
	}
}
