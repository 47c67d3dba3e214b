package emit

import (
	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/client"
	"github.com/flowgen/flowgen/internal/load"
)

// Client returns the source of a client package. origin is a comment line that names the package
// for which the client was generated.
func Client(c *client.Package, origin string) ([]byte, error) {
	e := &emitter{model: c.Model, imports: newImports(c.Model), client: c}
	for id := range c.Locals {
		e.imports.taken[id] = true
	}
	f := jen.NewFilePathName(c.Path, c.Name)
	f.HeaderComment(load.Header)
	f.HeaderComment(origin)
	f.PackageComment("// Package " + c.Name + " starts runs of the workflows of package\n// " + c.Model.Path + " and talks to them,\n" +
		"// without linking it. Its types are stored as those of that package are.")
	f.Const().Id("_").Op("=").Add(e.qual(shimPath, "V1"))
	e.registered(f, c.Failures)
	for _, w := range c.Model.Workflows {
		f.Line()
		e.doc(f, &w.Function, nil)
		e.definition(f, w)
	}
	for _, c := range c.Copies {
		f.Line()
		text := jen.Null()
		for _, p := range c.Pieces {
			if p.Object != nil {
				text.Add(e.object(p.Object))
			} else {
				text.Op(p.Text)
			}
		}
		f.Add(text)
	}
	return e.render(f, c.Path)
}
