package worker_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// killerFlow is executed by only some of the workers.
var (
	killerFlow = flowtest.Flow[int, int]("killer")
	killerStep = flowtest.AStep[int, int]("killer.step", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100}})
	crowdFlow  = flowtest.Flow[int, int]("crowd")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
