// Package layers contains tests of the structure of the tree: the imports that are allowed,
// the packages that the runtime may link, and the file contents that are forbidden. It has no other
// code.
//
// Imports point downwards only:
//
//	event ← store ← memstore, sqlitestore, redisstore
//	event ← runtime/internal ← workflow (with store) ← step ← shim ← worker
//	      ← workflowtest, generated, examples
//
// A store imports neither workflow nor worker. The runtime imports no store. Shipped packages import
// no package that is only for tests. A new package needs a row in the table of rules_test.go, which
// defines its layer.
package layers
