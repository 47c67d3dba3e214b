// Package reruns_test proves the promises about workflows whose failed runs are rerun by a policy.
// Its tests use clients and workers on every store.
package reruns_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
