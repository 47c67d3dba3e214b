package flowcheck

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
)

// ctxName returns the name of the workflow.Context that code at pos can use. It returns "" if the
// unit has no such context, or if its name is shadowed at pos.
func (p *packagePass) ctxName(u *unit, pos token.Pos) string {
	if u.ctx == nil || u.ctx.Name() == "" || u.ctx.Name() == "_" {
		return ""
	}
	if p.lookup(pos, u.ctx.Name()) != u.ctx {
		return ""
	}
	return u.ctx.Name()
}

// lookup returns the object that a name refers to at pos.
func (p *packagePass) lookup(pos token.Pos, name string) types.Object {
	inner := p.pass.Pkg.Scope().Innermost(pos)
	if inner == nil {
		return nil
	}
	_, obj := inner.LookupParent(name, pos)
	return obj
}

// importName returns the name under which file imports a package, or "".
func (p *packagePass) importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err == nil && value == path {
			if name := p.pass.TypesInfo.PkgNameOf(spec); name != nil && name.Name() != "." && name.Name() != "_" {
				return name.Name()
			}
		}
	}
	return ""
}

// source returns the source text of a node.
func (p *packagePass) source(n ast.Node) string {
	var b bytes.Buffer
	if err := format.Node(&b, p.pass.Fset, n); err != nil {
		return ""
	}
	return b.String()
}

// operand returns the source text of e. The text is in parentheses if a following selector would
// otherwise apply to only a part of e.
func (p *packagePass) operand(e ast.Expr) string {
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr, *ast.IndexExpr, *ast.ParenExpr:
		return p.source(e)
	}
	return "(" + p.source(e) + ")"
}

// replace returns the suggestion to replace a forbidden operation by text.
func (p *packagePass) replace(pr prim, message, text string) []analysis.SuggestedFix {
	return suggest(message, analysis.TextEdit{Pos: pr.pos, End: pr.end, NewText: []byte(text)})
}

func suggest(message string, edits ...analysis.TextEdit) []analysis.SuggestedFix {
	return []analysis.SuggestedFix{{Message: message, TextEdits: edits}}
}

// results returns the results of the innermost function around n. This may be a literal that is not
// a unit.
func (p *packagePass) results(u *unit, n ast.Node) *types.Tuple {
	c, ok := u.cursor.FindNode(n)
	if !ok {
		return nil
	}
	for around := range c.Enclosing((*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		if lit, isLit := around.Node().(*ast.FuncLit); isLit {
			sig, _ := p.pass.TypesInfo.TypeOf(lit).(*types.Signature)
			return sig.Results()
		}
		break
	}
	return u.sig.Results()
}

// returnErr returns a statement that returns err from the function around a forbidden operation. It
// returns "" unless the operation is a separate statement and the last result of the function is an
// error.
func (p *packagePass) returnErr(u *unit, pr prim) string {
	c, ok := u.cursor.FindNode(pr.node)
	if !ok || c.ParentEdgeKind() != edge.ExprStmt_X {
		return ""
	}
	return p.returnErrOf(u, pr.node)
}

func (p *packagePass) returnErrOf(u *unit, n ast.Node) string {
	results := p.results(u, n)
	if results == nil || results.Len() == 0 || !isErrorType(results.At(results.Len()-1).Type()) {
		return ""
	}
	var values []string
	for i := range results.Len() - 1 {
		zero := p.zero(u.file, results.At(i).Type())
		if zero == "" {
			return ""
		}
		values = append(values, zero)
	}
	return "return " + strings.Join(append(values, "err"), ", ")
}

// zero returns the source text of the zero value of t in file. It returns "" if the file cannot
// refer to the type.
func (p *packagePass) zero(file *ast.File, t types.Type) string {
	name := types.TypeString(t, func(pkg *types.Package) string {
		if pkg == p.pass.Pkg {
			return ""
		}
		if name := p.importName(file, pkg.Path()); name != "" {
			return name
		}
		return "?"
	})
	if strings.Contains(name, "?") {
		return ""
	}
	if _, isParam := types.Unalias(t).(*types.TypeParam); isParam {
		return "*new(" + name + ")"
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return `""`
		case u.Info()&types.IsBoolean != 0:
			return "false"
		case u.Info()&types.IsNumeric != 0:
			return "0"
		}
		return "nil"
	case *types.Struct, *types.Array:
		return name + "{}"
	}
	return "nil"
}

// addImport returns the edits that import a package of the standard library into file, and the name
// of the package in the file. ok is false if the name refers to another object at pos.
func (p *packagePass) addImport(file *ast.File, pos token.Pos, path string) (name string, edits []analysis.TextEdit, ok bool) {
	name = path[strings.LastIndex(path, "/")+1:]
	if has := p.importName(file, path); has != "" {
		_, isPkg := p.lookup(pos, has).(*types.PkgName)
		return has, nil, isPkg
	}
	if p.lookup(pos, name) != nil {
		return "", nil, false
	}
	i := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
		g, isGen := d.(*ast.GenDecl)
		return isGen && g.Tok == token.IMPORT && g.Lparen.IsValid()
	})
	if i < 0 {
		return "", nil, false
	}
	g, _ := file.Decls[i].(*ast.GenDecl)
	text := "\n\t" + strconv.Quote(path)
	return name, []analysis.TextEdit{{Pos: g.Lparen + 1, End: g.Lparen + 1, NewText: []byte(text)}}, true
}
