package worker_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
)

// killerFlow is a workflow that only some of the workers serve.
var killerFlow = flowtest.Flow[int, int]("killer")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
