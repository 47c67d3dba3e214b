package manifest

import (
	"go/ast"
	"go/constant"
	"go/types"
	"maps"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// The packages of the runtime whose functions are operations of workflow code.
const (
	workflowPath = "github.com/flowgen/flowgen/runtime/workflow"
	graphPath    = workflowPath + "/graph"
)

// World contains the source of all packages of a module. It is used to find the functions that
// workflows call.
type World struct {
	models   map[string]*model.Package
	packages map[string]*load.Package
	bodies   map[string]body     // functions of the module by full name
	targets  map[string]target   // steps and workflows by package path and Go name of the counterpart
	declared map[string]declared // topics and similar declarations by package path and Go name
	inits    map[string]initial  // initial values of package variables by package path and name
	versions map[string]string   // versions of other modules by package path
	hashes   map[string]string   // hashes of functions without operations by full name
}

type body struct {
	decl *ast.FuncDecl
	pkg  *load.Package
}

// target is a step or workflow, or a variable whose type belongs to package workflow.
type target struct {
	kind   string // "step" or "child"
	stored string
	fn     *model.Function
}

type declared struct {
	kind, name string
	decl       *Declaration
	types      []types.Type
}

type initial struct {
	expr ast.Expr
	pkg  *load.Package
}

// NewWorld analyzes packages. They should include all packages of a module that contain workflow
// code.
func NewWorld(packages []*load.Package) *World {
	w := &World{
		models: map[string]*model.Package{}, packages: map[string]*load.Package{}, bodies: map[string]body{}, targets: map[string]target{},
		declared: map[string]declared{}, inits: map[string]initial{}, versions: map[string]string{}, hashes: map[string]string{},
	}
	for _, p := range packages {
		if p.Err != nil || p.Types == nil || p.Info == nil {
			continue
		}
		w.packages[p.Path] = p
		maps.Copy(w.versions, p.Versions())
		m, _ := model.New(p)
		w.models[p.Path] = m
		for _, s := range m.Steps {
			if s.Graph != nil || s.Machine != nil {
				continue // Only the graph or machine calls this step.
			}
			w.targets[p.Path+"."+s.GoName] = target{"step", s.Stored, &s.Function}
		}
		for _, f := range m.Workflows {
			w.targets[p.Path+"."+f.GoName] = target{"child", f.Stored, &f.Function}
		}
		for _, f := range p.Files {
			w.file(p, f)
		}
	}
	return w
}

// file records the functions and variables of a file.
func (w *World) file(p *load.Package, f *load.File) {
	for _, decl := range f.AST.Decls {
		if decl.Pos() >= f.End {
			continue // The declaration was appended for code that is not generated yet.
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if fn, ok := p.Info.Defs[decl.Name].(*types.Func); ok && decl.Body != nil {
				w.bodies[fn.FullName()] = body{decl, p}
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					w.variables(p, v)
				}
			}
		}
	}
}

func (w *World) variables(p *load.Package, spec *ast.ValueSpec) {
	for i, id := range spec.Names {
		v, ok := p.Info.Defs[id].(*types.Var)
		if !ok || i >= len(spec.Values) {
			continue
		}
		key := p.Path + "." + id.Name
		w.inits[key] = initial{spec.Values[i], p}
		named, ok := types.Unalias(v.Type()).(*types.Named)
		call, isCall := spec.Values[i].(*ast.CallExpr)
		if !ok || !isCall || named.Obj().Pkg() == nil || named.Obj().Pkg().Path() != workflowPath || len(call.Args) == 0 {
			continue
		}
		kind, ok := declarations[named.Obj().Name()]
		tv := p.Info.Types[call.Args[0]]
		if !ok || tv.Value == nil || tv.Value.Kind() != constant.String {
			continue
		}
		d := declared{kind: kind, name: constant.StringVal(tv.Value), decl: &Declaration{Go: id.Name, Position: p.Position(id.Pos())}}
		for t := range named.TypeArgs().Types() {
			d.types = append(d.types, t)
		}
		w.declared[key] = d
	}
}

// declarations maps each type of package workflow whose values are declared with a name to the kind
// of the declaration.
var declarations = map[string]string{"Topic": "topic", "Hook": "hook", "Value": "value", "Stream": "stream", "Ask": "ask"}
