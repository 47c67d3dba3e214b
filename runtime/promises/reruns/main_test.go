// Package reruns_test proves the promises about workflows whose failed runs are rerun by a policy.
// Its tests use clients and workers on every store.
package reruns_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain executes all tests a second time with sealed data, because reruns copy events, follow
// policies and meet all commands.
func TestMain(m *testing.M) {
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	if err := flag.Set("codec", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
