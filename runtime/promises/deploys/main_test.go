// Package deploys_test proves the promises about deployments, through clients and workers, on every
// store.
package deploys_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
