// Package breaking finds the state of a module before a change and says what of the change
// blocks runs in flight.
//
// breaking.go puts together what the other packages do; before.go finds the old state, in
// manifests, in another directory, or in a revision of git; accept.go reads the list of
// changes that somebody accepts.
package breaking
