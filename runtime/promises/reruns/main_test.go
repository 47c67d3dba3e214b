// Package reruns_test proves what a workflow promises whose failed runs are tried again by its policy, on every store.
package reruns_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
