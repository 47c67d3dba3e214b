// Package check decides whether a fleet that was harmed has kept its promises,
// from what the store holds at the end, what the steps have recorded themselves,
// and what was asked of the runs. It changes nothing and asks nobody.
//
// Reading order: evidence.go, check.go; then history.go (what a log says),
// steps.go, runs.go and dump.go.
package check
