package load

import (
	"fmt"
	"go/ast"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// machine is a type with a //flow:machine directive. The generated code contains a definition for
// it, but no counterparts of its methods.
type machine struct {
	goName, start string
}

// findMachines records the machines in a file.
func (w *writer) findMachines(s *source) {
	for _, decl := range s.file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := t.Doc
			if doc == nil {
				doc = group.Doc
			}
			if d, ok := machineIn(doc); ok {
				goName := d.As
				if exported, ok := name.Exported(t.Name.Name); !d.Has("as") && ok && exported != t.Name.Name {
					goName = exported
				}
				w.machines[t.Name.Name] = &machine{goName, d.Start}
			}
		}
	}
}

func machineIn(doc *ast.CommentGroup) (directive.Directive, bool) {
	if doc == nil {
		return directive.Directive{}, false
	}
	for _, c := range doc.List {
		if directive.Is(c) {
			if d, _ := directive.Parse(c); d.Kind == directive.Machine {
				return d, true
			}
		}
	}
	return directive.Directive{}, false
}

// receiver returns the type name of the receiver of fn, or "" if fn is not a method.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return ""
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// stepOfMachine returns the declarations for a step of a machine. For the first step it also
// returns the definition of the machine.
func (w *writer) stepOfMachine(s *source, m *machine, fn *ast.FuncDecl, d directive.Directive, goName string, params []param) string {
	if m.goName == "" {
		return ""
	}
	if !d.Has("as") {
		goName = m.goName + goName
	}
	w.fields = append(w.fields, goName)
	if fn.Name.Name != m.start {
		return ""
	}
	out := ""
	if r := fn.Type.Results; r != nil && r.NumFields() == 2 {
		if next, ok := r.List[0].Type.(*ast.IndexListExpr); ok && len(next.Indices) == 2 {
			out = s.slice(next.Indices[1].Pos(), next.Indices[1].End())
		}
	}
	if out == "" {
		return ""
	}
	return w.definition(m.goName, params, out)
}

// definition returns the definition of a workflow with the given parameters and result type.
func (w *writer) definition(goName string, params []param, out string) string {
	if w.context == "any" {
		return ""
	}
	in, input := w.input(goName, params)
	return fmt.Sprintf("%svar %s %s.Definition[%s, %s]\n", input, goName, contextName, in, out)
}
