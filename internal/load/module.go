package load

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/tools/go/packages"
)

// Module reads the packages that patterns name and, from source, all of their module that
// they import and that know workflow code: helpers and steps of theirs are among them.
// The names of the packages that patterns name are the second result, sorted.
//
// overlay, if there is one, has the contents of files by path in place of those on
// disk.
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
