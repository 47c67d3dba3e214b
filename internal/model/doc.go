// Package model turns a loaded package into a complete and checked description of the code to
// generate: its steps, workflows and errors.
//
// [New] finds the directives and their declarations (attach.go), checks each annotated function
// (function.go, step.go, workflow.go, failure.go), and then checks properties of the whole package:
// names (collision.go), receivers (function.go), and initialization order (cycle.go). If there are
// no diagnostics, code can be emitted for the model and will compile.
package model
