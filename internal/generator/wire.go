package generator

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/revision"
)

// entry contains the names of a function or an error in the logs of runs in flight.
type entry struct {
	kind   string // "workflow", "step" or "error"
	stored string
	params []string // stored names of the parameters
}

// wireNames returns the stored names in a generated file by Go name. It skips all text that it
// cannot read, because the file may contain conflict markers or be from another release.
func wireNames(source []byte) map[string]entry {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	r := wireReader{structs: map[string][]string{}, all: map[string]entry{}}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				r.structs[spec.Name.Name] = tags(s)
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Names) == 1 && len(n.Values) == 1 {
				r.variable(n.Names[0].Name, n.Values[0])
			}
		case *ast.CallExpr:
			r.failure(n)
		}
		return true
	})
	return r.all
}

type wireReader struct {
	structs map[string][]string // stored field names by struct
	all     map[string]entry
}

// variable reads the declaration of a workflow or step.
func (r *wireReader) variable(id string, value ast.Expr) {
	call, ok := value.(*ast.CallExpr)
	if !ok || len(call.Args) < 3 {
		return
	}
	switch fun, typeArgs := callee(call); fun {
	case "NewWorkflow":
		e := entry{kind: "workflow", stored: text(call.Args[0])}
		if param := text(call.Args[1]); param != "" {
			e.params = []string{param}
		} else if len(typeArgs) > 0 {
			e.params = r.structs[types.ExprString(typeArgs[0])]
		}
		r.all[id] = e
	case "NewStep":
		e := entry{kind: "step", stored: text(call.Args[0])}
		ast.Inspect(call.Args[2], func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncLit); ok && f.Type.Params.NumFields() >= 2 { // The parameters are a context, optionally a machine, and the arguments.
				e.params = r.structs[types.ExprString(f.Type.Params.List[len(f.Type.Params.List)-1].Type)]
			}
			return true
		})
		r.all[id] = e
	}
}

// failure reads the registration of an error.
func (r *wireReader) failure(call *ast.CallExpr) {
	switch fun, typeArgs := callee(call); {
	case fun == "RegisterError" && len(typeArgs) == 1 && len(call.Args) == 1:
		r.all["error "+types.ExprString(typeArgs[0])] = entry{kind: "error", stored: text(call.Args[0])}
	case fun == "RegisterSentinel" && len(call.Args) == 2 && isIdent(call.Args[1]): // The error belongs to this package. The name of an error of another package is never compared.
		r.all["error "+types.ExprString(call.Args[1])] = entry{kind: "error", stored: text(call.Args[0])}
	}
}

func isIdent(e ast.Expr) bool { _, ok := e.(*ast.Ident); return ok }

// callee returns the name and the type arguments of a called function. It ignores the package
// qualifier.
func callee(call *ast.CallExpr) (fun string, typeArgs []ast.Expr) {
	f := call.Fun
	switch x := f.(type) {
	case *ast.IndexExpr:
		f, typeArgs = x.X, []ast.Expr{x.Index}
	case *ast.IndexListExpr:
		f, typeArgs = x.X, x.Indices
	}
	if sel, ok := f.(*ast.SelectorExpr); ok {
		fun = sel.Sel.Name
	}
	return fun, typeArgs
}

func tags(s *ast.StructType) []string {
	var all []string
	for _, f := range s.Fields.List {
		if f.Tag != nil {
			tag, _, _ := strings.Cut(reflect.StructTag(text(f.Tag)).Get("json"), ",")
			all = append(all, tag)
		}
	}
	return all
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// warn compares the stored names in the generated file of a package with the previous file, on disk
// or in a revision.
func (r *Report) warn(ctx context.Context, m *model.Package, p *load.Package, source []byte, since string) {
	before := p.Output.Content
	if since != "" && p.Dir != "" {
		var err error
		if before, err = contentAt(ctx, p.Output.Path, since); err != nil {
			r.failed(p.Output.Path, "its stored names cannot be compared", err)
			return
		}
	}
	r.Warnings = append(r.Warnings, renamed(m, p, before, source)...)
}

// renamed returns a warning for each stored name that changed between two versions of a generated
// file. Logs of runs in flight contain the old names.
func renamed(m *model.Package, p *load.Package, before, after []byte) []diagnostic.Diagnostic {
	w := wireChange{before: wireNames(before), after: wireNames(after), functions: map[string]*model.Function{}, loaded: p}
	for _, s := range m.Steps {
		w.functions[name.Step(s.GoName)] = &s.Function
	}
	for _, f := range m.Workflows {
		w.functions[f.GoName] = &f.Function
	}
	for _, id := range slices.Sorted(maps.Keys(w.before)) {
		if now, ok := w.after[id]; ok {
			w.compare(id, w.before[id], now)
		} else {
			w.gone(w.before[id])
		}
	}
	return w.warnings
}

type wireChange struct {
	before, after map[string]entry
	functions     map[string]*model.Function // functions by Go name
	loaded        *load.Package
	warnings      []diagnostic.Diagnostic
}

func (w *wireChange) warn(id, what, fix string) {
	at := token.Position{Filename: w.loaded.Output.Path, Line: 1, Column: 1} // position for removed items
	if f := w.functions[id]; f != nil {
		at = w.loaded.Position(f.Pos())
	}
	w.warnings = append(w.warnings, diagnostic.New(at, what, fix))
}

// compare reports the changed names of a function or error that still exists.
func (w *wireChange) compare(id string, was, is entry) {
	if was.stored != is.stored {
		w.warn(id, fmt.Sprintf("the stored name of %s %s was %q and is %q now, and runs under way have the old one", is.kind, bare(id), was.stored, is.stored),
			fmt.Sprintf("keep it with name=%s, unless no such run is left", was.stored))
	}
	lost, added := without(was.params, is.params), without(is.params, was.params)
	if len(lost) == 0 || len(added) == 0 {
		return // If names were only added or only removed, no stored value is lost.
	}
	for i, old := range lost {
		stored := added[min(i, len(added)-1)]
		param := stored
		f := w.functions[id]
		if f != nil {
			for _, p := range f.Params {
				if p.Wire == stored {
					param = p.Name
				}
			}
		}
		keep := fmt.Sprintf("wire=%s:%s", param, old)
		if f != nil && f.Directive.Kind == directive.DAG {
			keep = fmt.Sprintf("the tag json:%q on field %s", old, param)
		}
		w.warn(id, fmt.Sprintf("%s %s stored a parameter as %q, which is gone, and %q is new: runs under way that hold the old name will be blocked", was.kind, bare(id), old, stored),
			fmt.Sprintf("if it was renamed, keep the stored name with %s; if not, keep %s until no such run is left", keep, old))
	}
}

// gone reports a stored name that the new version does not contain.
func (w *wireChange) gone(was entry) {
	var candidates []string
	for _, id := range slices.Sorted(maps.Keys(w.after)) {
		now := w.after[id]
		if now.stored == was.stored {
			w.compare(id, was, now) // The item has a different Go name in the new version.
			return
		}
		if _, old := w.before[id]; !old && now.kind == was.kind {
			candidates = append(candidates, id)
		}
	}
	id, fix := "", fmt.Sprintf("if it has another name now, keep the stored one with name=%s; if not, keep the %s until no such run is left", was.stored, was.kind)
	if len(candidates) == 1 {
		id = candidates[0]
		fix = fmt.Sprintf("if %s took its place, keep the stored name with name=%s; if not, keep the %s until no such run is left", bare(id), was.stored, was.kind)
	}
	w.warn(id, fmt.Sprintf("no %s is stored as %q any more, and runs under way may have that name", was.kind, was.stored), fix)
}

// bare returns the user's name of the item for which a Go name was generated.
func bare(id string) string {
	return strings.TrimSuffix(strings.TrimPrefix(id, "error "), strings.TrimPrefix(name.Step("x"), "x"))
}

// without returns the elements of a that b does not contain.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// contentAt returns the content of a generated file in the revision with the given name, or nil if
// the file does not exist there.
func contentAt(ctx context.Context, path, name string) ([]byte, error) {
	if resolved, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(resolved, filepath.Base(path))
	}
	r, err := revision.Find(ctx, filepath.Dir(path), name)
	if err != nil {
		return nil, err
	}
	contents, err := r.Contents(ctx, []string{path})
	return contents[path], err
}
