// Package breaking compares a module with an earlier state of it and reports the changes that block
// runs in flight.
//
// breaking.go combines the parts; before.go finds the old state in manifests, in another directory
// or in a revision of git; accept.go reads the list of accepted changes.
package breaking
