package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Module reads the packages that match patterns. It also reads from source the packages of the same
// module that these import, directly or indirectly, and that use package workflow. Such packages
// may contain helpers and steps. The second result contains the sorted paths of the packages that
// match patterns.
//
// The overlay maps file paths to the contents that replace the files on disk. It may be nil.
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

// Requires reports whether p can import packages of a module. If p does not import any of them,
// Requires queries the go command for the module. It does not query for a package, because a vendor
// directory contains only imported packages. The result is true if the go command cannot be started
// or if modules are disabled. The compiler then reports a missing import.
func (p *Package) Requires(ctx context.Context, module string) bool {
	if p.module == "" || p.module == module {
		return true
	}
	for path, imported := range p.imports {
		if strings.HasPrefix(path, module+"/") && len(imported.Errors) == 0 {
			return true
		}
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", module)
	cmd.Dir = p.Dir
	_, err := cmd.Output()
	_, refused := errors.AsType[*exec.ExitError](err)
	return !refused || ctx.Err() != nil
}
