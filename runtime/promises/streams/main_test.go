// Package streams_test proves the promises about streams and published values. Its tests use
// clients and workers on every store.
package streams_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
