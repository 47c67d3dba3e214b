package manifest

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/types"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// Of returns the manifest of the package at path, or nil if the package has no directives.
func (w *World) Of(path string) *Manifest {
	m, p := w.models[path], w.packages[path]
	if m == nil || m.Empty() {
		return nil
	}
	s := &schemas{pkg: p.Types, named: map[string]json.RawMessage{}, custom: w.methodsOf}
	out := &Manifest{
		Format: Format, Package: path, Workflows: map[string]*Workflow{}, Steps: map[string]*Step{},
		Declared: map[string]*Declaration{}, Errors: map[string]string{}, Types: s.named, Position: p.Position(m.First),
	}
	for _, step := range m.Steps {
		out.Steps[step.Stored] = &Step{
			Go: step.GoName, Params: paramsOf(s, &step.Function), Result: s.of(step.Result), Key: keyOf(step),
			Queue: step.Directive.Queue, Uses: usesOf(step.Directive), Policy: policyOf(step.Directive), Position: p.Position(step.Pos()),
		}
	}
	for _, f := range m.Workflows {
		out.Workflows[f.Stored] = w.workflow(s, p, f)
	}
	for key, d := range w.declared {
		if strings.HasPrefix(key, path+".") && !strings.Contains(key[len(path)+1:], "/") {
			decl := *d.decl
			decl.Schema = s.of(d.types[0])
			if len(d.types) > 1 {
				decl.Answer = s.of(d.types[1])
			}
			out.Declared[d.kind+" "+d.name] = &decl
		}
	}
	for _, f := range m.Failures {
		ref := ""
		if f.Type != nil {
			ref = string(s.of(f.Type))
		}
		out.Errors[f.Stored] = ref
	}
	return out
}

func (w *World) workflow(s *schemas, p *load.Package, f *model.Workflow) *Workflow {
	x := newWalker(w, p)
	var ops []*Op
	var scratchpad json.RawMessage
	switch {
	case f.Graph != nil:
		ops = x.graph(f.Graph)
	case f.Machine != nil:
		ops = x.machine(f.Machine)
		scratchpad = s.of(f.Machine.Type.Type())
	default:
		ops = x.workflow(w.bodies[p.Path+"."+f.Impl].decl, f)
	}
	return &Workflow{
		Go: f.GoName, Params: paramsOf(s, &f.Function), Result: s.of(f.Result), Policy: policyOf(f.Directive), Scratchpad: scratchpad,
		Shape: shapeOf(unnamed(ops)), Code: codeOf(x.hashed(ops)), Uses: x.uses, Decides: x.decides(ops), Ops: x.shown(ops), Position: p.Position(f.Pos()),
	}
}

func paramsOf(s *schemas, f *model.Function) []Param {
	var all []Param
	for _, p := range f.Params {
		all = append(all, Param{p.Wire, s.of(p.Type)})
	}
	return all
}

// keyOf returns the declared key of a step with parameter positions instead of parameter names.
func keyOf(step *model.Step) string {
	if step.Key == nil {
		return ""
	}
	var b strings.Builder
	text := step.Key.Text
	last := 0
	ast.Inspect(step.Key.Expr, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		for i, p := range step.Params {
			if v, isVar := step.Key.Info.Uses[id].(*types.Var); isVar && v == p.Var {
				at := int(id.Pos()) - 1
				b.WriteString(text[last:at] + "$" + strconv.Itoa(i+1))
				last = at + len(id.Name)
			}
		}
		return true
	})
	return b.String() + text[last:]
}

// usesOf returns the names of the limits in a directive, in their source form.
func usesOf(d directive.Directive) (names []string) {
	for _, u := range d.Uses {
		names = append(names, u.Limit.String())
	}
	return names
}

// policyOf returns the options of a directive in their source form, by name.
func policyOf(d directive.Directive) map[string]string {
	all := map[string]string{}
	add := func(option string, v any) {
		if d.Has(option) {
			all[option] = fmt.Sprint(v)
		}
	}
	add("retries", d.Retries)
	add("timeout", d.Timeout)
	add("total", d.Total)
	add("retention", d.Retention)
	add("children", d.Children)
	add("queue", d.Queue)
	add("schedule", d.Schedule)
	add("jitter", d.Jitter)
	add("rerun", d.Rerun)
	add("batch", d.Full)
	add("singleton", d.Singleton.Value)
	add("priority", d.Priority.Value)
	if d.NonIdempotent {
		all["nonidempotent"] = "true"
	}
	if d.Pin {
		all["pin"] = "true"
	}
	return all
}

// methodsOf returns a hash of the methods with which a type encodes itself.
func (w *World) methodsOf(t *types.Named) string {
	var text strings.Builder
	for _, name := range []string{"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText"} {
		obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), false, t.Obj().Pkg(), name)
		if fn, ok := obj.(*types.Func); ok {
			text.WriteString(name + w.hashOf(fn))
		}
	}
	return digest(text.String())
}
