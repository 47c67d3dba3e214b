// Package admintest is the conformance suite of all implementations of an admin service, directly
// on a store or over HTTP: [Run] executes it. It compares the effects on runs that a worker
// executes, and the results with those of admin.New.
package admintest
