package load

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// stubs returns contents for the files of the matching packages that contain only their imports.
// The go command compiles each of these packages to create its export data. The data is not needed,
// because load type-checks these packages itself, and compiling them takes two seconds after each
// change. The stubs contain nothing to compile. go/packages still passes the files on disk to the
// parser.
//
// [stubsHarm] detects packages that depend on the omitted declarations.
func stubs(dir string, patterns []string) map[string][]byte {
	if strings.Contains(os.Getenv("GOFLAGS"), "overlay") { // The overlay flag of the stubs would replace the overlay in GOFLAGS.
		return nil
	}
	contents := map[string][]byte{}
	for _, pattern := range patterns {
		at, below := strings.CutSuffix(filepath.ToSlash(pattern), "/...")
		switch {
		case strings.Contains(at, "..."), strings.HasSuffix(at, ".go"):
			continue
		case filepath.IsAbs(at):
		case at == ".", at == "..", strings.HasPrefix(at, "./"), strings.HasPrefix(at, "../"):
			at = filepath.Join(dir, at)
		default: // The pattern is an import path.
			continue
		}
		if !below {
			stubDirectory(at, contents)
			continue
		}
		_ = filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return nil
			case path != at && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata" || d.Name() == "vendor"):
				return fs.SkipDir
			}
			stubDirectory(path, contents)
			return nil
		})
	}
	return contents
}

// stubDirectory adds stubs for the files in a directory, unless the directory contains files of
// other languages.
func stubDirectory(dir string, contents map[string][]byte) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	own := map[string][]byte{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch filepath.Ext(path) {
		case ".c", ".cc", ".cpp", ".cxx", ".f", ".F", ".for", ".f90", ".m", ".s", ".S", ".sx", ".swig", ".swigcxx", ".syso":
			return
		case ".go":
		default:
			continue
		}
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return
		}
		text, ok := stub(src)
		if !ok {
			return
		}
		own[path] = text
	}
	for path, text := range own {
		contents[path] = text
	}
}

// stub returns the text of a file without declarations and with blank imports.
func stub(src []byte) (text []byte, ok bool) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ImportsOnly|parser.SkipObjectResolution)
	if err != nil {
		return nil, false
	}
	offset := func(pos token.Pos) int { return fset.Position(pos).Offset }
	var b bytes.Buffer
	last := 0
	for _, decl := range file.Decls {
		for _, spec := range decl.(*ast.GenDecl).Specs {
			imported, isImport := spec.(*ast.ImportSpec)
			if !isImport || imported.Path.Value == `"C"` {
				return nil, false
			}
			b.Write(src[last:offset(imported.Pos())])
			b.WriteString("_ ")
			last = offset(imported.Path.Pos())
		}
		b.Write(src[last:offset(decl.End())])
		last = offset(decl.End())
	}
	if len(file.Decls) == 0 {
		b.Write(src[:offset(file.Name.End())])
	}
	b.WriteByte('\n')
	return b.Bytes(), true
}

// stubsHarm reports whether a package in the import chain between matching packages does not
// compile. A possible cause is that the package imports a stub.
func stubsHarm(roots []*packages.Package) bool {
	initial := map[*packages.Package]bool{}
	for _, p := range roots {
		initial[p] = true
	}
	harm := false
	packages.Visit(roots, nil, func(p *packages.Package) {
		if initial[p] {
			return
		}
		for _, e := range p.Errors {
			harm = harm || e.Kind != packages.ListError || isCompileError(e)
		}
	})
	return harm
}
