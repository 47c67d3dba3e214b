// Package survival holds tests with real processes on one SQLite file: they are
// killed, stopped and continued, started twice, and started with other code.
//
// The test binary is each of the processes: it becomes one when the environment
// says so, see roles_test.go.
package survival
