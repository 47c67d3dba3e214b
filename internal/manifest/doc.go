// Package manifest describes what the runs of a package's workflows depend on:
// the stored names, the parameters and types, and the durable operations in the
// order in which a workflow asks for them.
//
// A [Manifest] says nothing of where things stand in the source, so that moving
// or formatting code changes nothing in it. Begin with manifest.go, which has
// the vocabulary. build.go fills one in from a loaded package; walk.go follows the body
// of a workflow, with assign.go, branch.go, loop.go, expr.go and call.go; schema.go says what encoding/json makes of a
// type; write.go and hash.go give the file and the hashes their form.
package manifest
