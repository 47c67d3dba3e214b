package pins_test

import (
	"strings"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestOPS10_NamesOfQueuesContainNoBuild(t *testing.T) {
	const name = "default@build:a"
	w := flowtest.NewMemory(t)
	if _, err := fitting.Start(w.Ctx, w.Client, 1, workflow.WithQueue(name)); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a start on queue %s: got error %v", name, err)
	}
	panics := func(what string, f func()) {
		defer func() {
			if text, _ := recover().(string); !strings.Contains(text, name) {
				t.Errorf("%s: panicked with %q", what, text)
			}
		}()
		f()
	}
	panics("a step", func() { workflow.Queue(name) })
	panics("a worker", func() {
		worker.New(workflow.NewClient(memstore.New(), workflow.ClientConfig{}), worker.Config{Queues: []string{name}})
	})
}
