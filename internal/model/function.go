package model

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/payload"
)

const (
	runtimePath  = "github.com/flowgen/flowgen/runtime/"
	workflowPath = runtimePath + "workflow"
)

// function checks an annotated function and adds it to the model.
func (b *builder) function(decl *ast.FuncDecl, ds []directive.Directive) {
	d, ok := b.onlyDirective(decl, ds)
	var fn *Function
	if ok {
		fn = b.common(decl, d)
	}
	if fn == nil {
		b.lost(decl)
		return
	}
	if d.Kind == directive.Step {
		b.step(decl, fn)
	} else {
		if !b.batched(fn) {
			return
		}
		b.scheduled(fn)
		fn.Uses = b.uses(fn)
		w := &Workflow{Function: *fn}
		b.starts(w)
		b.model.Workflows = append(b.model.Workflows, w)
	}
}

// onlyDirective returns the first directive of a function. It reports a mistake and returns false
// if the function has several.
func (b *builder) onlyDirective(decl *ast.FuncDecl, ds []directive.Directive) (directive.Directive, bool) {
	first := ds[0]
	for _, d := range ds[1:] {
		if d.Kind != first.Kind {
			b.report(d.Pos, describe(decl)+" is both a step and a workflow", "keep one of the directives")
		} else {
			b.report(d.Pos, fmt.Sprintf("%s has //flow:%s twice", describe(decl), d.Kind), "keep one, with all options on it")
		}
	}
	return first, len(ds) == 1
}

// common checks the requirements that steps and workflows share, and returns the function. It
// returns nil if a mistake prevents further checks.
func (b *builder) common(decl *ast.FuncDecl, d directive.Directive) *Function {
	obj, ok := b.Info.Defs[decl.Name].(*types.Func)
	switch {
	case decl.Name.Name == "_":
		b.report(decl.Name.Pos(), "an annotated function has no name", "give it one")
		return nil
	case decl.Recv == nil && (decl.Name.Name == "init" || decl.Name.Name == "main" && b.Name == "main"):
		b.report(decl.Name.Pos(), fmt.Sprintf("function %s cannot be a %s", decl.Name.Name, d.Kind), "move its work to a function of another name")
		return nil
	case !ok:
		b.report(decl.Name.Pos(), describe(decl)+" is not part of the package", "mend the errors of the compiler first")
		return nil
	}
	sig := obj.Signature()
	usable := b.shape(decl, sig, d.Kind)
	if token.IsExported(decl.Name.Name) && !d.Has("as") {
		b.report(decl.Name.Pos(), fmt.Sprintf("%s %s is exported, so other packages could call it around the log", d.Kind, decl.Name.Name),
			"rename it to "+name.Unexported(decl.Name.Name)+": the generated function takes the exported name; or keep it and name that function with as=Name")
		return nil
	}
	goName, named := b.goName(decl.Name.Pos(), decl.Name.Name, d)
	if !usable || !named {
		return nil
	}
	fn := &Function{
		Impl: decl.Name.Name, GoName: goName, Stored: b.stored(decl.Name.Name, d), Doc: prose(decl.Doc),
		Context: sig.Params().At(0).Name(), Variadic: sig.Variadic(), Directive: d, decl: decl, sig: sig, pos: decl.Name.Pos(),
		scope: decl.Body.Lbrace + 1,
	}
	m := b.machineOf(sig)
	if m != nil {
		b.nameInMachine(fn, m)
	}
	var names []string
	for i := 1; i < sig.Params().Len(); i++ {
		names = append(names, sig.Params().At(i).Name())
	}
	for i, field := range name.Fields(names) {
		v := sig.Params().At(i + 1)
		fn.Params = append(fn.Params, Param{Name: v.Name(), Field: field, Wire: v.Name(), Type: v.Type(), Var: v})
	}
	if sig.Results().Len() == 2 {
		fn.Result = sig.Results().At(0).Type()
	}
	b.wire(fn)
	b.payloads(fn)
	return fn
}

// toolComment matches comments for other tools that go/ast does not recognize as directives,
// because they have no colon. In doc comments, gofmt inserts a space in front of such a comment.
var toolComment = regexp.MustCompile(`^//(?:(?:nolint|#?nosec|noinspection|NOSONAR)(?:\W|$)|\s+(?:nolint|#?nosec|NOSONAR)(?:\s*$|:|\s*//|\s+G\d))`)

// prose returns the text of a doc comment without directives and comments for tools.
func prose(doc *ast.CommentGroup) string {
	return (&ast.CommentGroup{
		List: slices.DeleteFunc(slices.Clone(doc.List), func(c *ast.Comment) bool { return toolComment.MatchString(c.Text) }),
	}).Text()
}

// shape checks the signature of a function, except that the types of its payloads can be stored.
func (b *builder) shape(decl *ast.FuncDecl, sig *types.Signature, kind directive.Kind) bool {
	before := len(b.diagnostics)
	title := fmt.Sprintf("%s %s", kind, decl.Name.Name)
	if decl.Recv != nil && kind == directive.Workflow {
		b.report(decl.Recv.Pos(), title+" is a method", "make it a function: a workflow has no dependencies, its steps do")
	}
	if decl.Type.TypeParams != nil {
		b.report(decl.Type.TypeParams.Pos(), title+" has type parameters", "write it for concrete types")
	}
	if sig.RecvTypeParams().Len() > 0 {
		b.report(decl.Recv.Pos(), title+" is a method of a generic type", "make it a method of a concrete type")
	}
	if decl.Body == nil {
		b.report(decl.Name.Pos(), title+" has no body", "write it in Go")
	}
	b.firstParameter(decl, sig, kind)
	b.names(decl, title)
	b.results(decl, sig, title)
	return len(b.diagnostics) == before
}

// firstParameter checks that the first parameter is the context type that the directive requires.
func (b *builder) firstParameter(decl *ast.FuncDecl, sig *types.Signature, kind directive.Kind) {
	title := fmt.Sprintf("%s %s", kind, decl.Name.Name)
	want, other := "context.Context", "workflow.Context"
	if kind == directive.Workflow {
		want, other = other, want
	}
	pos := decl.Type.Params.Pos()
	if sig.Params().Len() == 0 || sig.Variadic() && sig.Params().Len() == 1 {
		b.report(pos, title+" takes no context", "take "+want+" as the first parameter")
		return
	}
	first := sig.Params().At(0).Type()
	if field := decl.Type.Params.List[0]; field != nil {
		pos = field.Type.Pos()
	}
	switch full := contextName(first); {
	case full == want:
	case full == other && kind == directive.Step:
		b.report(pos, title+" takes workflow.Context", "take context.Context instead, or annotate it with //flow:workflow")
	case full == other:
		b.report(pos, title+" takes context.Context", "take workflow.Context instead")
	case isInvalid(first):
		b.compiler(decl, title)
	default:
		b.report(pos, fmt.Sprintf("%s takes %s first", title, types.TypeString(first, types.RelativeTo(b.Types))), "take "+want+" as the first parameter")
	}
}

// contextName returns the name of a context type, or "" if t is another type.
func contextName(t types.Type) string {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Name() != "Context" {
		return ""
	}
	switch named.Obj().Pkg().Path() {
	case "context":
		return "context.Context"
	case workflowPath:
		return "workflow.Context"
	}
	return ""
}

func isInvalid(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() == types.Invalid
}

// compiler reports the errors that the type checker has found in a signature.
func (b *builder) compiler(decl *ast.FuncDecl, title string) {
	ds := b.TypeErrors(decl.Type.Pos(), decl.Type.End())
	if len(ds) == 0 {
		ds = b.importErrors(decl)
	}
	if len(ds) == 0 {
		b.report(decl.Name.Pos(), title+" has a signature that does not compile", "mend the errors of the compiler first")
	}
	b.diagnostics = append(b.diagnostics, ds...)
}

// importErrors returns the errors in the imports of decl's file.
func (b *builder) importErrors(decl *ast.FuncDecl) []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, f := range b.Files {
		if f.AST.FileStart > decl.Pos() || decl.Pos() >= f.End {
			continue
		}
		for _, spec := range f.AST.Imports {
			d, ok := b.ImportError(spec)
			switch {
			case spec.Pos() >= f.End: // package load appended this import
			case ok:
				ds = append(ds, d)
			default:
				ds = append(ds, b.TypeErrors(spec.Pos(), spec.End())...)
			}
		}
	}
	return ds
}

// names checks that every parameter has a name, because arguments are stored under the names of
// their parameters. The context is not stored and may have no name.
func (b *builder) names(decl *ast.FuncDecl, title string) {
	i := 0
	for _, field := range decl.Type.Params.List {
		if len(field.Names) == 0 && i > 0 {
			b.report(field.Type.Pos(), fmt.Sprintf("%s has a parameter without a name (%s)", title, types.ExprString(field.Type)),
				"name every parameter: arguments are stored by name")
		}
		for j, n := range field.Names {
			if n.Name == "_" && i+j > 0 {
				b.report(n.Pos(), title+" has a parameter named _", "name every parameter: arguments are stored by name")
			}
		}
		i += max(1, len(field.Names))
	}
}

// results checks that a function returns error, or one value and error.
func (b *builder) results(decl *ast.FuncDecl, sig *types.Signature, title string) {
	pos := decl.Type.End()
	if decl.Type.Results != nil {
		pos = decl.Type.Results.Pos()
	}
	n := sig.Results().Len()
	switch {
	case n == 0:
		b.report(decl.Name.Pos(), title+" returns no error", "return error, or a result and error")
	case isInvalid(sig.Results().At(n - 1).Type()):
		b.compiler(decl, title)
	case !types.Identical(sig.Results().At(n-1).Type(), types.Universe.Lookup("error").Type()):
		b.report(pos, title+" does not return error as its last result", "return error, or a result and error")
	case n > 2:
		b.report(pos, fmt.Sprintf("%s returns %d results before error", title, n-1), "return one struct that holds them, and error")
	}
}

// payloads checks that the arguments and the result can be stored and restored.
func (b *builder) payloads(fn *Function) {
	nodes := b.paramNodes(fn.decl)
	title := fmt.Sprintf("%s %s", fn.Directive.Kind, fn.Impl)
	for i, p := range fn.Params {
		b.faults(fn.decl, nodes[i+1], title, payload.Check(p.Name, p.Type, b.Types))
	}
	switch {
	case fn.Result == nil || b.machineOf(fn.sig) != nil: // stepOfMachine checks the result of a machine step
	case nextOf(fn.Result) != nil:
		b.report(fn.decl.Type.Results.Pos(), title+" returns a step.Next, and is no step of a machine", "make it a method of a type under //flow:machine, or return a result")
	default:
		b.faults(fn.decl, fn.decl.Type.Results.List[0].Type.Pos(), title, payload.Check("result", fn.Result, b.Types))
	}
}

func (b *builder) faults(decl *ast.FuncDecl, pos token.Pos, title string, faults []payload.Fault) {
	for _, f := range faults {
		if f.Invalid && !strings.Contains(f.Path, ".") { // the type checker has reported an error in the signature
			b.compiler(decl, title)
			continue
		}
		b.report(pos, title+": "+f.String(), f.Fix)
	}
}

// paramNodes returns the position of every parameter.
func (b *builder) paramNodes(decl *ast.FuncDecl) []token.Pos {
	var nodes []token.Pos
	for _, field := range decl.Type.Params.List {
		if len(field.Names) == 0 {
			nodes = append(nodes, field.Type.Pos())
		}
		for _, n := range field.Names {
			nodes = append(nodes, n.Pos())
		}
	}
	return nodes
}

// receivers groups the steps that are methods by receiver type. The parameter of Register is a
// pointer if at least one of the methods has a pointer receiver.
func (b *builder) receivers() {
	for _, s := range b.model.Steps {
		if s.named == nil || s.Graph != nil {
			continue
		}
		i := slices.IndexFunc(b.model.Receivers, func(r *Receiver) bool { return r.Type == s.named })
		if i < 0 {
			i = len(b.model.Receivers)
			b.model.Receivers = append(b.model.Receivers, &Receiver{Type: s.named})
		}
		r := b.model.Receivers[i]
		r.Pointer = r.Pointer || !s.ByValue
		r.Steps = append(r.Steps, s)
		s.Receiver = r
	}
	slices.SortFunc(b.model.Receivers, func(x, y *Receiver) int { return cmp.Compare(x.Type.Name(), y.Type.Name()) })
}

// Is reports whether the parameter of Register for this receiver has type t.
func (r *Receiver) Is(t types.Type) bool {
	if r.Pointer {
		return types.Identical(t, types.NewPointer(r.Type.Type()))
	}
	return types.Identical(t, r.Type.Type())
}

// wire sets the stored names of parameters from wire=. It reports stored names that differ only in
// case, because decoding cannot distinguish them.
func (b *builder) wire(fn *Function) {
	title := fmt.Sprintf("%s %s", fn.Directive.Kind, fn.Impl)
	for _, w := range fn.Directive.Wire {
		found := false
		for i := range fn.Params {
			if p := &fn.Params[i]; p.Name == w.Param {
				p.Wire, found = w.Stored, true
			}
		}
		if !found {
			b.report(w.Pos, fmt.Sprintf("wire=%s:%s: %s has no parameter %s", w.Param, w.Stored, title, w.Param),
				"write the name that the parameter has now before the colon")
		}
	}
	for i, p := range fn.Params {
		for _, other := range fn.Params[:i] {
			if strings.EqualFold(p.Wire, other.Wire) && len(fn.Directive.Wire) > 0 {
				b.report(fn.Directive.At("wire"), fmt.Sprintf("%s stores both %s and %s as %q", title, other.Name, p.Name, p.Wire),
					"give one of them another stored name")
			}
		}
	}
}
