package deploy

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/lab/internal/harm"
)

// TestMain runs the tests or another role of the program.
func TestMain(m *testing.M) {
	if code, ok := harm.Play(os.Args[1:], os.Stderr, Worker, RampWorker); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// The test proves that a deployment of code that uses Version blocks no run permanently and makes
// no run fail.
func TestDeploy_RunsUnderWayEndAndNoneFails(t *testing.T) {
	redistest.Binary(t)
	for _, c := range cells(false) {
		if !c.version || c.strategy.name != "rolling" && c.strategy.name != "blue/green" {
			continue // Only the full table contains this deployment.
		}
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			c.runs, c.step, c.pace, c.still = 24, 400*time.Millisecond, 500*time.Millisecond, time.Minute
			got, err := c.play(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Log(c.row(&got))
			if got.completed != c.runs || got.failed != 0 {
				t.Errorf("of %d runs %d completed and %d failed", c.runs, got.completed, got.failed)
			}
			if got.waited != 0 {
				t.Errorf("%d runs were blocked beside workers that fit", got.waited)
			}
			if got.used != 0 {
				t.Errorf("graceful stops have used up %d attempts", got.used)
			}
		})
	}
}

// The test proves that a ramp and its rollback block no pinned run, and that a build is not reported
// as drained while runs need it, with worker processes of both builds.
func TestOPS10_RampsBlockNoPinnedRun(t *testing.T) {
	redistest.Binary(t)
	for _, p := range ramps() {
		if !p.pin {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			p.runs, p.step = 100, time.Second
			got, err := p.play(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Log(p.row(&got))
			if got.completed != p.runs || got.byNew == 0 || got.byNew == p.runs || got.asked == 0 || got.tooEarly > 0 || !p.early && got.blocked > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}
