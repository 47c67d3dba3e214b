// Package offload_test proves the promises about payloads that a codec keeps in a blob store: the
// size of logs does not depend on them, and no blob is orphaned or missing.
package offload_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
