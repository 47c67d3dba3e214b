// Package survival contains tests with real processes that use one SQLite file or one Redis server.
// The tests kill processes, stop and continue them, start them twice, and start them with different
// code.
//
// Each process executes the test binary. An environment variable selects its role: see
// roles_test.go.
package survival
