package emit

import (
	"bytes"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// Module is the path of the module that contains the runtime.
const Module = "github.com/flowgen/flowgen"

const (
	runtimePath  = Module + "/runtime/"
	shimPath     = runtimePath + "shim"
	workflowPath = runtimePath + "workflow"
	graphPath    = workflowPath + "/graph"
	limitPath    = runtimePath + "limit"
)

// invented lists the local identifiers that generated functions use.
var invented = []string{"a", "ctx", "err", "f", "from", "in", "m", "r", "result"}

// imports assigns each imported package a name that no declaration in the output shadows.
type imports struct {
	names map[string]string // package names by import path
	taken map[string]bool
}

func newImports(p *model.Package) *imports {
	im := &imports{names: make(map[string]string), taken: maps.Clone(p.Declared)}
	for _, id := range invented {
		im.taken[id] = true
		im.taken[free(id, p.Declared, nil)] = true
	}
	note := func(fn model.Function) {
		im.taken[fn.Context] = true
		for _, param := range fn.Params {
			im.taken[param.Name] = true
		}
	}
	for _, s := range p.Steps {
		note(s.Function)
	}
	for _, w := range p.Workflows {
		note(w.Function)
		if w.Graph != nil {
			for _, node := range w.Graph.Nodes {
				im.taken[node.Step.Impl] = true // a variable of the function that builds the graph
			}
		}
	}
	return im
}

func (im *imports) use(path, pkgName string) { im.names[path] = pkgName }

// declare chooses the names of all imports. The packages of the runtime and of the standard library
// come first, so that they keep their own names.
func (im *imports) declare(f *jen.File) {
	rank := func(path string) int {
		switch {
		case strings.HasPrefix(path, runtimePath):
			return 0
		case standard(path):
			return 1
		}
		return 2
	}
	paths := slices.SortedFunc(maps.Keys(im.names), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, p := range paths {
		alias := im.choose(p, im.names[p])
		im.taken[alias] = true
		if alias == im.names[p] && guessable(p, alias) {
			f.ImportName(p, alias)
		} else {
			f.ImportAlias(p, alias)
		}
	}
}

// choose returns the package's own name, or a name derived from its path if that name is taken.
func (im *imports) choose(importPath, pkgName string) string {
	parent := name.Unexported(path.Base(path.Dir(importPath)))
	candidates := []string{pkgName, parent + pkgName, pkgName + "pkg"}
	if standard(importPath) || strings.HasPrefix(importPath, runtimePath) || !token.IsIdentifier(parent+pkgName) {
		candidates = []string{pkgName, pkgName + "pkg"}
	}
	for _, c := range candidates {
		if !im.taken[c] && !name.Reserved(c) {
			return c
		}
	}
	return free(pkgName+"pkg", im.taken, nil)
}

// guessable reports whether the path ends with the package name. If not, the import declaration
// contains the name explicitly, as with goimports.
func guessable(importPath, pkgName string) bool {
	return slices.Contains(strings.Split(importPath, "/"), pkgName)
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// free returns base, or base with a number that makes it different from all names in taken and in
// more.
func free(base string, taken map[string]bool, more []string) string {
	return name.Free(base, func(s string) bool {
		return taken[s] || slices.Contains(more, s) || name.Reserved(s)
	})
}

// groupImports moves the imports of the standard library before all others.
func groupImports(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", source, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	if len(file.Imports) < 2 {
		return source, nil
	}
	var std, rest []string
	for _, spec := range file.Imports {
		line := spec.Path.Value
		if spec.Name != nil {
			line = spec.Name.Name + " " + line
		}
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && standard(p) {
			std = append(std, line)
		} else {
			rest = append(rest, line)
		}
	}
	from := fset.Position(file.Decls[0].Pos()).Offset
	to := fset.Position(file.Decls[len(file.Decls)-1].End()).Offset
	var b bytes.Buffer
	b.Write(source[:from])
	b.WriteString("import (\n" + strings.Join(std, "\n") + "\n\n" + strings.Join(rest, "\n") + "\n)")
	b.Write(source[to:])
	return format.Source(b.Bytes())
}
