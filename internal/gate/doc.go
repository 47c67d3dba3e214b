// Package gate replays runs of a live store against the code of a module, before that code
// is deployed: flowgen replay.
//
// The command cannot link users' code. So it writes a test that registers all workflows of
// the module and opens the store, lays it over the module at a path that does not exist
// there, lets the go command build and run it, and reads the report that it leaves. Nothing
// in the module changes. source.go writes the test; gate.go runs it.
package gate
