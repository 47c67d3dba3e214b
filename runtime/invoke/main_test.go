package invoke_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
