// Package deadlocks_test proves what runs promise that can never go on, and what programs
// promise that look like them, through clients and workers, on every store.
package deadlocks_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
