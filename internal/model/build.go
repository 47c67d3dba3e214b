package model

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/name"
)

// builder collects the model of one package and its diagnostics.
type builder struct {
	*load.Package
	model       *Package
	prefix      string // prefix of the stored names
	clause      directive.Directive
	structs     map[*types.TypeName]*Graph
	diagnostics []diagnostic.Diagnostic
	machines    []*Machine
}

// New returns the model of p and all mistakes in p, sorted by position. The model is complete only
// if there are no mistakes.
func New(p *load.Package) (*Package, []diagnostic.Diagnostic) {
	b := &builder{Package: p, structs: map[*types.TypeName]*Graph{}, model: &Package{
		Path: p.Path, Name: p.Name, Types: p.Types,
		Register: "Register", StepsVar: "Steps", Declared: make(map[string]bool),
	}}
	found := b.attach()
	if len(found) == 0 && len(b.diagnostics) == 0 {
		return b.model, b.unreadable()
	}
	if ds := p.Diagnostics(); len(ds) > 0 || p.Types == nil || p.Info == nil {
		return b.model, diagnostic.Sorted(append(b.diagnostics, ds...))
	}
	if len(found) > 0 {
		b.model.First = found[0].directives[0].Pos
	}
	b.packageClause(found)
	for _, a := range found {
		if spec, ok := a.node.(*ast.TypeSpec); ok && isGraph(a.directives) {
			b.graph(spec, a.directives)
		}
		b.declareMachine(a)
	}
	for _, a := range found {
		b.annotation(a)
	}
	b.graphs()
	b.completeMachines()
	b.known()
	b.sort()
	b.receivers()
	b.collisions()
	b.duplicateNames()
	b.cycles()
	b.crosswise()
	return b.model, diagnostic.Sorted(b.diagnostics)
}

// unreadable returns the errors of a package in which New has found no directive. If the package
// could not be read, these errors may hide directives. If its files were read, unreadable returns
// nil.
func (b *builder) unreadable() []diagnostic.Diagnostic {
	if len(b.Files) == 0 && len(b.Others) == 0 && !b.Output.Exists {
		return diagnostic.Sorted(b.Diagnostics())
	}
	return nil
}

func (b *builder) report(pos token.Pos, what, fix string) {
	b.diagnostics = append(b.diagnostics, diagnostic.New(b.Position(pos), what, fix))
}

func (b *builder) problems(ps []directive.Problem) {
	for _, p := range ps {
		b.report(p.Pos, p.What, p.Fix)
	}
}

// packageClause applies the options of //flow:package.
func (b *builder) packageClause(found []annotation) {
	b.prefix = defaultPrefix(b.Name, b.Path)
	seen := false
	for _, a := range found {
		for _, d := range a.directives {
			if d.Kind != directive.Package {
				continue
			}
			if seen {
				b.report(d.Pos, "the package has a second //flow:package", "keep one, in one file, and put all options on it")
				continue
			}
			seen, b.clause = true, d
		}
	}
	if b.clause.Name != "" {
		b.prefix = b.clause.Name
	}
	b.model.Register = cmp.Or(b.clause.Register, b.model.Register)
	b.model.Client = b.clause.Client
	b.model.StepsVar = cmp.Or(b.clause.Steps, b.model.StepsVar)
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// defaultPrefix returns the package name. For package main, it returns the last element of the
// import path that is not a major version.
func defaultPrefix(pkgName, importPath string) string {
	if pkgName != "main" {
		return pkgName
	}
	base := path.Base(importPath)
	if dir := path.Dir(importPath); majorVersion.MatchString(base) && dir != "." {
		base = path.Base(dir)
	}
	return base
}

// annotation adds an annotated declaration to the model. attach has verified that the declaration
// accepts its directives.
func (b *builder) annotation(a annotation) {
	switch node := a.node.(type) {
	case *ast.FuncDecl:
		b.function(node, a.directives)
	case *ast.TypeSpec, *ast.ValueSpec:
		if !isGraph(a.directives) && !isMachine(a.directives) {
			b.failure(node, a.directives)
		}
	case *ast.File:
		b.foreign(node, a.directives)
	}
}

// isGraph reports whether one of the directives of a type declares a graph.
func isGraph(ds []directive.Directive) bool {
	return slices.ContainsFunc(ds, func(d directive.Directive) bool { return d.Kind == directive.DAG })
}

// isMachine reports whether one of the directives of a type declares a machine.
func isMachine(ds []directive.Directive) bool {
	return slices.ContainsFunc(ds, func(d directive.Directive) bool { return d.Kind == directive.Machine })
}

func (b *builder) sort() {
	slices.SortFunc(b.model.Workflows, func(x, y *Workflow) int { return b.compareFunctions(&x.Function, &y.Function) })
	slices.SortFunc(b.model.Steps, func(x, y *Step) int { return b.compareFunctions(&x.Function, &y.Function) })
	slices.SortFunc(b.model.Dependencies, func(x, y *Dependency) int {
		return cmp.Or(cmp.Compare(x.Field, y.Field), cmp.Compare(x.Type.String(), y.Type.String()))
	})
	slices.SortFunc(b.model.Failures, func(x, y *Failure) int {
		return cmp.Or(cmp.Compare(x.Stored, y.Stored), b.comparePos(x.pos, y.pos))
	})
}

func (b *builder) compareFunctions(x, y *Function) int {
	return cmp.Or(cmp.Compare(x.GoName, y.GoName), b.comparePos(x.pos, y.pos))
}

// comparePos compares positions. Files are parsed concurrently, so the order of token.Pos values
// from different files is random.
func (b *builder) comparePos(x, y token.Pos) int {
	p, q := b.Position(x), b.Position(y)
	return cmp.Or(cmp.Compare(p.Filename, q.Filename), cmp.Compare(p.Offset, q.Offset))
}

// goName returns the exported name for impl. If there is none, goName reports the reason and
// returns false.
func (b *builder) goName(pos token.Pos, impl string, d directive.Directive) (string, bool) {
	if d.Has("as") {
		return d.As, d.As != "" // if the name is invalid, this was reported
	}
	exported, ok := name.Exported(impl)
	if !ok {
		b.report(pos, impl+" has no exported form", "name the generated function with as=Name")
	}
	return exported, ok
}

// stored returns the name that logs contain for impl.
func (b *builder) stored(impl string, d directive.Directive) string {
	return cmp.Or(d.Name, b.prefix+"."+strings.TrimPrefix(impl, "*"))
}
