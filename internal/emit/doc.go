// Package emit writes the flow_gen.go of a package from its model.
//
// The output refers to the runtime only through package shim and the types of package workflow. It
// depends only on the model: the same model yields the same bytes, formatted by gofmt. Invented
// identifiers never collide with those of the user: they differ from all package-level names, and
// an import that has the name of a parameter is renamed.
package emit
