package load

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// directory contains the declarations of the generated file of a directory. They are derived from
// the syntax of the other files, because the generated file may be stale or missing.
type directory struct {
	name            string // package name
	importsWorkflow bool
	appended        map[string]string // text to append to each file, by path
}

// scan reads the files of a package. It ignores unreadable files, because the go command reports
// them.
func scan(files disk, path string) *directory {
	d := &directory{appended: make(map[string]string)}
	names, err := files.goFiles(path)
	if err != nil {
		return d
	}
	var sources []*source
	for _, file := range names {
		base := filepath.Base(file)
		if base == name.Output || strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "_") || strings.HasPrefix(base, ".") {
			continue
		}
		s, err := readSource(files, file)
		if err != nil {
			continue
		}
		if constrained(file, s.file) {
			continue
		}
		if d.name == "" {
			d.name = s.file.Name.Name
		}
		d.importsWorkflow = d.importsWorkflow || s.imports(workflowPath)
		sources = append(sources, s)
	}
	d.derive(sources)
	return d
}

// derive computes the text to append to each of the sources.
func (d *directory) derive(sources []*source) {
	w := writer{context: "any", register: "Register", steps: "Steps", graphs: map[string]*graphSource{}, machines: map[string]*machine{}}
	if d.importsWorkflow {
		w.context = contextName + ".Context"
	}
	for _, s := range sources {
		s.annotated(func(_ *ast.FuncDecl, dir directive.Directive) { w.rename(dir) })
		w.findMachines(s)
	}
	for _, s := range sources {
		w.findGraphs(s)
	}
	for _, s := range sources {
		w.findConditions(s)
	}
	first := ""
	for _, s := range sources {
		text := w.declarations(s)
		if text == "" {
			continue
		}
		if first == "" {
			first = s.path
		}
		d.appended[s.path] = text
	}
	for _, id := range slices.Sorted(maps.Keys(w.graphs)) {
		path, text := w.graphs[id].declare(&w)
		d.appended[path] += text
		first = cmp.Or(first, path)
	}
	if first != "" {
		d.appended[first] += w.packageLevel()
	}
}

func (d *directory) declarations(path string) string { return d.appended[path] }

// packageName returns the name of the package. If the directory has none, it returns the name in
// the package clause of src.
func (d *directory) packageName(src []byte) string {
	if d.name != "" {
		return d.name
	}
	if file, err := parser.ParseFile(token.NewFileSet(), "", src, parser.PackageClauseOnly); err == nil {
		return file.Name.Name
	}
	return "_"
}

// source is a file with its text.
type source struct {
	path string
	text []byte
	fset *token.FileSet
	file *ast.File
}

func readSource(files disk, path string) (*source, error) {
	text, err := files.read(path)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, text: text, fset: token.NewFileSet()}
	m := parserMode
	if !mentionsFlow(text) {
		m = parser.ImportsOnly | parser.ParseComments
	}
	s.file, err = parser.ParseFile(s.fset, path, text, m)
	return s, err
}

func (s *source) imports(path string) bool { return importsPath(s.file, path) }

// annotated calls f for every directive in the file. For a directive on the package clause, the
// function is nil.
func (s *source) annotated(f func(*ast.FuncDecl, directive.Directive)) {
	visit := func(decl *ast.FuncDecl, doc *ast.CommentGroup) {
		if doc == nil {
			return
		}
		for _, c := range doc.List {
			if directive.Is(c) {
				d, _ := directive.Parse(c)
				f(decl, d)
			}
		}
	}
	visit(nil, s.file.Doc)
	for _, decl := range s.file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			visit(fn, fn.Doc)
		}
	}
}

func (s *source) slice(from, to token.Pos) string {
	f := s.fset.File(s.file.FileStart)
	return string(s.text[f.Offset(from):f.Offset(to)])
}
