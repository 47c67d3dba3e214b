package load

import (
	"go/token"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/name"
	"golang.org/x/tools/go/packages"
)

// Diagnostics returns what keeps p from being read: files that do not parse,
// patterns that name nothing, mixed package names. Errors of the type checker
// are not among them, for they may have no bearing on what is generated: see
// [Package.TypeErrors].
func (p *Package) Diagnostics() []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, e := range p.errors {
		at := position(e.Pos)
		if e.Kind == packages.TypeError || isCompileError(e) || p.ours(at) {
			continue
		}
		what, fix := strings.TrimSpace(e.Msg), ""
		switch {
		case e.Kind == packages.ParseError:
			fix = "mend the syntax first"
		case strings.HasPrefix(what, "found packages "):
			what, fix = strings.TrimSuffix(what, " in "+p.Dir), "give all files of the directory one package name"
		}
		if at.Filename == "" {
			at.Filename = p.Dir
		}
		ds = append(ds, diagnostic.New(at, what, fix))
	}
	return ds
}

// TypeErrors returns what the type checker says about the user's text between
// from and to, which positions of p delimit.
func (p *Package) TypeErrors(from, to token.Pos) []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, e := range p.typeErrors {
		if e.Pos >= from && e.Pos <= to {
			ds = append(ds, diagnostic.New(p.Position(e.Pos), e.Msg, "mend it first"))
		}
	}
	return ds
}

// ours reports whether at is in generated text.
func (p *Package) ours(at token.Position) bool {
	if filepath.Base(at.Filename) == name.Output {
		return true
	}
	for _, f := range p.Files {
		if f.Path == at.Filename {
			return at.Line > p.Position(f.End).Line
		}
	}
	return false
}

// isCompileError reports whether e is what the compiler said when the go
// command made export data: the type checker says it again, better.
func isCompileError(e packages.Error) bool {
	return e.Kind == packages.ListError && strings.HasPrefix(e.Msg, "# ")
}

// position reads the "file:line:col", "file:line", "-" or "" of go/packages.
func position(s string) token.Position {
	if s == "" || s == "-" {
		return token.Position{}
	}
	file, col, ok := cutNumber(s)
	if !ok {
		return token.Position{Filename: s}
	}
	if file2, line, ok := cutNumber(file); ok {
		return token.Position{Filename: file2, Line: line, Column: col}
	}
	return token.Position{Filename: file, Line: col, Column: 1}
}

func cutNumber(s string) (string, int, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, 0, false
	}
	n, err := strconv.Atoi(s[i+1:])
	return s[:i], n, err == nil
}
