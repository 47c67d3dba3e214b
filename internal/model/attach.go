package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
)

// annotation is a declaration with the directives in its doc comment.
type annotation struct {
	node       ast.Node // *ast.File, *ast.FuncDecl, *ast.TypeSpec or *ast.ValueSpec
	directives []directive.Directive
	doc        *ast.CommentGroup
}

// attach finds all directives of the package. It reports misspelled and misplaced directives, and
// returns the others with the declarations to which they belong.
func (b *builder) attach() []annotation {
	var found []annotation
	for _, f := range slices.Concat(b.Files, b.Others) {
		docs := documented(f.AST)
		for _, group := range f.AST.Comments {
			if group.Pos() >= f.End {
				continue
			}
			directives := b.read(group)
			if len(directives) == 0 {
				continue
			}
			if node, ok := b.place(f, docs, group, directives); ok {
				found = append(found, annotation{node, directives, group})
			}
		}
	}
	return found
}

// read returns the directives of a comment and reports mistakes in their text. It omits directives
// of unsupported kinds, which were reported before.
func (b *builder) read(group *ast.CommentGroup) []directive.Directive {
	var ds []directive.Directive
	for _, c := range group.List {
		if p, ok := directive.NearMiss(c); ok {
			b.report(p.Pos, p.What, p.Fix)
		}
		if !directive.Is(c) {
			continue
		}
		d, ps := directive.Parse(c)
		b.problems(ps)
		switch d.Kind {
		case directive.Package, directive.Step, directive.Workflow, directive.Error, directive.Machine, directive.DAG:
			ds = append(ds, d)
		}
	}
	return ds
}

// place returns the declaration to which the directives of a comment apply. If there is none, place
// reports the reason and returns false.
func (b *builder) place(f *load.File, docs map[*ast.CommentGroup]ast.Node, group *ast.CommentGroup, ds []directive.Directive) (ast.Node, bool) {
	first := ds[0]
	node, ok := docs[group]
	if !ok {
		b.report(first.Pos, misplaced(b.Package, f, group, first), fixMisplaced(first.Kind))
		return nil, false
	}
	for _, d := range ds {
		if want := home(d.Kind); !belongs(d, node) {
			b.report(d.Pos, fmt.Sprintf("//flow:%s is on %s", d.Kind, describe(node)), "put it on "+want)
			return nil, false
		}
	}
	if f.Why != load.Compiled {
		b.report(first.Pos, describe(node)+" is "+string(f.Why), moves[f.Why])
		return nil, false
	}
	if group, ok := node.(*ast.GenDecl); ok {
		return b.onlySpec(group, first)
	}
	return node, true
}

// moves maps each reason why a file is not always compiled to a suggestion for directives in such a
// file.
var moves = map[load.Reason]string{
	load.Test:        "move it to a file that is no test",
	load.Constrained: "move it to a file that is always compiled, and call from there what differs",
	load.Cgo:         "move it to a file that does not import \"C\", and call from there what does",
	load.Version:     "move it to a file that is always compiled, and call from there what differs",
	load.Prose:       "move it to a file of the package itself",
	load.Excluded:    "move it to a file that is always compiled",
}

// onlySpec returns the declaration in a group that has a directive. It reports a mistake if the
// group has several declarations.
func (b *builder) onlySpec(decl *ast.GenDecl, d directive.Directive) (ast.Node, bool) {
	if len(decl.Specs) == 1 {
		return decl.Specs[0], true
	}
	b.report(d.Pos, fmt.Sprintf("//flow:%s is on a group of declarations", d.Kind), "put it on the one that it is for, inside the parentheses")
	return nil, false
}

// documented maps the doc comments of a file to their declarations.
func documented(file *ast.File) map[*ast.CommentGroup]ast.Node {
	docs := make(map[*ast.CommentGroup]ast.Node)
	add := func(doc *ast.CommentGroup, node ast.Node) {
		if doc != nil {
			docs[doc] = node
		}
	}
	add(file.Doc, file)
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			add(decl.Doc, decl)
		case *ast.GenDecl:
			add(decl.Doc, decl)
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Doc, spec)
				case *ast.ValueSpec:
					add(spec.Doc, spec)
				case *ast.ImportSpec:
					add(spec.Doc, spec)
				}
			}
		}
	}
	return docs
}

// home describes, for messages, the declarations that accept a directive.
func home(k directive.Kind) string {
	switch k {
	case directive.Package:
		return "the package clause"
	case directive.Error:
		return "an error type or a variable that holds an error"
	case directive.Workflow:
		return "a function"
	case directive.Machine, directive.DAG:
		return "a struct type"
	}
	return "a function or method"
}

func belongs(d directive.Directive, node ast.Node) bool {
	k := d.Kind
	switch node := node.(type) {
	case *ast.File:
		return k == directive.Package || len(d.Errors) > 0
	case *ast.FuncDecl:
		return k == directive.Step || k == directive.Workflow
	case *ast.TypeSpec:
		return k == directive.Error || structKind(k)
	case *ast.ValueSpec:
		return k == directive.Error
	case *ast.GenDecl:
		return k == directive.Error && (node.Tok == token.TYPE || node.Tok == token.VAR) || structKind(k) && node.Tok == token.TYPE
	}
	return false
}

// structKind reports whether a directive applies to structs.
func structKind(k directive.Kind) bool { return k == directive.Machine || k == directive.DAG }

func describe(node ast.Node) string {
	switch node := node.(type) {
	case *ast.File:
		return "the package clause"
	case *ast.FuncDecl:
		if node.Recv != nil {
			return "method " + node.Name.Name
		}
		return "function " + node.Name.Name
	case *ast.TypeSpec:
		return "type " + node.Name.Name
	case *ast.ValueSpec:
		return "variable " + node.Names[0].Name
	case *ast.GenDecl:
		if len(node.Specs) == 1 && node.Tok != token.CONST && node.Tok != token.IMPORT {
			return describe(node.Specs[0])
		}
		if node.Tok == token.CONST {
			return "a constant"
		}
		if node.Tok == token.IMPORT {
			return "an import"
		}
	}
	return "a declaration"
}
