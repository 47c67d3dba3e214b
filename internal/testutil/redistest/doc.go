// Package redistest starts real Redis servers for tests: single servers, clusters of three masters,
// and a proxy that loses responses.
//
// The servers run the redis-server of the machine on free ports of 127.0.0.1 and write to
// directories of the test. If redis-server is missing, package redistest installs it with the
// package manager of the system. If the installation fails, the test fails. No test is skipped.
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestX(t *testing.T) {
//		url := redistest.Shared(t).URL() // for all tests of the binary
//		…
//	}
package redistest
