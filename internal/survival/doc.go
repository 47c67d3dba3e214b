// Package survival contains tests with real processes on one SQLite file. The processes are killed,
// stopped and continued, started twice, and started with different code.
//
// Each process runs the test binary, which selects its role by an environment variable: see
// roles_test.go.
package survival
