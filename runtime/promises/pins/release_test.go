//go:build !inmemory

package pins_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// withoutPins is the last commit before runs could be pinned.
const withoutPins = "454d68b67da4037a90874e6f6c65872e5367391f"

func TestOPS10_AWorkerOfAReleaseWithoutPinsLeavesPinnedRuns(t *testing.T) {
	program := flowtest.EarlierRelease(t, withoutPins)
	for name, open := range map[string]func(t *testing.T) (url string){
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "runs.db") },
		"redis":  func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			url := open(t)
			st, err := store.Open(t.Context(), url)
			flowtest.Order(t, err)
			besideEarlierRelease(flowtest.NewWorld(t, st, workflow.ClientConfig{}).With(nil), program, url)
		})
	}
}

// besideEarlierRelease starts pinned and other runs while the only worker belongs to an earlier
// release, and then while a worker of this release executes runs beside it.
func besideEarlierRelease(w *flowtest.World, program, url string) {
	t := w.T
	t.Helper()
	plainCode := flowtest.As(plainFlow, func(workflow.Context, int) (string, error) { return "a", nil })
	a := fits(w, "a", plainCode)
	serving(w, fitting, "a")
	pinned := started(w, a, fitting, 3)
	a.Stop()
	stop := w.Outside(program, url)
	advance(w, pinned)
	abandoned(w, pinned[0].ID())
	w.Eventually("the run of the dead worker is ready again", func() bool {
		flowtest.Result(w, flowtest.Start(w, plainFlow, 0)) // the claim of this run recovers those of expired sessions
		return w.Record(pinned[0]).QueueState == store.StateReady
	})
	before := make([]store.Record, len(pinned))
	for i, run := range pinned {
		before[i] = w.Record(run)
	}
	for n := range 20 {
		if got := flowtest.Result(w, flowtest.Start(w, plainFlow, n)); got != "old" {
			t.Errorf("run %d, not pinned: executed by %q, want the earlier release", n, got)
		}
	}
	for i, run := range pinned {
		if diff := cmp.Diff(before[i], w.Record(run)); diff != "" || before[i].Route.Queue != event.PinnedQueue(workflow.DefaultQueue, "a") {
			t.Errorf("the earlier release has changed pinned run %s of queue %s (-before +after):\n%s", run.ID(), before[i].Route.Queue, diff)
		}
	}
	a = fits(w, "a", plainCode)
	serving(w, fitting, "a")
	var plain []*workflow.Run[string]
	for n := range 20 {
		plain = append(plain, flowtest.Start(w, plainFlow, n))
		run, err := fitting.Start(w.Ctx, a.Client, n)
		flowtest.Order(t, err)
		pinned = append(pinned, run)
	}
	advance(w, pinned[3:])
	executedBy(w, pinned, "a", "a")
	for _, run := range plain {
		flowtest.Result(w, run)
	}
	out, err := exec.CommandContext(w.Ctx, program, url, string(pinned[0].ID())).Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != string(workflow.StatusCompleted) {
		t.Errorf("the earlier release reads the status %q of a pinned run, %v", got, err)
	}
	stop()
	w.Healthy()
}

// abandoned claims a pinned run for a session that sends no heartbeats.
func abandoned(w *flowtest.World, run workflow.RunID) {
	w.T.Helper()
	partition := int(run.Slot()) % w.Store.Partitions()
	flowtest.Order(w.T, w.Store.OpenSession(w.Ctx, store.Session{Partition: partition, ID: "dead", Worker: "dead", TTL: 200 * time.Millisecond}))
	_, err := w.Store.ClaimRun(w.Ctx, partition, "dead", event.NewToken(), run)
	flowtest.Order(w.T, err)
}
