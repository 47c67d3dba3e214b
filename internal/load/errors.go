package load

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/name"
	"golang.org/x/tools/go/packages"
)

// Diagnostics returns the errors that prevent p from being read, such as files that do not parse,
// patterns without packages, and mixed package names. It omits type errors, which may not matter
// for the generated code. [Package.TypeErrors] returns them.
func (p *Package) Diagnostics() []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, e := range p.errors {
		at := position(e.Pos)
		if e.Kind == packages.TypeError || isCompileError(e) || p.ours(at) || isEmbedError(e) {
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

// TypeErrors returns the type errors in the user's text of p between the positions from and to.
func (p *Package) TypeErrors(from, to token.Pos) []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, e := range p.typeErrors {
		if e.Pos >= from && e.Pos <= to {
			ds = append(ds, diagnostic.New(p.Position(e.Pos), e.Msg, "mend it first"))
		}
	}
	return ds
}

// ImportError returns the reason why the import of spec cannot be read. It returns false unless the
// go command reports that no required module provides the package, or that the package does not
// exist.
func (p *Package) ImportError(spec *ast.ImportSpec) (diagnostic.Diagnostic, bool) {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil || p.imports[path] == nil {
		return diagnostic.Diagnostic{}, false
	}
	for _, e := range p.imports[path].Errors {
		if e.Kind != packages.ListError || isCompileError(e) {
			continue
		}
		what, command, ok := strings.Cut(strings.TrimSpace(e.Msg), "; to add it:")
		fix := "mend the import first"
		if ok {
			fix = "run " + strings.TrimSpace(command)
		}
		return diagnostic.New(p.Position(spec.Pos()), what, fix), true
	}
	return diagnostic.Diagnostic{}, false
}

// ours reports whether a position is in text that load appended.
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

// isCompileError reports whether e is a compiler error from the creation of export data. Such an
// error is redundant, because the type checker reports the same error with a better text.
func isCompileError(e packages.Error) bool {
	return e.Kind == packages.ListError && strings.HasPrefix(e.Msg, "# ")
}

// isEmbedError reports whether e concerns a //go:embed line. Such an error is harmless, because
// another generator may create the embedded file later and its content does not matter to the
// types.
func isEmbedError(e packages.Error) bool {
	return e.Kind == packages.ListError && strings.HasPrefix(e.Msg, "pattern ") && position(e.Pos).Line > 0
}

// position parses a position in the forms of go/packages: "file:line:col", "file:line", "-" and "".
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
