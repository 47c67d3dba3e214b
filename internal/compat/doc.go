// Package compat compares two manifests and finds the changes that can block runs in flight.
//
// Begin with rows.go, which lists every kind of change with its class. The files step.go, order.go,
// declared.go and workflow.go find the changes; schema.go compares types.
package compat
