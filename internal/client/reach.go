package client

import (
	"go/types"
	"slices"
	"strings"
)

// reach copies or imports all named types in t.
func (b *builder) reach(t types.Type, at place) {
	switch t := t.(type) {
	case *types.Named:
		b.need(t.Obj(), at)
		b.reachAll(t.TypeArgs(), at)
	case *types.Alias:
		b.need(t.Obj(), at)
		b.reachAll(t.TypeArgs(), at)
	case *types.Map:
		b.reach(t.Key(), at)
		b.reach(t.Elem(), at)
	case *types.Struct:
		for f := range t.Fields() {
			b.reach(f.Type(), at)
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			b.reach(v.Type(), at)
		}
		for v := range t.Results().Variables() {
			b.reach(v.Type(), at)
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			b.reach(m.Signature(), at)
		}
		for e := range t.EmbeddedTypes() {
			b.reach(e, at)
		}
	case interface{ Elem() types.Type }:
		b.reach(t.Elem(), at)
	}
}

func (b *builder) reachAll(list *types.TypeList, at place) {
	for t := range list.Types() {
		b.reach(t, at)
	}
}

// need adds a package-level name to the client unless the client can import it.
func (b *builder) need(obj types.Object, at place) {
	pkg := obj.Pkg()
	if pkg == nil {
		return
	}
	if !b.module(pkg) {
		return // The client imports packages of other modules like any other package.
	}
	if pkg.Path() != b.own.Path && !b.imported[pkg.Path()] && b.read(pkg.Path()) == nil {
		return
	}
	if b.imported[pkg.Path()] {
		b.visible(obj, at)
		return
	}
	if _, ok := b.generated()[obj.Name()]; ok && pkg.Path() == b.own.Path {
		return
	}
	if !b.copied[symbolOf(obj)] {
		b.copied[symbolOf(obj)] = true
		b.queue = append(b.queue, item{b.sources[pkg.Path()].Types.Scope().Lookup(obj.Name()), at})
	}
}

// visible reports a diagnostic if the client cannot refer to a name in an imported package.
func (b *builder) visible(obj types.Object, at place) {
	switch path := obj.Pkg().Path(); {
	case !obj.Exported():
		b.fault(b.own.Path, at, obj.Name()+" of package "+path+", which is not exported", "export it")
	case !visibleFrom(path, b.Path):
		b.fault(b.own.Path, at, obj.Name()+" of package "+path+", which it may not import", "put the client, or that package, elsewhere")
	}
}

// visibleFrom reports whether the rule for internal directories allows the package from to import
// path.
func visibleFrom(path, from string) bool {
	elements := strings.Split(path, "/")
	for i, element := range slices.Backward(elements) {
		if element == "internal" {
			parent := strings.Join(slices.Clone(elements[:i]), "/")
			return parent == "" || from == parent || strings.HasPrefix(from, parent+"/")
		}
	}
	return true
}
