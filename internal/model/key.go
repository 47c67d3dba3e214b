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

// key type-checks the key expression of fn where its parameters are in scope.
func (b *builder) key(fn *Function) *Key {
	text := fn.Directive.Key
	at := func(pos token.Pos) token.Pos { // of the expression, which starts at 1
		offset := min(max(int(pos)-1, 0), len(text.Value))
		return text.Pos + token.Pos(offset)
	}
	if offset := commentIn(text.Value); offset >= 0 {
		b.report(text.Pos+token.Pos(offset), "the key holds a comment", "remove it: the expression becomes part of a line of generated code")
		return nil
	}
	expr, err := parser.ParseExpr(text.Value)
	if err != nil {
		b.report(text.Pos, fmt.Sprintf("key=%s is not a Go expression", text.Value), "write an expression over the parameters, as in key=order.ID")
		return nil
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)}
	if err := types.CheckExpr(token.NewFileSet(), b.Types, fn.decl.Body.Lbrace+1, expr, info); err != nil {
		pos, what := text.Pos, err.Error()
		if e, ok := errors.AsType[types.Error](err); ok {
			pos, what = at(e.Pos), e.Msg
		}
		b.report(pos, fmt.Sprintf("key=%s does not compile: %s", text.Value, what), "write an expression over the parameters, as in key=order.ID")
		return nil
	}
	good, overParams := b.keyNames(fn, expr, info, at)
	if good && !overParams {
		b.report(text.Pos, "the key uses no parameter, so it is the same for every call", "write an expression over the parameters, as in key=order.ID")
	}
	if !good || !overParams || !b.keyType(text, info.Types[expr]) {
		return nil
	}
	return &Key{Text: text.Value, Expr: expr, Info: info}
}

// commentIn returns the offset of the first comment in an expression, or -1.
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

// keyNames checks that the key is made of parameters and of names that
// generated code can see as well, and reports whether there are parameters in it.
func (b *builder) keyNames(fn *Function, expr ast.Expr, info *types.Info, at func(token.Pos) token.Pos) (good, overParams bool) {
	good = true
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			b.report(at(n.Pos()), "the key holds a function literal", "move the computation to a function and call that")
			good = false
			return false
		case *ast.Ident:
			v, isVar := info.Uses[n].(*types.Var)
			if !isVar || v.IsField() || v.Parent() == b.Types.Scope() || v.Pkg() != b.Types {
				return true
			}
			if isParam(fn, v) {
				overParams = true
				return true
			}
			b.report(at(n.Pos()), fmt.Sprintf("the key uses %s, which is not stored with the arguments", n.Name), "use the parameters behind the context only")
			good = false
		}
		return true
	})
	return good, overParams
}

func isParam(fn *Function, v *types.Var) bool {
	for _, p := range fn.Params {
		if p.Var == v {
			return true
		}
	}
	return false
}

// keyType accepts what has one unmistakable text: strings, integers, and types
// that print themselves.
func (b *builder) keyType(text directive.Text, tv types.TypeAndValue) bool {
	if !tv.IsValue() {
		b.report(text.Pos, fmt.Sprintf("key=%s is not a single value", text.Value), "write an expression with one value")
		return false
	}
	if tv.Value != nil && tv.Value.Kind() != constant.Unknown {
		b.report(text.Pos, fmt.Sprintf("key=%s is a constant, so it is the same for every call", text.Value), "write an expression over the parameters, as in key=order.ID")
		return false
	}
	if isTime(tv.Type) {
		b.report(text.Pos, fmt.Sprintf("key=%s is a time, whose text depends on where it is printed", text.Value),
			"use a text of your choice, as in key=at.UTC().Format(time.RFC3339Nano), or key=at.UnixNano()")
		return false
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	if ok && basic.Info()&(types.IsString|types.IsInteger) != 0 || printsItself(tv.Type) {
		return true
	}
	b.report(text.Pos, fmt.Sprintf("key=%s has type %s, which has no text of its own", text.Value, types.TypeString(tv.Type, types.RelativeTo(b.Types))),
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
