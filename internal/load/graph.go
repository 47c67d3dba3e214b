package load

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/dag"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// graphSource is a struct with a //flow:dag directive, described by its syntax.
type graphSource struct {
	goName string
	input  string   // fields of the input
	result string   // step that returns the result; empty if the sinks return it
	path   string   // path of the file that contains the struct
	names  []string // names of the steps
	nodes  map[string]dag.Node
	types  map[string]string // result types by step name
	paths  map[string]string // file paths by step name

	conditions map[string]string     // names of the condition methods by step name
	takes      map[string][]dag.Need // results that a method takes, by the name of a method that is not a step
}

// findGraphs records the graphs in a file.
func (w *writer) findGraphs(s *source) {
	for _, decl := range s.file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			fields, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			doc := t.Doc
			if doc == nil && len(gen.Specs) == 1 {
				doc = gen.Doc
			}
			if d, ok := dagDirective(doc); ok {
				g := &graphSource{result: d.Result.Value, path: s.path, nodes: map[string]dag.Node{}, types: map[string]string{}, paths: map[string]string{},
					conditions: map[string]string{}, takes: map[string][]dag.Need{}}
				exported, _ := name.Exported(t.Name.Name)
				if g.goName = cmp.Or(d.As, exported); g.goName == t.Name.Name {
					continue
				}
				for _, f := range fields.Fields.List {
					for _, id := range f.Names {
						if id.IsExported() {
							g.input += id.Name + " " + s.slice(f.Type.Pos(), f.Type.End()) + "; "
						}
					}
				}
				w.graphs[t.Name.Name] = g
			}
		}
	}
}

func dagDirective(doc *ast.CommentGroup) (directive.Directive, bool) {
	if doc != nil {
		for _, c := range doc.List {
			if d, _ := directive.Parse(c); directive.Is(c) && d.Kind == directive.DAG {
				return d, true
			}
		}
	}
	return directive.Directive{}, false
}

// graphOf returns the graph of which the method fn is a step, or nil.
func (w *writer) graphOf(fn *ast.FuncDecl) *graphSource {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return nil
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	if !ok {
		return nil
	}
	return w.graphs[id.Name]
}

// graphStep records a step of a graph. It uses the source form of the parameter types, which is
// sufficient to determine the steps that may be skipped.
func (w *writer) graphStep(s *source, fn *ast.FuncDecl, g *graphSource, d directive.Directive, params []param) {
	exported, _ := name.Exported(fn.Name.Name)
	w.fields = append(w.fields, cmp.Or(d.As, g.goName+exported))
	n := dag.Node{Name: fn.Name.Name, MaySkip: d.If.Value != "" || d.OnFail == "skip"}
	for _, p := range params {
		n.Needs = append(n.Needs, dag.Need{Name: p.name, Takes: true, Maybe: strings.HasPrefix(p.typ, "*")})
	}
	g.conditions[n.Name] = d.If.Value
	for _, a := range d.After {
		n.Needs = append(n.Needs, dag.Need{Name: a.Value, Maybe: true})
	}
	if r := fn.Type.Results; r != nil && r.NumFields() == 2 {
		n.HasResult = true
		g.types[n.Name] = s.slice(r.List[0].Type.Pos(), r.List[0].Type.End())
		if d.Each.Value != "" {
			g.types[n.Name] = "[]" + g.types[n.Name]
		}
	}
	g.names = append(g.names, n.Name)
	g.nodes[n.Name], g.paths[n.Name] = n, s.path
}

// findConditions records the parameters of graph methods that may be conditions of steps.
func (w *writer) findConditions(s *source) {
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || w.graphOf(fn) == nil {
			continue
		}
		g := w.graphOf(fn)
		for _, field := range fn.Type.Params.List {
			_, pointer := field.Type.(*ast.StarExpr)
			for _, id := range field.Names {
				g.takes[fn.Name.Name] = append(g.takes[fn.Name.Name], dag.Need{Name: id.Name, Takes: true, Maybe: pointer})
			}
		}
	}
}

// declare returns the declarations for a graph, and the path of the file to which they are
// appended.
func (g *graphSource) declare(w *writer) (path, text string) {
	var nodes []dag.Node
	for _, id := range g.names {
		n := g.nodes[id]
		n.Needs = append(n.Needs, g.takes[g.conditions[id]]...)
		nodes = append(nodes, n)
	}
	skippable := dag.Skippable(nodes)
	var sinks []string
	for _, i := range dag.Sinks(nodes) {
		sinks = append(sinks, nodes[i].Name)
	}
	if slices.Contains(g.names, g.result) {
		sinks = []string{g.result}
	}
	typ := func(id string) string {
		if skippable[id] {
			return "*" + g.types[id]
		}
		return g.types[id]
	}
	in, out, path := contextName+".None", contextName+".None", g.path
	if g.input != "" {
		in = name.Input(g.goName)
		text = fmt.Sprintf("type %s struct { %s }\n", in, g.input)
	}
	switch len(sinks) {
	case 0:
	case 1:
		out, path = typ(sinks[0]), g.paths[sinks[0]]
	default:
		out, path = name.Result(g.goName), g.paths[sinks[0]]
		text += "type " + out + " struct { "
		for i, field := range name.Fields(sinks) {
			text += field + " " + typ(sinks[i]) + "; "
		}
		text += "}\n"
	}
	if w.context != "any" {
		text += fmt.Sprintf("var %s %s.Definition[%s, %s]\n", g.goName, contextName, in, out)
	}
	return path, text
}
