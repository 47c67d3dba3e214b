// Package compat compares two manifests: what of the change between them can block runs
// in flight.
//
// Begin with rows.go, which has every kind of change with its class. step.go, order.go,
// declared.go and workflow.go find them; schema.go compares types.
package compat
