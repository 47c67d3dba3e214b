package client

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
)

// The ranks of copies in the output.
const (
	rankVariable = iota
	rankType
	rankConstant
	rankMethod
)

// copy copies the declaration of a package-level name.
func (b *builder) copy(it item) {
	path := it.obj.Pkg().Path()
	d, ok := b.declaration(b.sources[path], it.obj)
	switch {
	case !ok:
		b.fault(b.own.Path, it.pos, it.obj.Name()+" of package "+path+", which is generated", "declare a type of your own and convert")
		return
	case d.file.Why != load.Compiled:
		b.fault(path, place{d.p, it.obj.Pos()}, it.obj.Name()+", which is "+string(d.file.Why), "move it to a file that is always compiled")
		return
	}
	if ds := d.p.TypeErrors(d.spec.Pos(), d.spec.End()); len(ds) > 0 {
		b.fault(path, place{d.p, it.obj.Pos()}, it.obj.Name()+", which does not compile", "mend it first")
		return
	}
	switch obj := it.obj.(type) {
	case *types.TypeName:
		b.typ(d, obj)
	case *types.Const:
		b.constant(d, obj)
	case *types.Var:
		b.variable(d, obj)
	}
}

// declaration contains the syntax of the declaration of a name.
type declaration struct {
	p    *load.Package
	file *load.File
	spec ast.Spec
	doc  *ast.CommentGroup
	line *ast.CommentGroup // comment after the declaration
	id   *ast.Ident
}

// declaration returns the text that declares obj.
func (b *builder) declaration(p *load.Package, obj types.Object) (declaration, bool) {
	for _, f := range p.Files {
		for _, decl := range f.AST.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Pos() >= f.End {
				continue
			}
			for _, spec := range gen.Specs {
				d := declaration{p: p, file: f, spec: spec}
				var ids []*ast.Ident
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					ids, d.doc, d.line = []*ast.Ident{spec.Name}, spec.Doc, spec.Comment
				case *ast.ValueSpec:
					ids, d.doc, d.line = spec.Names, spec.Doc, spec.Comment
				}
				if d.doc == nil && !gen.Lparen.IsValid() {
					d.doc = gen.Doc
				}
				for _, id := range ids {
					if p.Info.Defs[id] == obj {
						d.id = id
						return d, true
					}
				}
			}
		}
	}
	return declaration{}, false
}

func (b *builder) add(d declaration, rank int, pieces []Piece) {
	at := d.p.Position(d.id.Pos())
	b.written = append(b.written, written{own: d.p == b.own, rank: rank, of: at, at: at, Copy: Copy{pieces}})
}

// addTo adds a declaration that the output places after the type t.
func (b *builder) addTo(t *types.TypeName, d declaration, rank int, pieces []Piece) {
	b.add(d, rank, pieces)
	b.written[len(b.written)-1].of = d.p.Position(t.Pos())
}

// typ copies a type with its constants and the methods that encode and print it.
func (b *builder) typ(d declaration, obj *types.TypeName) {
	spec := d.spec.(*ast.TypeSpec)
	var methods []*ast.FuncDecl
	if !obj.IsAlias() {
		methods = methodsOf(d.p, obj.Name())
	}
	for _, m := range methods {
		b.methods[method{symbolOf(obj), m.Name.Name}] = true
	}
	s := b.scan(d.p, "type "+obj.Name())
	var left []*ast.Field
	if list, ok := spec.Type.(*ast.StructType); ok && len(methods) == 0 {
		left = b.unneeded(d.p, obj, list)
	}
	inspect(spec, left, s.visit)
	s.captured()
	pieces := append(comment(d.doc), Piece{Text: "type "})
	pieces = append(pieces, b.text(d.p, d.file, spec.Name.Pos(), spec.End(), s.replaced, left)...)
	pieces = append(pieces, trailing(d.line)...)
	b.add(d, rankType, pieces)
	for _, m := range methods {
		b.addTo(obj, declaration{p: d.p, id: m.Name}, rankMethod, b.method(d.p, obj, m))
	}
	if list, ok := spec.Type.(*ast.StructType); ok && len(methods) > 0 && d.p != b.own && len(unexported(list)) > 0 {
		b.fault(d.p.Path, place{d.p, obj.Pos()}, "type "+obj.Name(), "")
		b.faults[len(b.faults)-1].soft = true
	}
	if basic, ok := obj.Type().Underlying().(*types.Basic); ok && !obj.IsAlias() && basic.Info()&types.IsConstType != 0 {
		for _, id := range d.p.Types.Scope().Names() {
			if c, ok := d.p.Types.Scope().Lookup(id).(*types.Const); ok && c.Exported() && types.Identical(c.Type(), obj.Type()) {
				b.need(c, place{d.p, c.Pos()})
			}
		}
	}
}

// unneeded returns the fields of a struct that the client does not need. It returns none if the
// type is kept completely.
func (b *builder) unneeded(p *load.Package, obj *types.TypeName, list *ast.StructType) []*ast.Field {
	if b.keep[symbolOf(obj)] {
		return nil
	}
	return slices.DeleteFunc(unexported(list), func(f *ast.Field) bool {
		return slices.ContainsFunc(f.Names, func(id *ast.Ident) bool { return b.keep[p.Position(id.Pos())] })
	})
}

func (b *builder) scan(p *load.Package, title string) *scan {
	return &scan{b: b, from: place{p, token.NoPos}, info: p.Info, pkg: p.Types, title: title, path: p.Path, fix: ownPackage}
}

// kept lists the methods that encode, print and match values. They are copied with their types.
var kept = map[string]bool{
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true, "IsZero": true,
	"String": true, "Error": true, "Format": true, "GoString": true, "Unwrap": true, "Is": true, "As": true,
	"MarshalJSONTo": true, "UnmarshalJSONFrom": true, "AppendText": true,
}

// methodsOf returns the methods of a type that are copied with the type.
func methodsOf(p *load.Package, typeName string) []*ast.FuncDecl {
	var methods []*ast.FuncDecl
	for _, f := range p.Files {
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Pos() < f.End && fn.Recv != nil && kept[fn.Name.Name] && receiver(fn) == typeName {
				methods = append(methods, fn)
			}
		}
	}
	return methods
}

// receiver returns the name of the receiver type of fn.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch e := t.(type) {
		case *ast.ParenExpr:
			t = e.X
		case *ast.StarExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

func (b *builder) method(p *load.Package, obj *types.TypeName, fn *ast.FuncDecl) []Piece {
	path := p.Path
	title := "type " + obj.Name() + " with its method " + fn.Name.Name
	file := fileOf(p, fn.Pos())
	switch {
	case file.Why != load.Compiled:
		b.fault(path, place{p, fn.Name.Pos()}, title+", which is "+string(file.Why), "move it to a file that is always compiled")
		return nil
	case fn.Body == nil:
		b.fault(path, place{p, fn.Name.Pos()}, title+", which has no body", ownPackage)
		return nil
	}
	if ds := p.TypeErrors(fn.Pos(), fn.End()); len(ds) > 0 {
		b.fault(path, place{p, fn.Name.Pos()}, title+", which does not compile", "mend it first")
		return nil
	}
	s := b.scan(p, title)
	s.code = true
	ast.Inspect(fn, s.visit)
	s.captured()
	return append(comment(fn.Doc), b.text(p, file, fn.Type.Func, fn.End(), s.replaced, nil)...)
}

func fileOf(p *load.Package, pos token.Pos) *load.File {
	for _, f := range p.Files {
		if f.AST.FileStart <= pos && pos < f.AST.FileEnd {
			return f
		}
	}
	return nil
}

// unexported returns the unexported fields of a struct. JSON omits them.
func unexported(s *ast.StructType) []*ast.Field {
	var fields []*ast.Field
	for _, f := range s.Fields.List {
		all := len(f.Names) > 0
		for _, id := range f.Names {
			all = all && !id.IsExported()
		}
		if all {
			fields = append(fields, f)
		}
	}
	return fields
}

// inspect traverses n except for the fields in left.
func inspect(n ast.Node, left []*ast.Field, visit func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		for _, f := range left {
			if n == ast.Node(f) {
				return false
			}
		}
		return visit(n)
	})
}

// variable copies a variable with its initial value.
func (b *builder) variable(d declaration, v *types.Var) {
	spec := d.spec.(*ast.ValueSpec)
	title := "variable " + v.Name()
	if len(spec.Values) != len(spec.Names) {
		b.fault(d.p.Path, place{d.p, d.id.Pos()}, title+", whose value is not beside it", "give it a value where it is declared")
		return
	}
	s := b.scan(d.p, title)
	s.fix = plainValue
	s.code = !declares(v.Type()) // The declaration of a topic, hook, value, stream or ask uses no unexported fields.
	pieces := append(comment(d.doc), Piece{Text: "var " + v.Name() + " "})
	if spec.Type != nil {
		ast.Inspect(spec.Type, s.visit)
		pieces = append(pieces, b.text(d.p, d.file, spec.Type.Pos(), spec.Type.End(), s.replaced, nil)...)
		s.replaced = nil
	}
	for i, id := range spec.Names {
		if id != d.id {
			continue
		}
		ast.Inspect(spec.Values[i], s.visit)
		pieces = append(pieces, Piece{Text: " = "})
		pieces = append(pieces, b.text(d.p, d.file, spec.Values[i].Pos(), spec.Values[i].End(), s.replaced, nil)...)
	}
	s.captured()
	if len(spec.Names) == 1 {
		pieces = append(pieces, trailing(d.line)...)
	}
	b.reach(v.Type(), place{d.p, d.id.Pos()})
	b.add(d, rankVariable, pieces)
}

// comment returns a doc comment without its directives.
func comment(doc *ast.CommentGroup) []Piece {
	if doc == nil {
		return nil
	}
	var pieces []Piece
	for line := range strings.Lines(doc.Text()) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			pieces = append(pieces, Piece{Text: "//\n"})
		case strings.HasPrefix(line, "\t"):
			pieces = append(pieces, Piece{Text: "//" + line + "\n"})
		default:
			pieces = append(pieces, Piece{Text: "// " + line + "\n"})
		}
	}
	return pieces
}

func trailing(line *ast.CommentGroup) []Piece {
	if line == nil {
		return nil
	}
	if text := strings.TrimSpace(line.Text()); text != "" {
		return []Piece{{Text: " // " + strings.ReplaceAll(text, "\n", " ")}}
	}
	return nil
}
