package client

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
)

// text returns the source between two positions of a file without the omitted fields. Each name in
// it is a separate piece.
func (b *builder) text(p *load.Package, file *load.File, from, to token.Pos, replaced []replacement, left []*ast.Field) []Piece {
	source, err := os.ReadFile(file.Path)
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return nil
	}
	f := p.Fset.File(file.AST.FileStart)
	if f.Offset(to) > len(source) {
		return nil // The file changed after the package was loaded.
	}
	type cut struct {
		from, to token.Pos
		obj      types.Object
	}
	var cuts []cut
	for _, r := range replaced {
		cuts = append(cuts, cut{r.node.Pos(), r.node.End(), r.obj})
	}
	for _, field := range left {
		c := cut{field.Pos(), field.End(), nil}
		if field.Doc != nil {
			c.from = field.Doc.Pos()
		}
		if field.Comment != nil {
			c.to = field.Comment.End()
		} else if rest := bytes.TrimLeft(source[f.Offset(c.to):], " \t"); bytes.HasPrefix(rest, []byte(";")) {
			c.to = f.Pos(len(source) - len(rest) + 1)
		}
		cuts = append(cuts, c)
	}
	slices.SortFunc(cuts, func(x, y cut) int { return cmp.Compare(x.from, y.from) })
	var pieces []Piece
	add := func(from, to token.Pos) {
		text := strings.ReplaceAll(string(source[f.Offset(from):f.Offset(to)]), "\r\n", "\n")
		if text != "" {
			pieces = append(pieces, Piece{Text: text})
		}
	}
	at := from
	for _, c := range cuts {
		if c.from < at || c.to > to {
			continue
		}
		add(at, c.from)
		if c.obj != nil {
			pieces = append(pieces, Piece{Object: c.obj})
		}
		at = c.to
	}
	add(at, to)
	return pieces
}

// constant copies a constant with its value, because iota has a different value in the client.
func (b *builder) constant(d declaration, c *types.Const) {
	at := place{d.p, c.Pos()}
	value, ok := literal(c)
	if !ok {
		b.fault(d.p.Path, at, "constant "+c.Name()+", whose value no literal has", ownPackage)
		return
	}
	pieces := []Piece{{Text: c.Name() + " "}}
	var of *types.TypeName
	switch t := c.Type().(type) {
	case *types.Basic:
		if t.Info()&types.IsUntyped == 0 {
			pieces = append(pieces, Piece{Text: t.Name()})
		}
	case *types.Named:
		of = t.Obj()
	case *types.Alias:
		of = t.Obj()
	}
	if of != nil {
		b.need(of, at)
		pieces = append(pieces, Piece{Object: of})
	}
	pieces = append(pieces, Piece{Text: " = " + value})
	if spec := d.spec.(*ast.ValueSpec); len(spec.Names) == 1 {
		pieces = append(pieces, trailing(d.line)...)
	}
	if of != nil && of.Pkg() == d.p.Types {
		b.addTo(of, d, rankConstant, pieces)
	} else {
		b.add(d, rankConstant, pieces)
	}
	b.written[len(b.written)-1].doc = comment(d.doc)
}

// literal returns the value of a constant in Go syntax. It returns false for a value that has no
// literal.
func literal(c *types.Const) (string, bool) {
	basic, ok := c.Type().Underlying().(*types.Basic)
	if !ok {
		return "", false
	}
	v := c.Val()
	switch {
	case basic.Kind() == types.UntypedRune:
		if r, exact := constant.Int64Val(v); exact && r >= 0 && r <= 0x10ffff {
			return strconv.QuoteRune(rune(r)), true
		}
	case basic.Info()&types.IsFloat != 0:
		f, exact := constant.Float64Val(v)
		if !exact && basic.Kind() == types.UntypedFloat {
			return "", false
		}
		text := strconv.FormatFloat(f, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text, true
	case basic.Info()&(types.IsInteger|types.IsString|types.IsBoolean) != 0:
		return v.ExactString(), true
	}
	return "", false
}
