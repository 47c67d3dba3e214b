// Package gate implements flowgen replay: it replays runs of a live store against the code of a
// module before that code is deployed.
//
// The command cannot link the code of users. Therefore it writes a test that registers all
// workflows of the module and opens the store. It overlays the test on the module at a path that
// does not exist there, runs it with the go command, and reads the report that the test writes. The
// module itself is not modified. source.go writes the test; gate.go runs it.
package gate
