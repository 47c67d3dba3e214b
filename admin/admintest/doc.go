// Package admintest is the conformance suite for all implementations of an admin service. An
// implementation may use a store directly or call a server over HTTP. [Run] executes the suite. It
// checks the effects on runs that a worker executes, and compares results with those of admin.New.
package admintest
