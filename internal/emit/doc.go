// Package emit writes the flow_gen.go of a package from its model.
//
// The output refers to the runtime through package shim alone, plus the types of
// package workflow. It depends on nothing but the model: the same model gives
// the same bytes, in gofmt's form. Identifiers that have to be invented give
// way to the user's: package-level names are avoided everywhere, and an import
// that shares its name with a parameter takes another one.
package emit
