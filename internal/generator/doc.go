// Package generator is the work of the flowgen command without its flags: load
// packages, model them, and bring every flow_gen.go up to date, or say which
// are not.
package generator
