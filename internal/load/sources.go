package load

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Sources returns the directories, sorted, of all packages that were read or that those import, but for those
// that cannot change: the standard library and released modules. It returns false if the Go files in them are not
// all that the packages are made of: some are generated from other files, or a package has mistakes.
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

// released reports whether a package is of the standard library, or of a version of a module in the
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
