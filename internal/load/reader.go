package load

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/flowgen/flowgen/internal/name"
)

// workflowPath is the package that workflow code imports, contextName the name
// under which appended declarations refer to it.
const (
	workflowPath = "github.com/flowgen/flowgen/runtime/workflow"
	contextName  = "flowgenWorkflow"
)

const parserMode = parser.ParseComments | parser.AllErrors | parser.SkipObjectResolution

// reader parses the files that go/packages asks for and appends to them what
// flow_gen.go would declare. It is safe for concurrent use.
type reader struct {
	fset *token.FileSet
	disk disk

	mu     sync.Mutex
	dirs   map[string]*directory
	sizes  map[string]int // length of the user's text by path
	parsed map[string]bool
}

func newReader(overlay map[string][]byte) *reader {
	return &reader{disk: disk{overlay}, fset: token.NewFileSet(), dirs: make(map[string]*directory), sizes: make(map[string]int), parsed: make(map[string]bool)}
}

// parse is a packages.Config.ParseFile.
func (r *reader) parse(fset *token.FileSet, path string, src []byte) (*ast.File, error) {
	if text, ok := r.disk.under(path); ok {
		src = text
	}
	r.note(path, len(src))
	if filepath.Ext(path) != ".go" { // made by cgo
		return parser.ParseFile(fset, path, src, parserMode)
	}
	dir := r.directory(filepath.Dir(path))
	if filepath.Base(path) == name.Output && isGenerated(src) {
		return parser.ParseFile(fset, path, "package "+dir.packageName(src), parserMode)
	}
	appended := dir.declarations(path)
	if appended == "" {
		return parser.ParseFile(fset, path, src, parserMode)
	}
	file, err := parser.ParseFile(fset, path, slices.Concat(src, []byte("\n\n"), []byte(appended)), parserMode)
	if err != nil {
		return file, err
	}
	if dir.importsWorkflow {
		addImport(file, fset.File(file.FileStart).Pos(len(src)))
	}
	return file, nil
}

// addImport makes the workflow package known to the appended declarations.
func addImport(file *ast.File, pos token.Pos) {
	spec := &ast.ImportSpec{
		Name: &ast.Ident{NamePos: pos, Name: contextName},
		Path: &ast.BasicLit{ValuePos: pos, Kind: token.STRING, Value: strconv.Quote(workflowPath)},
	}
	decl := &ast.GenDecl{TokPos: pos, Tok: token.IMPORT, Specs: []ast.Spec{spec}}
	file.Imports = append(file.Imports, spec)
	file.Decls = slices.Insert(file.Decls, 0, ast.Decl(decl))
}

func (r *reader) note(path string, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parsed[path] = true
	r.sizes[path] = size
}

func (r *reader) directory(path string) *directory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dirs[path] == nil {
		r.dirs[path] = scan(r.disk, path)
	}
	return r.dirs[path]
}

// end returns where the user's text ends in file.
func (r *reader) end(path string, file *ast.File) token.Pos {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fset.File(file.FileStart).Pos(r.sizes[path])
}

func (r *reader) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.parsed))
}

// mentionsFlow is a quick look that finds every file with a directive or a
// near-miss.
func mentionsFlow(src []byte) bool {
	return bytes.Contains(bytes.ToLower(src), []byte("flow"))
}
