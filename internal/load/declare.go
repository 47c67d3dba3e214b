package load

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// writer writes the declarations that the generated code will contain for each annotated function.
// It skips invalid functions, which package model reports.
type writer struct {
	context         string // type of the context in workflow code
	register, steps string
	fields          []string                // fields of the generated variable Steps
	graphs          map[string]*graphSource // graphs by the name of their struct
	machines        map[string]*machine     // machines by the name of their struct
}

// rename applies the names in a //flow:package directive.
func (w *writer) rename(d directive.Directive) {
	if d.Kind != directive.Package {
		return
	}
	if d.Register != "" {
		w.register = d.Register
	}
	if d.Steps != "" {
		w.steps = d.Steps
	}
}

func (w *writer) declarations(s *source) string {
	var b strings.Builder
	s.annotated(func(fn *ast.FuncDecl, d directive.Directive) {
		if fn == nil {
			return
		}
		if g := w.graphOf(fn); g != nil {
			if params, ok := s.params(fn); ok && d.Kind == directive.Step {
				w.graphStep(s, fn, g, d, params)
			}
			return
		}
		goName := d.As
		if exported, ok := name.Exported(fn.Name.Name); !d.Has("as") && ok && exported != fn.Name.Name {
			goName = exported
		}
		params, ok := s.params(fn)
		if m := w.machines[receiver(fn)]; m != nil && d.Kind == directive.Step {
			if ok && goName != "" {
				b.WriteString(w.stepOfMachine(s, m, fn, d, goName, params))
			}
			return
		}
		if goName == "" || !ok || goName == fn.Name.Name && fn.Recv == nil {
			return
		}
		switch d.Kind {
		case directive.Step:
			w.fields = append(w.fields, goName)
			b.WriteString(w.step(s, fn, goName, params))
		case directive.Workflow:
			if d.Has("batch") && len(params) == 1 { // Start takes a single element of the batch.
				params[0].typ = strings.TrimPrefix(params[0].typ, "[]")
			}
			b.WriteString(w.workflow(s, fn, goName, params))
		}
	})
	return b.String()
}

// packageLevel returns the declarations that the generated file contains once per package.
func (w *writer) packageLevel() string {
	slices.Sort(w.fields)
	text := fmt.Sprintf("func %s(...any) {}\n", w.register)
	if len(w.fields) > 0 {
		text += fmt.Sprintf("var %s struct{ %s any }\n", w.steps, strings.Join(w.fields, ", "))
	}
	return text
}

func (w *writer) step(s *source, fn *ast.FuncDecl, goName string, params []param) string {
	list := []string{"_ " + w.context}
	for _, p := range params {
		list = append(list, p.name+" "+p.typ)
	}
	results := ""
	if r := fn.Type.Results; r != nil {
		results = s.slice(r.Pos(), r.End())
	}
	return fmt.Sprintf("func %s(%s) %s { panic(0) }\n", goName, strings.Join(list, ", "), results)
}

func (w *writer) workflow(s *source, fn *ast.FuncDecl, goName string, params []param) string {
	out := contextName + ".None"
	if r := fn.Type.Results; r != nil && r.NumFields() == 2 {
		out = s.slice(r.List[0].Type.Pos(), r.List[0].Type.End())
	}
	return w.definition(goName, params, out)
}

// input returns the input type for the definition of a workflow. If the type is generated, the
// second result is its declaration.
func (w *writer) input(goName string, params []param) (typ, declaration string) {
	switch len(params) {
	case 0:
		return contextName + ".None", ""
	case 1:
		return strings.Replace(params[0].typ, "...", "[]", 1), ""
	}
	typ = name.Input(goName)
	var names []string
	for _, p := range params {
		names = append(names, p.name)
	}
	var fields strings.Builder
	for i, field := range name.Fields(names) {
		fields.WriteString(field + " " + strings.Replace(params[i].typ, "...", "[]", 1) + "; ")
	}
	return typ, fmt.Sprintf("type %s struct { %s }\n", typ, fields.String())
}

type param struct{ name, typ string }

// params returns the parameters after the context. It returns false if no code can be generated for
// the signature.
func (s *source) params(fn *ast.FuncDecl) ([]param, bool) {
	var params []param
	for i, field := range fn.Type.Params.List {
		typ := s.slice(field.Type.Pos(), field.Type.End())
		if i == 0 {
			if len(field.Names) > 1 {
				return nil, false
			}
			continue
		}
		if len(field.Names) == 0 {
			return nil, false
		}
		for _, n := range field.Names {
			if n.Name == "_" {
				return nil, false
			}
			params = append(params, param{n.Name, typ})
		}
	}
	return params, len(fn.Type.Params.List) > 0 && fn.Type.TypeParams == nil
}
