// Package emit writes the flow_gen.go of a package from its model.
//
// The output refers to the runtime only through package shim and the types of package workflow. It
// depends only on the model. The same model yields the same bytes, formatted by gofmt. Generated
// identifiers never collide with identifiers of the user. They differ from all package-level names,
// and emit renames an import that has the name of a parameter.
package emit

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/flowgen/flowgen/internal/client"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// Source returns the text of flow_gen.go for p. The model must have no diagnostics and must not be
// empty.
func Source(p *model.Package) ([]byte, error) {
	e := newEmitter(p)
	f := jen.NewFilePathName(p.Path, p.Name)
	f.HeaderComment(load.Header)
	f.Const().Id("_").Op("=").Add(e.qual(shimPath, "V1"))
	e.registered(f, p.Failures)
	if len(p.Steps) > 0 {
		e.stepsVar(f)
	}
	if len(p.Steps)+len(p.Workflows) > 0 {
		e.register(f)
	}
	for _, w := range p.Workflows {
		if w.Graph != nil {
			e.graph(f, w)
			continue
		}
		e.workflow(f, w)
	}
	for _, s := range p.Steps {
		e.step(f, s)
	}
	return e.render(f, p.Path)
}

// render declares the imports and returns the source of f as the file of the package at path.
func (e *emitter) render(f *jen.File, path string) ([]byte, error) {
	e.imports.declare(f)
	var b bytes.Buffer
	if err := f.Render(&b); err != nil {
		// The error of jennifer ends with the whole source. Remove it.
		text, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("render generated code of package %s: %s", path, text)
	}
	source, err := groupImports(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("format generated code of package %s: %w", path, err)
	}
	return source, nil
}

// emitter contains the state shared by the declarations of one file.
type emitter struct {
	model   *model.Package
	imports *imports
	// parameter names of the receivers in Register
	receivers map[*model.Receiver]string
	// parameter names of the dependencies in Register
	dependencies map[*model.Dependency]string
	client       *client.Package // the client package that is being written; nil if the output is flow_gen.go
}

func newEmitter(p *model.Package) *emitter {
	e := &emitter{model: p, imports: newImports(p), receivers: make(map[*model.Receiver]string), dependencies: make(map[*model.Dependency]string)}
	e.nameReceivers()
	e.nameDependencies()
	return e
}

// registered writes the calls that register errors under their stored names.
func (e *emitter) registered(f *jen.File, failures []*model.Failure) {
	if len(failures)+len(e.model.Foreign) == 0 {
		return
	}
	f.Line()
	f.Func().Id("init").Params().BlockFunc(func(g *jen.Group) {
		for _, failure := range failures {
			if failure.Sentinel != nil {
				g.Add(e.qual(shimPath, "RegisterSentinel")).Call(jen.Lit(failure.Stored), e.object(failure.Sentinel))
			} else {
				g.Add(e.qual(shimPath, "RegisterError")).Types(e.typ(failure.Type)).Call(jen.Lit(failure.Stored))
			}
		}
		for _, foreign := range e.model.Foreign {
			g.Add(e.qual(shimPath, "RegisterSentinel")).Call(jen.Lit(foreign.Stored), e.object(foreign.Sentinel))
		}
	})
}

// local returns an unused identifier. It is base, or a variant of base if the package or taken
// contains base.
func (e *emitter) local(base string, taken ...string) string {
	return free(base, e.model.Declared, taken)
}
