// Package manifest describes the parts of a package on which runs of its workflows depend: stored
// names, parameters and types, and the durable operations in the order in which a workflow calls
// them.
//
// A [Manifest] contains no source positions, so that moving or formatting code does not change it.
// Begin with manifest.go, which defines the vocabulary. build.go fills a manifest from a loaded
// package; walk.go evaluates the body of a workflow, together with assign.go, branch.go, loop.go,
// expr.go and call.go; schema.go describes the encoding of types by encoding/json; write.go and
// hash.go define the format of the file and of the hashes.
package manifest
