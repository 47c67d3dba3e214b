// Package streams_test proves what streams and published values promise, through clients and workers, on every store.
package streams_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
