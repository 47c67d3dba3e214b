// Command mutants breaks the engine on purpose, one guard at a time, and shows
// for each that some test notices.
//
// The table has what is broken: the rules F1 to L12 of the store contract in the stores that have code of their own
// for them, and the decisions of the engine that keep runs safe. A mutant is a text of
// one file and what stands in its place; it is given to the compiler as an overlay,
// so that the tree stays as it is. A mutant that all its tests let pass has
// survived: then a test is missing. One whose text is not there once, or that does
// not compile, is stale: then the table must be corrected.
//
// # Two proofs of each guard
//
//   - A guard of package protocol, by which memory and SQLite go, has a seeded bug in protocol/check, if the model checker has
//     that operation, and a behaviour of the conformance suite. The faulty stores in the tests of package storetest prove that
//     these behaviours fail, also on a store of a third party. Both take seconds, in every test run.
//   - A guard of a script of Redis or of the worker has a mutant here, and the test that it names. All of them take half an hour,
//     so make mutants runs them.
//
// Read mutant.go for what a mutant is, rules.go for what must be covered,
// campaign.go for how they are tried; memory.go and its neighbours are the table.
// make mutants writes the results into build/mutants.md.
package main
