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
// # Mutants, faulty stores and seeded bugs
//
// Three collections break guards, each where the others cannot.
//
//   - A mutant shows that some test notices when a guard of the source is gone, wherever
//     the guard stands: a third of them are in the store in Redis, most of these in its
//     scripts, and two fifths in the engine, where no store is at fault. All of them take
//     half an hour, so they run when somebody asks for them.
//   - A faulty store of package storetest, in its tests, shows that a behaviour of the
//     exported suite fails on a store that is not made on package protocol, as that of a
//     third party may be. Seven in ten of them fail in a behaviour by which no mutant of
//     the kernel or of memory is killed. They take less than a minute in every test run,
//     so the others stay, too: nobody has to ask for them.
//   - A seeded bug of protocol/check shows that the model checker notices a broken rule
//     in the states between operations, to which no single test leads. They take seconds.
//
// So a new guard of the kernel has a mutant here and, if the checker models it, a seeded
// one; a new behaviour of the suite has a faulty store.
//
// Read mutant.go for what a mutant is, rules.go for what must be covered,
// campaign.go for how they are tried; memory.go and its neighbours are the table.
// make mutants writes the results into build/mutants.md.
package main
