package model

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/load"
)

// wellKnown lists sentinels of standard packages that the runtime does not register because it does
// not import these packages. Code generated for a package that imports them registers the
// sentinels.
var wellKnown = map[string][]string{
	"database/sql": {"ErrConnDone", "ErrNoRows", "ErrTxDone"},
	"net":          {"ErrClosed"},
	"net/http":     {"ErrHandlerTimeout", "ErrNoCookie", "ErrServerClosed"},
	"os/exec":      {"ErrNotFound", "ErrWaitDelay"},
}

// Foreign is a sentinel of another package that callers can match after a durable call. Its stored
// name contains its package, so all packages that register it use the same name.
type Foreign struct {
	Stored   string
	Sentinel types.Object
}

// foreign adds the sentinels that a //flow:error directive on the package clause lists.
func (b *builder) foreign(file *ast.File, ds []directive.Directive) {
	for _, d := range ds {
		for _, ref := range d.Errors {
			obj := b.resolve(file.Package, "//flow:error ", ref)
			switch obj := obj.(type) {
			case nil: // resolve has reported the mistake
			case *types.Var:
				switch {
				case ref.Pointer || !isError(obj.Type()):
					b.report(ref.Pos, fmt.Sprintf("//flow:error %s is not an error", ref), "name a variable that holds an error")
				case obj.Pkg() == b.Types:
					b.report(ref.Pos, fmt.Sprintf("//flow:error %s is declared in this package", ref), "put the directive on the variable")
				default:
					b.addForeign(obj)
				}
			default:
				b.report(ref.Pos, fmt.Sprintf("//flow:error %s is not a variable", ref),
					"name a variable that holds an error; types of other packages need no directive if all their fields are exported")
			}
		}
	}
}

func (b *builder) addForeign(obj types.Object) {
	f := Foreign{Stored: obj.Pkg().Path() + "." + obj.Name(), Sentinel: obj}
	if !slices.Contains(b.model.Foreign, f) {
		b.model.Foreign = append(b.model.Foreign, f)
		slices.SortFunc(b.model.Foreign, func(x, y Foreign) int { return cmp.Compare(x.Stored, y.Stored) })
	}
}

// known adds the sentinels in wellKnown whose packages are imported.
func (b *builder) known() {
	if b.model.Empty() {
		return
	}
	imported := make(map[string]bool)
	for _, f := range b.Files {
		for _, spec := range f.AST.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && f.Why == load.Compiled && spec.Pos() < f.End {
				imported[path] = true
			}
		}
	}
	for _, p := range b.Types.Imports() {
		if !imported[p.Path()] {
			continue
		}
		for _, name := range wellKnown[p.Path()] {
			if obj := p.Scope().Lookup(name); obj != nil {
				b.addForeign(obj)
			}
		}
	}
}
