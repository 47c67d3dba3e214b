package flowcheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/flowgen/flowgen/internal/spelling"
)

const ignorePrefix = "//flow:ignore"

// An ignore is a comment that silences a rule. It applies to its own line if that line contains
// code, and otherwise to the next line. In the doc comment of a function, it applies to the whole
// function.
type ignore struct {
	pos, end token.Pos
	rule     Rule
	fault    string // mistake in the comment itself
	file     *token.File
	from, to int // first and last line to which the comment applies
	used     bool
}

type ignores struct {
	fset *token.FileSet
	list []*ignore
}

// cut reports whether a comment silences reports of rule at pos. It marks the comment as used.
func (s *ignores) cut(pos token.Pos, rule Rule) bool {
	cut := false
	for _, i := range s.list {
		file := s.fset.File(pos)
		if i.rule != rule || i.file != file {
			continue
		}
		if line := file.Line(pos); i.from <= line && line <= i.to {
			i.used, cut = true, true
		}
	}
	return cut
}

// read records the ignore comments of a file.
func (s *ignores) read(file *ast.File) {
	var code map[int]bool // whether a line contains code
	for _, group := range file.Comments {
		for _, c := range group.List {
			rest, ok := strings.CutPrefix(c.Text, ignorePrefix)
			if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
				continue
			}
			if code == nil {
				code = codeLines(s.fset, file)
			}
			s.list = append(s.list, s.parse(file, group, c, rest, code))
		}
	}
}

func (s *ignores) parse(file *ast.File, group *ast.CommentGroup, c *ast.Comment, rest string, code map[int]bool) *ignore {
	i := &ignore{pos: c.Pos(), end: c.End(), file: s.fset.File(c.Pos())}
	name, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
	i.rule = Rule(name)
	switch line := i.file.Line(c.Pos()); {
	case code[line]:
		i.from, i.to = line, line
	default:
		i.from = i.file.Line(group.End()) + 1
		i.to = i.from
	}
	for _, d := range file.Decls {
		if fn, isFunc := d.(*ast.FuncDecl); isFunc && fn.Doc == group {
			i.from, i.to = i.file.Line(fn.Pos()), i.file.Line(fn.End())
		}
	}
	switch {
	case name == "":
		i.fault = "names no rule: write " + ignorePrefix + " RULE reason"
	case !known(i.rule):
		i.fault = fmt.Sprintf("names %s, which is no rule", name)
		if near := spelling.Nearest(name, Names()); near != "" {
			i.fault += ": did you mean " + near + "?"
		}
	case strings.TrimSpace(reason) == "":
		i.fault = fmt.Sprintf("gives no reason: write why %s is wrong here", name)
	}
	if i.fault != "" {
		i.rule = "" // A faulty comment silences no rule.
	}
	return i
}

// codeLines returns the lines on which a node other than a comment begins or ends.
func codeLines(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := make(map[int]bool)
	f := fset.File(file.FileStart)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.File:
			return true
		case *ast.CommentGroup, *ast.Comment:
			return false
		case *ast.FuncDecl, *ast.GenDecl, *ast.Field, *ast.ValueSpec, *ast.TypeSpec: // The position of this node may be the position of a comment.
			return true
		}
		lines[f.Line(n.Pos())] = true
		if n.End().IsValid() && n.End() <= token.Pos(f.Base()+f.Size()) {
			lines[f.Line(n.End())] = true
		}
		return true
	})
	return lines
}

// judge reports the comments that are faulty or silence no report.
func (s *ignores) judge(report func(pos, end token.Pos, text string)) {
	for _, i := range s.list {
		switch {
		case i.fault != "":
			report(i.pos, i.end, ignorePrefix+" "+i.fault)
		case !i.used:
			report(i.pos, i.end, fmt.Sprintf("%s %s silences nothing: remove it", ignorePrefix, i.rule))
		}
	}
}

var ignoreRule = rule{name: "ignore"}
