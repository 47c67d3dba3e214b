package load

import (
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Compiles type-checks text as the only file of a package, at path in the module of p, and returns
// the first compiler error.
//
// With an overlay, go/packages ignores all export data and type-checks all imports from source.
// That includes the standard library and takes a second for each client. Therefore Compiles takes
// the imports from the packages that were loaded with p, or from export data. It loads everything
// from source only if these are not available or yield an error.
func Compiles(ctx context.Context, p *Package, path string, text []byte) error {
	if compilesAlone(ctx, p, path, text) {
		return nil
	}
	loaded, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo,
		Context: ctx, Dir: p.Dir, Overlay: map[string][]byte{path: text},
	}, filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("type-check %s: %w", path, err)
	}
	for _, pkg := range loaded {
		for _, e := range pkg.Errors {
			return e
		}
	}
	return nil
}

// compilesAlone reports whether text compiles with the export data of its imports. It returns false
// if the text imports a package of its own module, because that package may import the package of
// the text.
func compilesAlone(ctx context.Context, p *Package, path string, text []byte) bool {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	var imports []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || imported == p.module || strings.HasPrefix(imported, p.module+"/") {
			return false
		}
		imports = append(imports, imported)
	}
	known, ok := p.imported(imports)
	if !ok {
		known, ok = exported(ctx, p.Dir, imports)
	}
	if !ok {
		return false
	}
	cfg := types.Config{Importer: importer(known), GoVersion: p.goVersion, Sizes: types.SizesFor("gc", build.Default.GOARCH)}
	_, err = cfg.Check(path, fset, []*ast.File{file}, nil)
	return err == nil
}

// imported returns the types of the packages at paths. ok is false unless p imports all of them,
// they were loaded with p, and they have no errors.
func (p *Package) imported(paths []string) (known map[string]*types.Package, ok bool) {
	known = map[string]*types.Package{}
	for _, path := range paths {
		pkg := p.imports[path]
		if pkg == nil || pkg.Types == nil || !pkg.Types.Complete() || pkg.IllTyped || len(pkg.Errors) > 0 {
			return nil, false
		}
		known[path] = pkg.Types
	}
	return known, true
}

// exported loads the types of packages from their export data.
func exported(ctx context.Context, dir string, paths []string) (known map[string]*types.Package, ok bool) {
	known = map[string]*types.Package{}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedExportFile, Context: ctx, Dir: dir}, paths...)
	if err != nil {
		return nil, false
	}
	for _, pkg := range loaded {
		if len(pkg.Errors) > 0 || pkg.Types == nil {
			return nil, false
		}
		known[pkg.PkgPath] = pkg.Types
	}
	return known, true
}

// importer contains the packages that a text imports, by path.
type importer map[string]*types.Package

// Import implements types.Importer.
func (all importer) Import(path string) (*types.Package, error) {
	if p := all[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s is not loaded", path)
}
