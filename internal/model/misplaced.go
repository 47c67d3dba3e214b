package model

import (
	"fmt"
	"go/ast"
	"go/token"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
)

// misplaced describes, for messages, where a comment is that belongs to no declaration.
func misplaced(p *load.Package, f *load.File, group *ast.CommentGroup, d directive.Directive) string {
	what := "//flow:" + string(d.Kind)
	if group.Pos() < f.AST.Package {
		return what + " is separated from the package clause by a blank line"
	}
	for _, decl := range f.AST.Decls {
		if decl.Pos() >= f.End || decl.Pos() < f.AST.Package {
			continue
		}
		if decl.Pos() <= group.Pos() && group.Pos() < decl.End() {
			return what + " is inside " + inside(decl)
		}
		if sameLine(p, decl.End(), group.Pos()) {
			return what + " is behind " + describe(decl) + ", not above it"
		}
	}
	if next := following(f, group); next != nil {
		return fmt.Sprintf("%s is separated from %s by a blank line or a comment", what, describe(next))
	}
	return what + " is above no declaration"
}

// fixMisplaced suggests a position for a misplaced directive.
func fixMisplaced(k directive.Kind) string {
	return "put it directly above " + home(k) + ", as part of its doc comment"
}

func inside(decl ast.Decl) string {
	if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
		return "the body of " + describe(decl)
	}
	return describe(decl)
}

func sameLine(p *load.Package, a, b token.Pos) bool {
	return a <= b && p.Position(a).Line == p.Position(b).Line
}

// following returns the first declaration after the comment, or nil if there is none.
func following(f *load.File, group *ast.CommentGroup) ast.Decl {
	for _, decl := range f.AST.Decls {
		if decl.Pos() > group.End() && decl.Pos() < f.End {
			return decl
		}
	}
	return nil
}
