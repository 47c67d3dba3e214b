package flowcheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/objectpath"

	"github.com/flowgen/flowgen/internal/testutil/depth"
)

// corpus contains the packages below testdata in import order. It also contains the third-party
// packages that they use and for which facts exist.
type corpus struct {
	packages []*packages.Package
}

var loadCorpus = sync.OnceValues(func() (*corpus, error) {
	all, err := loadAll()
	return all.only(func(p *packages.Package) bool { return !isOthers(p) }), err
})

// loadAll loads the corpora together with other modules, so that the imports of both are
// type-checked once.
var loadAll = sync.OnceValues(func() (*corpus, error) {
	patterns := []string{"./testdata/clean/...", "./testdata/seeded/...", "./testdata/more/...", "github.com/oklog/ulid/v2"}
	for _, module := range othersModules() {
		patterns = append(patterns, module+"/...")
	}
	return load(patterns...)
})

// othersModules returns the paths of other modules, below which no rule reports anything.
func othersModules() []string {
	modules := []string{"github.com/redis/go-redis/v9", "github.com/dave/jennifer", "github.com/google/go-cmp"}
	if depth.Full() {
		modules = append(modules, "golang.org/x/tools/go")
	}
	return modules
}

// isOthers reports whether p is a package of othersModules.
func isOthers(p *packages.Package) bool {
	return slices.ContainsFunc(othersModules(), func(module string) bool { return strings.HasPrefix(p.PkgPath+"/", module+"/") })
}

// only returns the packages of c for which keep returns true.
func (c *corpus) only(keep func(*packages.Package) bool) *corpus {
	if c == nil {
		return nil
	}
	kept := &corpus{}
	for _, p := range c.packages {
		if keep(p) {
			kept.packages = append(kept.packages, p)
		}
	}
	return kept
}

// load type-checks packages and their imports from source, without compiling them.
func load(patterns ...string) (*corpus, error) {
	cfg := &packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedTypes |
			packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule | packages.NeedDeps,
		Env: append(os.Environ(), "CGO_ENABLED=0"),
	}
	roots, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}
	c := &corpus{}
	done := make(map[*packages.Package]bool)
	var add func(*packages.Package)
	add = func(p *packages.Package) {
		if done[p] {
			return
		}
		done[p] = true
		for _, imported := range p.Imports {
			if slices.Contains(roots, imported) {
				add(imported)
			}
		}
		c.packages = append(c.packages, p)
	}
	for _, p := range roots {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %v", p.PkgPath, p.Errors)
		}
		add(p)
	}
	return c, nil
}

// factKey identifies an object. It is the same for each type check of the object.
type factKey struct {
	pkg  string
	path objectpath.Path
	t    reflect.Type
}

// facts contains the facts that the analyzers have exported.
type facts map[factKey]analysis.Fact

func (f facts) key(obj types.Object, fact analysis.Fact) (factKey, bool) {
	path, err := objectpath.For(obj)
	return factKey{obj.Pkg().Path(), path, reflect.TypeOf(fact)}, err == nil
}

// analyze applies all rules to a package and returns the reports in source order.
func (f facts) analyze(p *packages.Package, fset *token.FileSet, files []*ast.File) ([]analysis.Diagnostic, error) {
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
		Implicits: make(map[ast.Node]types.Object), Instances: make(map[*ast.Ident]types.Instance), Scopes: make(map[ast.Node]*types.Scope),
		Selections: make(map[*ast.SelectorExpr]*types.Selection), FileVersions: make(map[*ast.File]string),
	}
	conf := types.Config{Sizes: p.TypesSizes, Importer: importFunc(func(path string) (*types.Package, error) {
		if path == "unsafe" {
			return types.Unsafe, nil
		}
		if imported := p.Imports[path]; imported != nil {
			return imported.Types, nil
		}
		return nil, fmt.Errorf("%s does not import %s", p.PkgPath, path)
	})}
	pkg, err := conf.Check(p.PkgPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	var found []analysis.Diagnostic
	results := make(map[*analysis.Analyzer]any)
	pass := &analysis.Pass{
		Fset: fset, Files: files, Pkg: pkg, TypesInfo: info, TypesSizes: p.TypesSizes, ResultOf: results,
		Report: func(d analysis.Diagnostic) { found = append(found, d) },
		ImportObjectFact: func(obj types.Object, fact analysis.Fact) bool {
			key, ok := f.key(obj, fact)
			if !ok || f[key] == nil {
				return false
			}
			reflect.ValueOf(fact).Elem().Set(reflect.ValueOf(f[key]).Elem())
			return true
		},
		ExportObjectFact: func(obj types.Object, fact analysis.Fact) {
			if key, ok := f.key(obj, fact); ok {
				f[key] = fact
			}
		},
	}
	if p.Module != nil {
		pass.Module = &analysis.Module{Path: p.Module.Path}
	}
	for _, a := range append(append([]*analysis.Analyzer{solver}, Analyzers()...), Advice()...) {
		pass.Analyzer = a
		if results[a], err = a.Run(pass); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b analysis.Diagnostic) int { return int(a.Pos - b.Pos) })
	return found, nil
}

type importFunc func(string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// parse parses the files of a package. If r is not nil, it shuffles the files and the declarations
// in each file.
func parse(p *packages.Package, fset *token.FileSet, r *rand.Rand) ([]*ast.File, error) {
	var files []*ast.File
	for _, name := range p.CompiledGoFiles {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			src = shuffled(src, r)
		}
		f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if r != nil {
		r.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	}
	return files, nil
}

// shuffled returns src with its declarations in a random order. A declaration keeps the comments
// before it and on its last line.
func shuffled(src []byte, r *rand.Rand) []byte {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments)
	if err != nil {
		return src
	}
	lineEnd := func(pos token.Pos) int {
		offset := fset.Position(pos).Offset
		for offset < len(src) && src[offset] != '\n' {
			offset++
		}
		return min(offset+1, len(src))
	}
	begin := lineEnd(f.Name.End())
	var chunks [][]byte
	for _, d := range f.Decls {
		end := lineEnd(d.End() - 1)
		if g, isGen := d.(*ast.GenDecl); isGen && g.Tok == token.IMPORT {
			begin = end
			continue
		}
		if chunks == nil {
			chunks = append(chunks, src[:begin])
		}
		chunks = append(chunks, src[begin:end])
		begin = end
	}
	if chunks == nil {
		return src
	}
	decls := chunks[1:]
	r.Shuffle(len(decls), func(i, j int) { decls[i], decls[j] = decls[j], decls[i] })
	return slices.Concat(append(chunks, src[begin:])...)
}

// wanted is a report that a comment "// want `pattern` …" expects on its line. The line may also be
// relative to the comment, as in "// want above:1 `pattern`" and "// want below:1 `pattern`".
type wanted struct {
	pos     string // position in the form file:line
	pattern *regexp.Regexp
	met     bool
}

var near = regexp.MustCompile(`^(above|below):(\d+) `)

var patterns = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")

func wants(t *testing.T, fset *token.FileSet, files []*ast.File) []*wanted {
	t.Helper()
	var list []*wanted
	for _, f := range files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				_, rest, ok := strings.Cut(c.Text, "// want ")
				if !ok {
					continue
				}
				p := fset.Position(c.Pos())
				if m := near.FindStringSubmatch(rest); m != nil {
					n, _ := strconv.Atoi(m[2])
					if m[1] == "above" {
						n = -n
					}
					p.Line += n
				}
				for _, quoted := range patterns.FindAllString(rest, -1) {
					pattern, err := strconv.Unquote(quoted)
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, &wanted{pos: fmt.Sprintf("%s:%d", p.Filename, p.Line), pattern: regexp.MustCompile(pattern)})
				}
			}
		}
	}
	return list
}

// compare fails the test for each unexpected and each missing diagnostic. It returns the number of
// expected and the number of unexpected diagnostics.
func compare(t *testing.T, fset *token.FileSet, files []*ast.File, found []analysis.Diagnostic) (right, wrong int) {
	t.Helper()
	list := wants(t, fset, files)
	for _, d := range found {
		p := fset.Position(d.Pos)
		at := fmt.Sprintf("%s:%d", p.Filename, p.Line)
		i := slices.IndexFunc(list, func(w *wanted) bool { return !w.met && w.pos == at && w.pattern.MatchString(d.Message) })
		if i < 0 {
			wrong++
			t.Errorf("%s: unexpected report: %s", p, d.Message)
			continue
		}
		right++
		list[i].met = true
	}
	for _, w := range list {
		if !w.met {
			t.Errorf("%s: no report that matches %s", w.pos, w.pattern)
		}
	}
	return right, wrong
}
