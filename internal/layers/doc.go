// Package layers holds the tests that keep the tree in order: who may import
// whom, what the runtime may link, and what no file may contain. It has no code
// of its own.
//
// The picture that it enforces: imports run downwards only.
//
//	event ← store ← memstore, sqlitestore, redisstore
//	event ← runtime/internal ← workflow (with store) ← step ← shim ← worker
//	      ← workflowtest, generated, examples
//
// A store knows neither workflow nor worker, the runtime knows no store, and
// nothing that is shipped imports what only tests need. A new package needs a
// row in the table of rules_test.go, which is where its place is decided.
package layers
