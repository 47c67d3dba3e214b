package offload_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// TestOPS11_ABackupHasTheBlobsOfItsStore proves the documented order of a backup: blobs that are
// copied both before and after the store contain all to which the copy of the store refers, although
// the fleet consumes messages, writes results and removes blobs meanwhile. Either copy of the blobs
// alone lacks some.
func TestOPS11_ABackupHasTheBlobsOfItsStore(t *testing.T) {
	dir := t.TempDir()
	clock := &later{Clock: store.SystemClock}
	world := func(file string, blobs *flowtest.Blobs) *flowtest.World {
		st, err := sqlitestore.OpenWith(filepath.Join(dir, file), sqlitestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
		w.Offload(blobs, large)
		return w
	}
	copyTo := func(to, from *flowtest.Blobs) {
		for _, name := range from.Names() {
			data, err := from.Get(t.Context(), name)
			if err == nil {
				err = to.Put(t.Context(), name, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	blobs, first, both := flowtest.NewBlobs(clock), flowtest.NewBlobs(clock), flowtest.NewBlobs(clock)
	w := world("flows.db", blobs)
	done := flowtest.Start(w, children, text(1, 2*large))
	waiting := flowtest.Start(w, parents, text(2, 2*large))
	flowtest.Order(t, news.Send(w.Ctx, waiting, text(3, 2*large)))
	copyTo(first, blobs)

	running := w.Work(worker.Config{}, family()[0])
	flowtest.Result(w, done)
	running.Stop()
	db, err := sql.Open("sqlite", filepath.Join(dir, "flows.db"))
	if err == nil {
		_, err = db.ExecContext(t.Context(), "VACUUM INTO ?", filepath.Join(dir, "backup.db"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	w.Work(worker.Config{}, family()...)
	flowtest.Result(w, waiting)
	clock.by = sealed.Grace + time.Minute
	sweeper := sealed.NewSweeper(w.Store, blobs, clock)
	for range 3 {
		pass(t, sweeper)
		clock.by += time.Hour
	}
	copyTo(both, first)
	copyTo(both, blobs)

	for name, c := range map[string]struct {
		blobs    *flowtest.Blobs
		complete bool
	}{"before": {first, false}, "after": {blobs, false}, "before and after": {both, true}} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, "backup.db"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".db"), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			w := world(name+".db", c.blobs)
			report, err := fsck.Repair(w.Ctx, w.Client.Store(), fsck.Options{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			missing := slices.ContainsFunc(report.Remaining, func(f fsck.Finding) bool { return strings.Contains(f.What, "is missing") })
			if missing == c.complete || c.complete && len(report.Remaining) > 0 {
				t.Fatalf("findings: %v", report.Remaining)
			}
			if !c.complete {
				return
			}
			w.Work(worker.Config{}, family()...)
			if got := flowtest.Result(w, parents.Get(w.Client, waiting.ID())); got != "again"+text(3, 2*large)+text(7, large) {
				t.Errorf("the run that waited got %d bytes", len(got))
			}
			if got := flowtest.Result(w, children.Get(w.Client, done.ID())); got != text(1, 2*large)+text(7, large) {
				t.Errorf("the run that had ended got %d bytes", len(got))
			}
		})
	}
}
