package worker_test

import (
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// onStreamStores runs a test on the stores that have streams.
func onStreamStores(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, open := range stores {
		if strings.HasPrefix(name, "memory") {
			t.Run(name, func(t *testing.T) { test(t, newWorld(t, open(t), workflow.ClientConfig{})) })
		}
	}
}
