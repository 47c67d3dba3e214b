// Package load reads the user's packages for the generator.
//
// These packages do not compile before code has been generated, because workflows call functions of
// flow_gen.go. Therefore load ignores every existing flow_gen.go. It derives the declarations of
// the generated file from the annotated signatures, and appends them to the user's files while
// go/packages parses them. Positions in the user's text do not change, and all text after
// [File.End] was appended.
//
// Dependencies are loaded from export data. A dependency is loaded from source in the same way only
// if it does not compile before code has been generated for it.
package load

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/flowgen/flowgen/internal/name"
)

const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule

// Set contains the packages that [Load] has read.
type Set struct {
	Packages []*Package // sorted by import path
	Parsed   []string   // sorted paths of all files that were parsed

	loaded []*packages.Package // all loaded packages, including the dot imports of tests
}

// Package is a package of the user. It is type-checked as if code had been generated for it.
type Package struct {
	Path   string
	Name   string
	Dir    string // directory of the package; empty if the pattern names no directory
	Fset   *token.FileSet
	Files  []*File // compiled files except flow_gen.go
	Others []*File // all other files, such as tests and files for other platforms; parsed but not type-checked
	Types  *types.Package
	Info   *types.Info
	Output Output
	// Foreign is not empty if the package does not belong to the main module. The generator must
	// not modify such a package. Foreign names the owner, as in "module example.com/dep" or "a
	// vendor directory".
	Foreign string
	// Root is the directory of the module. It is empty if modules are disabled.
	Root string
	// Err is the reason why the directory of the package cannot be read.
	Err error

	module     string // path of the module; empty if modules are disabled
	goVersion  string // language version of the module, in the form that types.Config expects
	errors     []packages.Error
	typeErrors []types.Error
	imports    map[string]*packages.Package
	dots       map[string][]string // exported names of each package that tests import with a dot, by import path
}

// File is a file of a user's package.
type File struct {
	Path string
	AST  *ast.File
	End  token.Pos // end of the user's text; load appended all text after it
	Why  Reason    // reason why no code can be generated for the file
}

// Load reads the packages that match patterns relative to dir. [Package.Diagnostics] returns the
// mistakes in packages. Load returns an error only if the packages cannot be read at all.
func Load(ctx context.Context, dir string, patterns []string) (*Set, error) {
	return loadWith(ctx, dir, patterns, nil)
}

func loadWith(ctx context.Context, dir string, patterns []string, overlay map[string][]byte) (*Set, error) {
	read := newReader(overlay)
	flags, cleanup, err := read.disk.flags()
	if err != nil {
		return nil, err
	}
	defer cleanup()
	var without map[string][]byte
	if overlay == nil {
		without = stubs(dir, patterns)
	}
	var loaded []*packages.Package
	if len(without) > 0 {
		flag, cleanup, err := overlayFlag(without, nil)
		if err != nil {
			return nil, err
		}
		defer cleanup()
		if loaded, err = read.load(ctx, dir, []string{flag}, patterns); err != nil {
			return nil, err
		}
	}
	if len(without) == 0 || stubsHarm(loaded) {
		read = newReader(overlay)
		if loaded, err = read.load(ctx, dir, flags, patterns); err != nil {
			return nil, err
		}
	}
	if bad := unreadableOutputs(loaded); len(bad) > 0 && overlay == nil {
		flag, cleanup, err := overlayFlag(nil, bad)
		if err != nil {
			return nil, err
		}
		defer cleanup()
		read = newReader(nil)
		if loaded, err = read.load(ctx, dir, []string{flag}, patterns); err != nil {
			return nil, err
		}
	}
	set := &Set{Parsed: read.paths()}
	for _, p := range loaded {
		set.Packages = append(set.Packages, newPackage(p, read))
	}
	set.loaded = slices.Concat(loaded, nameDotImports(ctx, dir, set.Packages))
	slices.SortFunc(set.Packages, func(a, b *Package) int { return cmp.Compare(a.Path, b.Path) })
	return set, nil
}

func (r *reader) load(ctx context.Context, dir string, flags, patterns []string) ([]*packages.Package, error) {
	cfg := &packages.Config{Mode: mode, Context: ctx, Dir: dir, Fset: r.fset, BuildFlags: flags, ParseFile: r.parse}
	if len(flags) == 0 {
		cfg.Overlay = r.disk.overlay
	}
	loaded, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	return loaded, nil
}

func newPackage(p *packages.Package, read *reader) *Package {
	pkg := &Package{
		Path: p.PkgPath, Name: p.Name, Dir: p.Dir, Fset: read.fset, Types: p.Types, Info: p.TypesInfo,
		Foreign: foreign(p), errors: p.Errors, typeErrors: p.TypeErrors, imports: p.Imports,
	}
	if p.Module != nil {
		pkg.module, pkg.Root = p.Module.Path, p.Module.Dir
		if p.Module.GoVersion != "" {
			pkg.goVersion = "go" + p.Module.GoVersion
		}
	}
	compiled := make(map[string]bool)
	for _, syntax := range p.Syntax {
		path := read.fset.PositionFor(syntax.FileStart, false).Filename
		compiled[path] = true
		if filepath.Dir(path) == p.Dir && filepath.Base(path) != name.Output {
			file := &File{Path: path, AST: syntax, End: read.end(path, syntax)}
			if constrained(path, syntax) {
				file.Why = Constrained
			}
			pkg.Files = append(pkg.Files, file)
		}
	}
	slices.SortFunc(pkg.Files, func(a, b *File) int { return cmp.Compare(a.Path, b.Path) })
	if p.Dir == "" {
		return pkg
	}
	if pkg.Others, pkg.Err = readOthers(read.fset, read.disk, p, compiled); pkg.Err != nil {
		return pkg
	}
	pkg.Output, pkg.Err = read.disk.readOutput(filepath.Join(p.Dir, name.Output))
	return pkg
}

// Versions returns path@version for the module of each import that belongs to another module.
func (p *Package) Versions() map[string]string {
	all := make(map[string]string)
	for path, imported := range p.imports {
		if m := imported.Module; m != nil && !m.Main {
			all[path] = m.Path + "@" + m.Version
		}
	}
	return all
}

// foreign returns the value of Package.Foreign for p. The value is empty for a package without a
// module, because such a package belongs to the standard library or to a program that uses no
// modules.
func foreign(p *packages.Package) string {
	if strings.Contains(filepath.ToSlash(p.Dir), "/vendor/") {
		return "a vendor directory"
	}
	if p.Module != nil && !p.Module.Main {
		return "module " + p.Module.Path
	}
	return ""
}

// Module returns the path of the module of p. It is empty if modules are disabled.
func (p *Package) Module() string { return p.module }

// Position returns the position of pos in the file on disk.
func (p *Package) Position(pos token.Pos) token.Position { return p.Fset.PositionFor(pos, false) }
