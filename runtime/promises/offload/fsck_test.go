package offload_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS11_FsckReportsMissingAndOrphanedBlobs proves that a check without the key reports each blob
// that is missing, with its run, and those that nothing refers to for two days. It reports nothing
// else, although the runs have left blobs of consumed messages.
func TestOPS11_FsckReportsMissingAndOrphanedBlobs(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		if _, ok := store.As[store.Rebuilder](w.Store); !ok {
			t.Skip("fsck does not check this kind of store")
		}
		clock := &later{Clock: store.SystemClock}
		blobs := flowtest.NewBlobs(clock)
		w.Offload(blobs, large)
		running := w.Work(worker.Config{}, family()...)
		run := relatives(t, w)
		running.Stop()
		keyless, err := codec.New(codec.Config{Blobs: blobs})
		if err != nil {
			t.Fatal(err)
		}
		w.UseCodec(keyless)
		check := func(want ...string) {
			t.Helper()
			report, err := fsck.Repair(w.Ctx, w.Client.Store(), fsck.Options{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Remaining) != len(want) || len(report.Fixes) != len(want) {
				t.Fatalf("findings: %v, want %q", report.Remaining, want)
			}
			for i, f := range report.Remaining {
				if f.Invariant != 26 || !strings.Contains(f.What, want[i]) || report.Fixes[i].Why == "" || report.Fixes[i].Outcome != fsck.OutcomeRemains {
					t.Errorf("finding %v of %+v, want %q", f, report.Fixes[i], want[i])
				}
			}
		}
		check()

		used := referenced(t, w)
		if len(used) < 5 {
			t.Fatalf("the runs refer to %v", used)
		}
		young := stray(t, blobs, string(run.ID()))
		check()
		clock.by = -49 * time.Hour
		old := stray(t, blobs, "wrun_01JGFJJZ00000000000000000A")
		check("blob " + old + " of 5 bytes")

		kept := map[string][]byte{}
		for _, name := range used[:2] {
			if kept[name], err = blobs.Get(w.Ctx, name); err != nil {
				t.Fatal(err)
			}
		}
		if err := blobs.Delete(w.Ctx, used[0], used[1], old); err != nil {
			t.Fatal(err)
		}
		check("blob "+used[0]+" is missing", "blob "+used[1]+" is missing")
		for name, data := range kept {
			if err := blobs.Put(w.Ctx, name, data); err != nil {
				t.Fatal(err)
			}
		}
		check()
		stray(t, blobs, string(run.ID()))
		check("blob " + young)
	})
}

// referenced returns the sorted names of the blobs to which the logs of all runs refer.
func referenced(t *testing.T, w *flowtest.World) []string {
	t.Helper()
	all := map[string]bool{}
	raw, _ := store.Stored(w.Client.Store())
	for _, run := range w.List(workflow.Filter{}) {
		loaded, err := raw.Load(w.Ctx, []store.Load{{Run: run}})
		if err != nil || loaded[0].Err != nil {
			t.Fatal(err, loaded[0].Err)
		}
		names := store.BlobNames{Chain: loaded[0].Record.Chain, Names: all}
		for _, frame := range loaded[0].Frames {
			if err := names.Frame(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
