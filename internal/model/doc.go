// Package model turns a loaded package into a description of the code to generate: its
// steps, workflows and errors, checked in every respect.
//
// [New] finds the directives and their declarations (attach.go), checks the
// annotated functions one by one (function.go, step.go, workflow.go,
// failure.go), and then what only shows together: names (collision.go),
// receivers (receiver.go), initialization order (cycle.go). Either there are
// diagnostics, or the model can be emitted and will compile.
package model
