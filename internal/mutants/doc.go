// Command mutants breaks the engine on purpose, one guard at a time, and shows
// for each that some test notices.
//
// The table says what is broken: the rules F1 to K3 of the store contract in each
// store, and the decisions of the engine that keep runs safe. A mutant is a text of
// one file and what stands in its place; it is given to the compiler as an overlay,
// so that the tree stays as it is. A mutant that all its tests let pass has
// survived: then a test is missing. One whose text is not there once, or that does
// not compile, is stale: then the table must be corrected.
//
// Read mutant.go for what a mutant is, rules.go for what must be covered,
// campaign.go for how they are tried; memory.go and its neighbours are the table.
// docs/mutants.md is written by this program.
package main
