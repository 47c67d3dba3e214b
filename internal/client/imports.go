package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// importInstead marks packages as imported if a declaration in them cannot be copied, and reports
// whether it marked any. It includes all packages of the module that these packages import, because
// a type must be identical in all declarations.
func (b *builder) importInstead() (bool, error) {
	more := false
	for i, f := range b.faults {
		if f.path == b.own.Path || b.imported[f.path] {
			continue
		}
		why, below, err := b.importable(b.ctx, f.path)
		if err != nil {
			return false, err
		}
		if why != "" && f.soft {
			continue
		}
		if why != "" {
			b.faults[i].fix += "; it cannot import " + f.path + ", because that " + why
			continue
		}
		for _, path := range below {
			b.imported[path] = true
		}
		more = true
	}
	return more, nil
}

// importable returns the reason why a client cannot import a package, or all packages of the module
// that the package imports.
func (b *builder) importable(ctx context.Context, path string) (why string, below []string, err error) {
	roots, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedModule | packages.NeedFiles,
		Context: ctx, Dir: b.own.Dir,
	}, path)
	if err != nil {
		return "", nil, fmt.Errorf("load package %s: %w", path, err)
	}
	if !visibleFrom(path, b.Path) {
		return "is internal to other directories than that of the client", nil, nil
	}
	packages.Visit(roots, func(p *packages.Package) bool {
		if p.Name == "main" {
			why = "is a program"
		}
		client := len(p.GoFiles) == 1 && strings.HasSuffix(p.GoFiles[0], File)
		if p.PkgPath == runtimePath+"shim" || p.PkgPath == runtimePath+"worker" {
			why = "links the implementation of workflows or steps"
		}
		if p.Module != nil && p.Module.Main && !strings.HasPrefix(p.PkgPath, runtimePath) {
			below = append(below, p.PkgPath)
		}
		return !client && !strings.HasPrefix(p.PkgPath, runtimePath+"workflow")
	}, nil)
	slices.Sort(below)
	return why, below, nil
}
