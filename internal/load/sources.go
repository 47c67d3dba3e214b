package load

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Sources returns the sorted directories of all loaded packages and their imports. It omits
// packages that cannot change, which are the standard library and released modules. It returns
// false if the Go files in these directories do not determine the packages. This is the case if
// some files are generated from others or if a package has errors.
func (s *Set) Sources() ([]string, bool) {
	dirs, complete := map[string]bool{}, true
	for _, p := range s.loaded {
		complete = complete && len(p.Errors) == 0
	}
	packages.Visit(s.loaded, nil, func(p *packages.Package) {
		if released(p) {
			return
		}
		if p.Dir == "" || len(p.OtherFiles) > 0 {
			complete = false
			return
		}
		for _, file := range p.CompiledGoFiles {
			complete = complete && filepath.Dir(file) == p.Dir
		}
		dirs[p.Dir] = true
	})
	return slices.Sorted(maps.Keys(dirs)), complete
}

// released reports whether a package belongs to the standard library or to a module version in the
// module cache.
func released(p *packages.Package) bool {
	if p.Module == nil {
		first, _, _ := strings.Cut(p.PkgPath, "/")
		return !strings.Contains(first, ".")
	}
	m := p.Module
	if m.Replace != nil {
		m = m.Replace
	}
	return m.Version != "" && !strings.Contains(filepath.ToSlash(p.Dir), "/vendor/")
}
