// Package client determines the contents of the client package of an annotated package. The
// contents are copied declarations, as pieces of the user's text.
//
// A client starts runs and communicates with them, and does not link the implementation. Therefore
// all declarations that its definitions, topics and errors refer to are copied (reach.go), provided
// that the copy has the same JSON encoding as the original. A declaration that needs more than its
// own text is not copied. If the package of the declaration has no directives, the client imports
// that package (imports.go). Otherwise the generator reports a diagnostic.
package client

import (
	"cmp"
	"context"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// File is the name of the only file of a client package.
const File = "flow_client.go"

const runtimePath = "github.com/flowgen/flowgen/runtime/"

// Package describes the client package for the package of Model.
type Package struct {
	Model *model.Package
	Path  string
	Name  string

	Failures []*model.Failure // errors that the client registers
	Copies   []Copy           // in the order of the output
	// Locals contains the names of copied declarations and the identifiers in their text. No import
	// may have one of these names.
	Locals map[string]bool

	copied map[symbol]bool
}

// Copy is the text of a copied declaration with its doc comment.
type Copy struct{ Pieces []Piece }

// Piece is text, or a reference to an object. The spelling of a reference depends on the file that
// contains it.
type Piece struct {
	Text   string
	Object types.Object // the named object; nil if the piece is text
}

// symbol identifies a package-level name. Unlike a types.Object, it is the same for every load of
// the package.
type symbol struct{ path, name string }

func symbolOf(obj types.Object) symbol {
	if obj.Pkg() == nil {
		return symbol{name: obj.Name()}
	}
	return symbol{obj.Pkg().Path(), obj.Name()}
}

// Has reports whether the client contains a declaration of obj.
func (p *Package) Has(obj types.Object) bool {
	return obj.Pkg() == p.Model.Types || p.copied[symbolOf(obj)]
}

// Source loads the package at an import path from its source.
type Source func(ctx context.Context, path string) (*load.Package, error)

// New determines the contents of the client package at path for the annotated package p. It returns
// diagnostics for declarations that cannot be part of the client, and an error if packages cannot
// be read.
func New(ctx context.Context, p *load.Package, m *model.Package, path, name string, source Source) (*Package, []diagnostic.Diagnostic, error) {
	imported := map[string]bool{}
	sources := map[string]*load.Package{p.Path: p}
	keep := map[any]bool{}
	for {
		b := &builder{
			Package: &Package{Model: m, Path: path, Name: name, Locals: map[string]bool{}, copied: map[symbol]bool{}},
			ctx:     ctx, own: p, sources: sources, source: source, imported: imported, methods: map[method]bool{}, keep: keep,
		}
		b.roots()
		for len(b.queue) > 0 && b.err == nil {
			next := b.queue[0]
			b.queue = b.queue[1:]
			b.copy(next)
		}
		b.unmet()
		if b.err != nil {
			return nil, nil, b.err
		}
		b.collisions()
		more, err := b.importInstead()
		if err != nil {
			return nil, nil, err
		}
		if more || b.grown {
			continue
		}
		b.arrange()
		return b.Package, diagnostic.Sorted(b.diagnostics()), nil
	}
}

// builder collects the contents of a client.
type builder struct {
	*Package
	ctx      context.Context
	own      *load.Package
	sources  map[string]*load.Package
	source   Source
	imported map[string]bool // packages of the module that the client imports
	// keep contains the fields and types that copied text needs completely. A key is the position
	// of an unexported field, or the symbol of a type whose unexported fields are all needed. grown
	// reports whether an entry was added after the type may have been copied.
	keep  map[any]bool
	grown bool

	queue    []item
	written  []written
	methods  map[method]bool // copied methods
	required []requirement
	faults   []fault
	err      error
}

// item is a declaration to copy.
type item struct {
	obj types.Object
	pos place // position of the reference to the declaration
}

// written is a copied declaration with the data that determines its position in the output.
type written struct {
	own  bool
	rank int
	of   token.Position // position of the type for constants and methods; for other declarations, their own position
	at   token.Position
	doc  []Piece // doc comment of a constant, whose keyword belongs to its block
	Copy
}

// place is a position in the source of a package.
type place struct {
	p   *load.Package
	pos token.Pos
}

func (p place) position() token.Position { return p.p.Position(p.pos) }

// fault is the reason why a declaration cannot be copied.
type fault struct {
	path string // package that the client imports instead
	at   token.Position
	what string
	fix  string
	// soft reports whether a copy would be stored correctly but would be of little use. The client
	// imports the package instead if possible.
	soft bool
}

func (b *builder) fault(path string, at place, what, fix string) {
	b.faults = append(b.faults, fault{path: path, at: at.position(), what: what, fix: fix})
}

// keeps records a field to be copied, or a type to be copied with all its fields.
func (b *builder) keeps(what any) {
	if !b.keep[what] {
		b.keep[what], b.grown = true, true
	}
}

func (b *builder) diagnostics() []diagnostic.Diagnostic {
	var ds []diagnostic.Diagnostic
	for _, f := range b.faults {
		if f.soft {
			continue
		}
		d := diagnostic.New(f.at, "the client cannot have "+f.what, f.fix)
		if !slices.Contains(ds, d) {
			ds = append(ds, d)
		}
	}
	return ds
}

// arrange sorts the copies in a fixed order: first variables, then types with their constants and
// methods. Constants from one declaration share a block.
func (b *builder) arrange() {
	slices.SortFunc(b.written, func(x, y written) int {
		if o := ownFirst(x.own, y.own); o != 0 {
			return o
		}
		if x.rank == rankVariable || y.rank == rankVariable {
			return cmp.Or(cmp.Compare(x.rank, y.rank), compare(x.at, y.at))
		}
		return cmp.Or(compare(x.of, y.of), cmp.Compare(x.rank, y.rank), compare(x.at, y.at))
	})
	for i := 0; i < len(b.written); i++ {
		first := b.written[i]
		var block []written
		for i < len(b.written) && first.rank == rankConstant && b.written[i].rank == rankConstant && b.written[i].of == first.of {
			block = append(block, b.written[i])
			i++
		}
		switch {
		case len(block) > 0:
			b.Copies = append(b.Copies, constantBlock(block))
			i--
		default:
			b.Copies = append(b.Copies, first.Copy)
		}
	}
}

// ownFirst orders the annotated package before other packages.
func ownFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

func compare(x, y token.Position) int {
	return cmp.Or(cmp.Compare(x.Filename, y.Filename), cmp.Compare(x.Offset, y.Offset))
}

func constantBlock(block []written) Copy {
	if len(block) == 1 {
		return Copy{append(slices.Clone(block[0].doc), append([]Piece{{Text: "const "}}, block[0].Pieces...)...)}
	}
	pieces := []Piece{{Text: "const (\n"}}
	for _, c := range block {
		pieces = append(append(append(pieces, c.doc...), c.Pieces...), Piece{Text: "\n"})
	}
	return Copy{append(pieces, Piece{Text: ")"})}
}

// collisions reports copied names that two packages declare, and copied names that are predeclared.
func (b *builder) collisions() {
	first := map[string]symbol{}
	for id := range b.generated() {
		first[id] = symbol{b.own.Path, id}
	}
	symbols := make([]symbol, 0, len(b.copied))
	for s := range b.copied {
		symbols = append(symbols, s)
	}
	slices.SortFunc(symbols, func(x, y symbol) int {
		own := ownFirst(x.path == b.own.Path, y.path == b.own.Path) // The annotated package comes first because a client cannot import it. Other packages may be importable.
		return cmp.Or(own, cmp.Compare(x.path, y.path), cmp.Compare(x.name, y.name))
	})
	for _, s := range symbols {
		p := b.sources[s.path]
		at := place{p, p.Types.Scope().Lookup(s.name).Pos()}
		if other, taken := first[s.name]; taken && other != s {
			b.fault(s.path, at, fmt.Sprintf("%s of package %s beside that of package %s", s.name, s.path, other.path), "rename one of them")
		}
		if types.Universe.Lookup(s.name) != nil {
			b.fault(s.path, at, s.name+", which is a predeclared name", "rename it")
		}
		first[s.name] = s
		b.Locals[s.name] = true
	}
}

// module reports whether pkg belongs to the main module, whose packages a client does not link.
func (b *builder) module(pkg *types.Package) bool {
	if pkg == nil || strings.HasPrefix(pkg.Path(), runtimePath) {
		return false
	}
	root := b.own.Module()
	return pkg.Path() == root || strings.HasPrefix(pkg.Path(), root+"/")
}

// read returns the source of a package of the module, or nil if the package cannot be read. It
// records the error in b.err.
func (b *builder) read(path string) *load.Package {
	if p := b.sources[path]; p != nil {
		return p
	}
	p, err := b.source(b.ctx, path)
	if err != nil {
		b.err = cmp.Or(b.err, err)
		return nil
	}
	b.sources[path] = p
	if p.Foreign != "" || onlyClient(p) {
		b.imported[path] = true
	}
	return p
}

// onlyClient reports whether p contains nothing but a generated client.
func onlyClient(p *load.Package) bool {
	return len(p.Files) == 1 && strings.HasSuffix(p.Files[0].Path, File)
}
