package model

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
)

// expression parses and type-checks a value of a directive in the scope of fn's parameters.
// Messages call the value noun. If the value is invalid, expression reports the mistake to wrong or
// to the builder and returns nil. wrong receives the position and the text of the mistake.
// overParams reports whether the expression contains parameters.
func (b *builder) expression(fn *Function, text directive.Text, noun string, wrong func(pos token.Pos, what string)) (k *Key, overParams bool) {
	at := func(pos token.Pos) token.Pos { // positions in the expression begin at 1
		offset := min(max(int(pos)-1, 0), len(text.Value))
		return text.Pos + token.Pos(offset)
	}
	if offset := commentIn(text.Value); offset >= 0 {
		b.report(text.Pos+token.Pos(offset), noun+" holds a comment", "remove it: the expression becomes part of a line of generated code")
		return nil, false
	}
	expr, err := parser.ParseExpr(text.Value)
	if err != nil {
		wrong(text.Pos, "is not a Go expression")
		return nil, false
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	if err := types.CheckExpr(token.NewFileSet(), b.Types, fn.scope, expr, info); err != nil {
		pos, what := text.Pos, err.Error()
		if e, ok := errors.AsType[types.Error](err); ok {
			pos, what = at(e.Pos), e.Msg
		}
		wrong(pos, "does not compile: "+what)
		return nil, false
	}
	good, overParams := b.namesIn(fn, expr, info, noun, at)
	if !good {
		return nil, false
	}
	return &Key{Text: text.Value, Expr: expr, Info: info}, overParams
}

// key returns the key of a step, or nil if the key is invalid.
func (b *builder) key(fn *Function) *Key {
	text := fn.Directive.Key
	const fix = "write an expression over the parameters, as in key=order.ID"
	k, overParams := b.expression(fn, text, "the key", func(pos token.Pos, what string) {
		b.report(pos, fmt.Sprintf("key=%s %s", text.Value, what), fix)
	})
	switch {
	case k == nil:
		return nil
	case !overParams:
		b.report(text.Pos, "the key uses no parameter, so it is the same for every call", fix)
		return nil
	}
	tv := k.Info.Types[k.Expr]
	if tv.Value != nil && tv.Value.Kind() != constant.Unknown {
		b.report(text.Pos, fmt.Sprintf("key=%s is a constant, so it is the same for every call", text.Value), fix)
		return nil
	}
	if !b.textOf("key", text, tv) {
		return nil
	}
	return k
}

// commentIn returns the offset of the first comment in an expression, or -1 if there is none.
func commentIn(expr string) int {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", 1, len(expr))
	s.Init(file, []byte(expr), nil, scanner.ScanComments)
	for {
		switch pos, tok, _ := s.Scan(); tok {
		case token.COMMENT:
			return file.Offset(pos)
		case token.EOF:
			return -1
		}
	}
}

// namesIn checks that an expression contains only parameters and names that are visible in
// generated code. overParams reports whether the expression contains parameters.
func (b *builder) namesIn(fn *Function, expr ast.Expr, info *types.Info, noun string, at func(token.Pos) token.Pos) (good, overParams bool) {
	good = true
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			b.report(at(n.Pos()), noun+" holds a function literal", "move the computation to a function and call that")
			good = false
			return false
		case *ast.SelectorExpr:
			if fn.isInput(n, info) {
				overParams = true
				return false
			}
		case *ast.Ident:
			v, isVar := info.Uses[n].(*types.Var)
			if !isVar || v.IsField() || v.Parent() == b.Types.Scope() || v.Pkg() != b.Types {
				return true
			}
			if isParam(fn, v) && !fn.isReceiver(v) {
				overParams = true
				return true
			}
			fix := "use the parameters behind the context only"
			if isParam(fn, v) {
				fix = "use the parameters behind the context, and exported fields of " + n.Name
			}
			b.report(at(n.Pos()), fmt.Sprintf("%s uses %s, which is not stored with the arguments", noun, n.Name), fix)
			good = false
		}
		return true
	})
	return good, overParams
}

func (f *Function) isReceiver(v *types.Var) bool { return f.sig != nil && f.sig.Recv() == v }

// isInput reports whether sel is an exported field of the receiver of a graph step. Such a field is
// part of the graph's input.
func (f *Function) isInput(sel *ast.SelectorExpr, info *types.Info) bool {
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return false
	}
	recv, isVar := info.Uses[x].(*types.Var)
	field, isField := info.Uses[sel.Sel].(*types.Var)
	return isVar && isField && f.isReceiver(recv) && isParam(f, recv) && field.IsField() && field.Exported()
}

func isParam(fn *Function, v *types.Var) bool {
	for _, p := range fn.Params {
		if p.Var == v {
			return true
		}
	}
	return false
}

// textOf checks that the value of an expression has an unambiguous text. It must be a string, an
// integer, or a type with a String method.
func (b *builder) textOf(option string, text directive.Text, tv types.TypeAndValue) bool {
	what := option + "=" + text.Value
	if !tv.IsValue() {
		b.report(text.Pos, what+" is not a single value", "write an expression with one value")
		return false
	}
	if isTime(tv.Type) {
		b.report(text.Pos, what+" is a time, whose text depends on where it is printed",
			"use a text of your choice, as in "+option+"=at.UTC().Format(time.RFC3339Nano), or "+option+"=at.UnixNano()")
		return false
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	if ok && basic.Info()&(types.IsString|types.IsInteger) != 0 || printsItself(tv.Type) {
		return true
	}
	b.report(text.Pos, fmt.Sprintf("%s has type %s, which has no text of its own", what, types.TypeString(tv.Type, types.RelativeTo(b.Types))),
		"use a string, an integer, or a type with a method String() string")
	return false
}

func isTime(t types.Type) bool {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Time"
}

// printsItself reports whether t has a method String() string.
func printsItself(t types.Type) bool {
	sel := types.NewMethodSet(t).Lookup(nil, "String")
	if sel == nil {
		return false
	}
	sig, ok := sel.Type().(*types.Signature)
	return ok && sig.Params().Len() == 0 && sig.Results().Len() == 1 &&
		types.Identical(sig.Results().At(0).Type(), types.Typ[types.String])
}
