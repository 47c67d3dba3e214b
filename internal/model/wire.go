package model

import (
	"fmt"
	"strings"
)

// wire sets the stored names of the parameters of fn that differ from their own names. Names that
// differ only in case are equal, because they cannot be distinguished when decoded.
func (b *builder) wire(fn *Function) {
	title := fmt.Sprintf("%s %s", fn.Directive.Kind, fn.Impl)
	for _, w := range fn.Directive.Wire {
		found := false
		for i := range fn.Params {
			if p := &fn.Params[i]; p.Name == w.Param {
				p.Wire, found = w.Stored, true
			}
		}
		if !found {
			b.report(w.Pos, fmt.Sprintf("wire=%s:%s: %s has no parameter %s", w.Param, w.Stored, title, w.Param),
				"write the name that the parameter has now before the colon")
		}
	}
	for i, p := range fn.Params {
		for _, other := range fn.Params[:i] {
			if strings.EqualFold(p.Wire, other.Wire) && len(fn.Directive.Wire) > 0 {
				b.report(fn.Directive.At("wire"), fmt.Sprintf("%s stores both %s and %s as %q", title, other.Name, p.Name, p.Wire),
					"give one of them another stored name")
			}
		}
	}
}
