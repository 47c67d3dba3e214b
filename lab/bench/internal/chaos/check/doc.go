// Package check decides whether a fleet under disturbance has kept its promises. It compares the
// final contents of the store, the records written by steps, and the orders given to runs. It
// changes nothing and makes no requests.
//
// Reading order: evidence.go, check.go; then history.go (the contents of a log), steps.go, runs.go
// and dump.go.
package check
