// Package offload_test proves the promises about payloads that a codec keeps in a blob store: the
// size of logs does not depend on them, and no blob is orphaned or missing.
package offload_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := process(role); err != nil {
			fmt.Fprintln(os.Stderr, role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.Main(m)
}
