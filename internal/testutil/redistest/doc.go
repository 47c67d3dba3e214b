// Package redistest starts real Redis servers for tests: single ones, clusters of
// three masters, and a proxy that loses answers.
//
// The servers run from the redis-server of the machine, on free ports of
// 127.0.0.1, and write into directories of the test. Where there is no
// redis-server, it is installed with the package manager of the system; where
// that is not possible the test fails. Nothing is skipped.
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestX(t *testing.T) {
//		url := redistest.Shared(t).URL() // for all tests of the binary
//		…
//	}
package redistest
