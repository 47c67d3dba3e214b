package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/payload"
)

// scratchpad adds the exported fields of a machine to its stored state, and the unexported fields
// to the parameters of Register.
func (b *builder) scratchpad(m *Machine) {
	s := m.Type.Type().Underlying().(*types.Struct)
	var kept []*types.Var
	var tags []string
	for i := range s.NumFields() {
		f, tag := s.Field(i), s.Tag(i)
		json, tagged := reflect.StructTag(tag).Lookup("json")
		title := fmt.Sprintf("field %s of %s", f.Name(), m.title())
		switch {
		case f.Name() == "_":
		case f.Embedded() && !f.Exported():
			b.report(f.Pos(), title+" is embedded and unexported: its exported fields would be stored, and it would be a parameter of Register",
				"give the field a name, or export its type")
		case f.Exported() && json == "-":
			b.report(f.Pos(), title+" is exported, but not stored, so that each step finds it empty", "remove the tag, or unexport it: it is a parameter of Register then")
		case f.Exported():
			kept, tags = append(kept, f), append(tags, tag)
		case tagged:
			b.report(f.Pos(), title+" is unexported, so that it is a parameter of Register, but has a json tag", "export it to keep it from step to step, or remove the tag")
		default:
			m.Needs = append(m.Needs, b.dependency(f))
		}
	}
	for _, method := range []string{"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText"} {
		if obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(m.Type.Type()), true, b.Types, method); obj != nil {
			b.report(m.spec.Name.Pos(), fmt.Sprintf("%s has %s, which would store something else than its exported fields", m.title(), method), "remove it, or give the embedded field that has it a name")
			return
		}
	}
	for _, f := range b.payload(m.Type.Name(), types.NewStruct(kept, tags)) {
		if f.Path == m.Type.Name() {
			b.report(m.spec.Name.Pos(), m.title()+" "+f.What, f.Fix)
			continue
		}
		pos := m.spec.Name.Pos()
		for _, k := range kept {
			if rest, ok := strings.CutPrefix(f.Path, m.Type.Name()+"."+k.Name()); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				pos = k.Pos()
			}
		}
		b.report(pos, m.title()+": "+f.String(), f.Fix+"; or unexport the field of the machine, if it is something that the steps need: it is a parameter of Register then")
	}
}

func (b *builder) payload(root string, t types.Type) []payload.Fault {
	return payload.Check(root, t, b.Types)
}

// constructors reports generated methods of a machine whose names are taken.
func (b *builder) constructors(m *Machine) {
	taken := map[string]string{}
	check := func(id, what string, pos token.Pos) {
		obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(m.Type.Type()), true, b.Types, id)
		switch {
		case obj != nil:
			b.report(obj.Pos(), fmt.Sprintf("%s of %s is what %s is called in generated code", id, m.title(), what), "give it another name")
		case taken[id] != "":
			b.report(pos, fmt.Sprintf("%s would be called %s, as %s", what, id, taken[id]), "rename one of the steps")
		}
		taken[id] = what
	}
	check(name.Done, "the method that ends it", m.spec.Name.Pos())
	for _, s := range m.Steps {
		check(name.Goto(s.Impl), "the method that leads to "+s.Impl, s.pos)
		if s.Message() != nil {
			check(name.Await(s.Impl), "the method that waits for "+s.Impl, s.pos)
		}
	}
}

// Message returns the last parameter of a machine step if the step can wait for it as a message, or
// nil.
func (s *Step) Message() *Param {
	if len(s.Params) == 0 || isCaught(s.Params[len(s.Params)-1].Type) {
		return nil
	}
	return &s.Params[len(s.Params)-1]
}

// methods calls f for each method of a machine that has a named receiver.
func (b *builder) methods(m *Machine, f func(decl *ast.FuncDecl, recv types.Object)) {
	for _, file := range b.Files {
		for _, decl := range file.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || len(fn.Recv.List[0].Names) == 0 {
				continue
			}
			obj, ok := b.Info.Defs[fn.Name].(*types.Func)
			if ok && b.machineOf(obj.Signature()) == m {
				f(fn, b.Info.Defs[fn.Recv.List[0].Names[0]])
			}
		}
	}
}

// needsOnly reports assignments in methods to unexported fields. These fields are set from
// parameters of Register, and an assigned value would be lost.
func (b *builder) needsOnly(m *Machine) {
	b.methods(m, func(decl *ast.FuncDecl, recv types.Object) {
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					b.written(m, decl, recv, to)
				}
			case *ast.IncDecStmt:
				b.written(m, decl, recv, n.X)
			}
			return true
		})
	})
}

func (b *builder) written(m *Machine, decl *ast.FuncDecl, recv types.Object, to ast.Expr) {
	sel, ok := ast.Unparen(to).(*ast.SelectorExpr)
	if !ok || !b.is(sel.X, recv) {
		return
	}
	for _, f := range m.Needs {
		if f.Field == sel.Sel.Name {
			b.report(sel.Pos(), fmt.Sprintf("method %s of %s sets %s, which is unexported, so that it is a parameter of Register and not kept from step to step",
				decl.Name.Name, m.title(), f.Field), "export the field")
		}
	}
}

// is reports whether expr is a reference to the variable v.
func (b *builder) is(expr ast.Expr, v types.Object) bool {
	id, ok := ast.Unparen(expr).(*ast.Ident)
	return ok && v != nil && b.Info.Uses[id] == v
}
