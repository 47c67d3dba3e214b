// Package deadlocks_test proves the promises about runs that can never continue, and about programs
// that resemble them, through clients and workers, on every store.
package deadlocks_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
