// Package questions_test proves the promises of hooks and questions, through clients and workers,
// on every store.
package questions_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
