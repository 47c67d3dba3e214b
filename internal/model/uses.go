package model

import (
	"fmt"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/spelling"
)

// limitPath is the package that declares limits.
const limitPath = "github.com/flowgen/flowgen/runtime/limit"

// uses returns the limits that fn uses, and reports mistakes. A limit that is spread by its key
// cannot be combined with other limits.
func (b *builder) uses(fn *Function) (uses []Use) {
	for _, u := range fn.Directive.Uses {
		if use, ok := b.use(fn, u); ok {
			uses = append(uses, use)
		}
	}
	b.keptApart(fn, uses)
	return uses
}

func (b *builder) use(fn *Function, u directive.Use) (Use, bool) {
	obj := b.limitNamed(fn.pos, u.Limit)
	if obj == nil {
		return Use{}, false
	}
	use := Use{Limit: obj, Weight: u.Weight}
	named, _ := types.Unalias(obj.Type()).(*types.Named)
	switch {
	case isLimit(named, "Limit") && u.Key.Value == "":
		return use, true
	case isLimit(named, "Limit"):
		b.report(u.Key.Pos, fmt.Sprintf("uses=%s(%s): the limit has no keys", u.Limit, u.Key.Value), "write uses="+u.Limit.String()+", or declare it with limit.NewKeyed")
		return use, false
	case isLimit(named, "Keyed") && u.Key.Value == "":
		b.report(u.Limit.Pos, fmt.Sprintf("uses=%s: the limit has a part for each key", u.Limit), "say of which key, as in uses="+u.Limit.String()+"(order.Customer)")
		return use, false
	case isLimit(named, "Keyed"):
		use.Key = b.useKey(fn, u, named.TypeArgs().At(0))
		return use, use.Key != nil
	}
	b.report(u.Limit.Pos, fmt.Sprintf("uses=%s is not a limit", u.Limit), "name a variable that is declared with limit.New, limit.NewKeyed or limit.NewLocal")
	return use, false
}

func isLimit(named *types.Named, name string) bool {
	return named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == limitPath && named.Obj().Name() == name
}

// limitNamed returns the variable that ref names in the file at pos. If there is none, limitNamed
// reports the mistake and returns nil.
func (b *builder) limitNamed(pos token.Pos, ref directive.Reference) types.Object {
	scope, where := b.Types.Scope(), "this package"
	if ref.Qualifier != "" {
		file := b.Types.Scope().Innermost(pos)
		for file != nil && file.Parent() != b.Types.Scope() {
			file = file.Parent()
		}
		var imported *types.PkgName
		if file != nil {
			_, obj := file.LookupParent(ref.Qualifier, 0)
			imported, _ = obj.(*types.PkgName)
		}
		if imported == nil {
			b.report(ref.Pos, fmt.Sprintf("uses=%s: this file imports no %s", ref, ref.Qualifier), "import it, or declare the limit in this package")
			return nil
		}
		scope, where = imported.Imported().Scope(), "package "+imported.Imported().Path()
	}
	obj := scope.Lookup(ref.Name)
	if v, ok := obj.(*types.Var); ok && (ref.Qualifier == "" || v.Exported()) {
		return v
	}
	fix := "declare it: var " + ref.Name + " = limit.New(\"name\", limit.Config{AtOnce: 4})"
	var limits []string
	for _, n := range scope.Names() {
		named, _ := types.Unalias(scope.Lookup(n).Type()).(*types.Named)
		if isLimit(named, "Limit") || isLimit(named, "Keyed") {
			limits = append(limits, n)
		}
	}
	if near := spelling.Nearest(ref.Name, limits); near != "" {
		fix = "did you mean " + near + "?"
	}
	b.report(ref.Pos, fmt.Sprintf("uses=%s: there is no limit %s in %s", ref, ref.Name, where), fix)
	return nil
}

// useKey returns the key of a limit, checked in the scope of fn's parameters. The key must have the
// key type of the limit.
func (b *builder) useKey(fn *Function, u directive.Use, want types.Type) *Key {
	text := u.Key
	k, _ := b.expression(fn, text, "the key", func(pos token.Pos, what string) {
		b.report(pos, fmt.Sprintf("uses=%s(%s): the key %s", u.Limit, text.Value, what), "write an expression over the parameters, as in uses="+u.Limit.String()+"(order.Customer)")
	})
	if k == nil {
		return nil
	}
	tv := k.Info.Types[k.Expr]
	if !tv.IsValue() || !types.AssignableTo(tv.Type, want) {
		got := "not a value"
		if tv.IsValue() {
			got = types.TypeString(tv.Type, types.RelativeTo(b.Types))
		}
		b.report(text.Pos, fmt.Sprintf("uses=%s(%s): its key is a %s, and this is %s", u.Limit, text.Value, types.TypeString(want, types.RelativeTo(b.Types)), got),
			"convert it, as in uses="+u.Limit.String()+"(strconv.Itoa(order.Customer))")
		return nil
	}
	return k
}
