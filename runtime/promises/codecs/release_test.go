//go:build !inmemory

package codecs_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// withoutCodecs is the last commit before user data could be sealed.
const withoutCodecs = "8c6a96897c4fae393b0503973158289a164e6628"

// ofEarlierRelease is the workflow of the program that the earlier release executes.
var ofEarlierRelease = flowtest.Flow[int, string]("pins.plain")

// TestOPS5_AWorkerOfAReleaseWithoutCodecsBlocksSealedRuns proves that a fleet can change to a release
// with a codec, one worker after another: a worker of the earlier release neither executes nor fails
// runs with sealed data, and workers with the codec continue the runs that it has blocked.
func TestOPS5_AWorkerOfAReleaseWithoutCodecsBlocksSealedRuns(t *testing.T) {
	program := flowtest.EarlierRelease(t, withoutCodecs)
	for name, open := range map[string]func(t *testing.T) (url string){
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "runs.db") },
		"redis":  func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			url := open(t)
			st, err := store.Open(t.Context(), url)
			flowtest.Order(t, err)
			besideEarlierRelease(flowtest.NewWorld(t, st, workflow.ClientConfig{}), program, url)
		})
	}
}

// besideEarlierRelease starts runs with and without sealed data while the only worker belongs to the
// earlier release, and then while a worker with a codec executes runs beside it.
func besideEarlierRelease(w *flowtest.World, program, url string) {
	t := w.T
	t.Helper()
	plain := w.With(nil)
	received := flowtest.Start(plain, ofEarlierRelease, 0) // only its message is sealed
	flowtest.Order(t, letters.Send(w.Ctx, w.Client.Run(received.ID()), "sealed"))
	stop := w.Outside(program, url)
	sealed := []*workflow.Run[string]{received}
	for n := range 10 {
		sealed = append(sealed, flowtest.Start(w, ofEarlierRelease, n))
		if got := flowtest.Result(plain, flowtest.Start(plain, ofEarlierRelease, n)); got != "old" {
			t.Errorf("run %d without sealed data: executed by %q, want the earlier release", n, got)
		}
	}
	for _, run := range sealed {
		plain.Blocked(run)
		if info, err := run.Info(w.Ctx); err != nil || !strings.Contains(info.Blocked, "newer release") {
			t.Errorf("run %s is blocked because of %q, %v", run.ID(), info.Blocked, err)
		}
	}
	w.Work(worker.Config{}, flowtest.As(ofEarlierRelease, func(workflow.Context, int) (string, error) { return "new", nil }))
	for n := range 20 {
		sealed = append(sealed, flowtest.Start(w, ofEarlierRelease, n))
	}
	for _, run := range sealed {
		if got := flowtest.Result(w, ofEarlierRelease.Get(w.Client, run.ID())); got != "new" {
			t.Errorf("run %s with sealed data: executed by %q, want the worker with the codec", run.ID(), got)
		}
	}
	stop()
	w.Healthy()
}
