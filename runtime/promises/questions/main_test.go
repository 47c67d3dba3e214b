// Package questions_test proves what hooks and questions promise, through clients and workers, on every store.
package questions_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
