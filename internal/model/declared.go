package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/internal/load"
)

// declared returns the package-level identifiers of all files of the package, including tests and
// files of other platforms. It maps each identifier to the position of its declaration.
func (b *builder) declared() map[string]string {
	taken := make(map[string]string)
	for _, f := range b.ofPackage() {
		note := func(id *ast.Ident) {
			if _, ok := taken[id.Name]; !ok && id.Pos() < f.End && id.Name != "_" {
				taken[id.Name] = b.line(id.Pos())
			}
		}
		load.Declared(f.AST, note)
	}
	return taken
}

// ofPackage returns the files that belong to the package, including tests and files of other
// platforms.
func (b *builder) ofPackage() []*load.File {
	return slices.DeleteFunc(slices.Concat(b.Files, b.Others), func(f *load.File) bool { return f.AST.Name.Name != b.Name })
}

// imported returns the names that import declarations declare, each with its position. Go does not
// allow a package-level declaration of such a name in the same package. A dot import declares all
// exported names of the imported package.
func (b *builder) imported() map[string]string {
	paths := make(map[string]importedPackage)
	for _, p := range b.Types.Imports() {
		paths[p.Path()] = importedPackage{p.Name(), p.Scope().Names()}
	}
	taken := make(map[string]string)
	for _, f := range b.ofPackage() {
		for _, spec := range f.AST.Imports {
			if spec.Pos() >= f.End {
				continue
			}
			for _, id := range b.importedNames(spec, paths) {
				taken[id] = "an import at " + b.line(spec.Pos())
			}
		}
	}
	return taken
}

type importedPackage struct {
	name    string
	members []string
}

func (b *builder) importedNames(spec *ast.ImportSpec, paths map[string]importedPackage) []string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return nil
	}
	p, known := paths[path]
	switch {
	case spec.Name != nil && spec.Name.Name == "." && !known:
		return b.DotImported(path)
	case spec.Name != nil && spec.Name.Name == ".":
		return slices.DeleteFunc(slices.Clone(p.members), func(m string) bool { return !token.IsExported(m) })
	case spec.Name != nil:
		return []string{spec.Name.Name}
	case known:
		return []string{p.name}
	}
	return nil
}

// line returns pos in the form "file.go:12".
func (b *builder) line(pos token.Pos) string {
	p := b.Position(pos)
	return fmt.Sprintf("%s:%d", base(p.Filename), p.Line)
}
