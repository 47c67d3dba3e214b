// Package flowtest contains what the tests of the runtime share: a store with a client and the
// workers on it ([World]), stores that fail in chosen ways, and workflows and steps to run.
package flowtest
