package load

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// Compiles type-checks text as the only file of a package, at path in the module of p, and
// returns the first thing that the compiler would say.
func Compiles(ctx context.Context, p *Package, path string, text []byte) error {
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
