package load

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/tools/go/packages"
)

// Module reads the packages that match patterns. It also reads from source those packages of the
// same module that they import and that use workflow code, because these may contain helpers and
// steps. The second result contains the sorted paths of the packages that match patterns.
//
// The overlay maps paths to contents that replace those on disk. It may be nil.
func Module(ctx context.Context, dir string, patterns []string, overlay map[string][]byte) (*Set, []string, error) {
	graph, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedFiles,
		Context: ctx, Dir: dir, Overlay: overlay,
	}, patterns...)
	if err != nil {
		return nil, nil, fmt.Errorf("load packages: %w", err)
	}
	paths := map[string]bool{}
	var roots []string
	for _, p := range graph {
		roots = append(roots, p.PkgPath)
		paths[p.PkgPath] = true
	}
	reaches := map[*packages.Package]bool{}
	packages.Visit(graph, nil, func(p *packages.Package) {
		reaches[p] = p.PkgPath == workflowPath
		for _, imported := range p.Imports {
			reaches[p] = reaches[p] || reaches[imported]
		}
		if reaches[p] && p.Module != nil && p.Module.Main {
			paths[p.PkgPath] = true
		}
	})
	slices.Sort(roots)
	set, err := loadWith(ctx, dir, slices.Sorted(maps.Keys(paths)), overlay)
	if err != nil {
		return nil, nil, err
	}
	return set, roots, nil
}
