package load

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/name"
	"golang.org/x/tools/go/packages"
)

// Reason describes why no code can be generated for a file.
type Reason string

// The reasons. Compiled is the absence of one.
const (
	Compiled    Reason = "" // the file is compiled, so code can be generated
	Test        Reason = "in a test file"
	Constrained Reason = "in a file with build constraints"
	Cgo         Reason = "in a file that imports \"C\""
	Version     Reason = "in a file for another version of Go"
	Prose       Reason = "in a file of package documentation, which is never compiled"
	Excluded    Reason = "in a file that is not compiled"
)

// readOthers parses the files of a directory that are not compiled. It skips files of other
// packages, such as external tests and tools with a build constraint. It also skips files that
// cannot be parsed, because the go command ignores them.
func readOthers(fset *token.FileSet, files disk, p *packages.Package, compiled map[string]bool) ([]*File, error) {
	names, err := files.goFiles(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("list files of package %s: %w", p.PkgPath, err)
	}
	var others []*File
	for _, path := range names {
		base := filepath.Base(path)
		if base == name.Output || compiled[path] || strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
			continue
		}
		text, err := files.read(path)
		if err != nil {
			continue
		}
		file, err := parser.ParseFile(fset, path, text, parserMode)
		if err != nil {
			continue
		}
		others = append(others, &File{Path: path, AST: file, End: file.FileEnd, Why: why(path, file)})
	}
	return others, nil
}

func why(path string, file *ast.File) Reason {
	switch {
	case strings.HasSuffix(path, "_test.go"):
		return Test
	case constrained(path, file):
		return Constrained
	case file.Name.Name == "documentation":
		return Prose
	case importsPath(file, "C"):
		return Cgo
	case len(buildLines(file)) > 0:
		return Version
	}
	return Excluded
}

func importsPath(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		p, err := strconv.Unquote(spec.Path.Value)
		return err == nil && p == path
	})
}

// constrained reports whether a file is compiled only on some platforms or with some build tags. It
// ignores constraints on the Go version.
func constrained(path string, file *ast.File) bool {
	return platformName(filepath.Base(path)) || constraintLine(file)
}

// platformName reports whether a file name restricts its file to a platform. The function matches
// the name against a platform that does not exist.
func platformName(base string) bool {
	nowhere := build.Context{
		GOOS: "nowhere", GOARCH: "nowhere", Compiler: "gc", CgoEnabled: true,
		OpenFile: func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package p\n")), nil },
	}
	match, err := nowhere.MatchFile("", base)
	return err == nil && !match
}

func constraintLine(file *ast.File) bool {
	return slices.ContainsFunc(buildLines(file), func(expr constraint.Expr) bool { return !versionOnly(expr) })
}

// buildLines returns the //go:build lines of a file.
func buildLines(file *ast.File) []constraint.Expr {
	var exprs []constraint.Expr
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			if expr, err := constraint.Parse(c.Text); err == nil {
				exprs = append(exprs, expr)
			}
		}
	}
	return exprs
}

func versionOnly(expr constraint.Expr) bool {
	switch e := expr.(type) {
	case *constraint.TagExpr:
		return strings.HasPrefix(e.Tag, "go1")
	case *constraint.AndExpr:
		return versionOnly(e.X) && versionOnly(e.Y)
	case *constraint.OrExpr:
		return versionOnly(e.X) && versionOnly(e.Y)
	}
	return false
}
