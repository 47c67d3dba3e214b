// Command mutants disables the guards of the engine one at a time, and verifies for each that a
// test fails.
//
// The table lists the mutants: the rules F1 to L12 of the store contract in the stores with code of
// their own for them, and the decisions of the engine that keep runs safe. A mutant replaces a text
// in one file. The compiler receives the mutated file as an overlay, so that the tree is not
// modified. A mutant whose tests all pass has survived, which means that a test is missing. A
// mutant whose text does not occur exactly once, or that does not compile, is stale, and the table
// must be corrected.
//
// # Two proofs of each guard
//
//   - A guard of package protocol, which the memory and SQLite stores use, has a seeded bug in
//     protocol/check, if the model checker covers the operation, and a behavior of the conformance
//     suite. The faulty stores in the tests of package storetest prove that these behaviors fail, even
//     for a third-party store. Both take seconds and are part of every test run.
//   - A guard of a Redis script or of the worker has a mutant here, and the named test. All of them
//     take half an hour, so make mutants runs them.
//
// Read mutant.go for the definition of a mutant, rules.go for the rules to cover, and campaign.go
// for the execution; memory.go and the files beside it contain the table. make mutants writes the
// results to build/mutants.md.
package main
