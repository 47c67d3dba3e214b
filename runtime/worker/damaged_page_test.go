//go:build !inmemory

package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	letters    = flowtest.Flow[string, int]("letters")
	letterStep = flowtest.AStep[string, int]("letter", shim.Policy{Retry: flowtest.Quick})
)

// TestSTEP11_ADamagedPageOfSQLiteKeepsNoOtherRun proves that a damaged page of the database file
// affects only the runs that have data in the page or must write next to it. These runs are blocked
// with a reason that names them. All other runs complete.
func TestSTEP11_ADamagedPageOfSQLiteKeepsNoOtherRun(t *testing.T) {
	const runs = 200
	path := filepath.Join(t.TempDir(), "flows.db")
	w := flowtest.NewWorld(t, flowtest.OpenSQLite(t, path), workflow.ClientConfig{})
	var ids []event.RunID
	for i := range runs {
		ids = append(ids, flowtest.Start(w, letters, fmt.Sprintf("marker-%d-", i)+strings.Repeat("x", 3000)).ID())
	}
	if err := errors.Join(w.Client.Close(), w.Store.Close()); err != nil {
		t.Fatal(err)
	}
	damagePage(t, path, "marker-17-")

	w = flowtest.NewWorld(t, flowtest.OpenSQLite(t, path), workflow.ClientConfig{})
	damaged := map[event.RunID]bool{}
	loads := make([]store.Load, runs)
	for i, id := range ids {
		loads[i] = store.Load{Run: id}
	}
	loaded, err := w.Store.Load(w.Ctx, loads)
	if err != nil {
		t.Fatalf("read all runs: got %v, want an answer for each", err)
	}
	for i, l := range loaded {
		var named *store.DamagedError
		if errors.As(l.Err, &named) && named.Run == ids[i] && errors.Is(l.Err, event.ErrCorrupt) {
			damaged[ids[i]] = true
		} else if l.Err != nil {
			t.Errorf("read run %s: got error %v, want one that names it", ids[i], l.Err)
		}
	}
	if len(damaged) == 0 || len(damaged) > runs/5 {
		t.Fatalf("%d runs are damaged, want one page of them", len(damaged))
	}

	w.Work(worker.Config{}, flowtest.As(letters, letterStep.Call), letterStep.As(func(_ context.Context, s string) (int, error) { return len(s), nil }))
	completed := 0
	for _, id := range ids {
		run := letters.Get(w.Client, id)
		var status workflow.Status
		w.Eventually("a run completes or is blocked", func() bool {
			info, err := run.Info(w.Ctx)
			if status = info.Status; errors.Is(err, event.ErrCorrupt) { // the log of the run is damaged
				status = workflow.StatusBlocked
				return strings.Contains(w.Logs.String(), "run is blocked\" run="+string(id))
			}
			return status == workflow.StatusCompleted || status == workflow.StatusBlocked
		})
		if damaged[id] && status != workflow.StatusBlocked {
			t.Errorf("run %s is damaged, and is %s", id, status)
		}
		if status == workflow.StatusCompleted {
			completed++
		}
	}
	// SQLite cannot insert next to a damaged page if the insert would split the page. So a damaged
	// page may affect more than one run.
	if completed < runs-5*len(damaged) {
		t.Errorf("%d of %d runs completed, and %d are damaged", completed, runs, len(damaged))
	}
}

// damagePage overwrites the page that contains the first occurrence of a text.
func damagePage(t *testing.T, path, text string) {
	t.Helper()
	const size = 4096
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte(text))
	if at < size {
		t.Fatalf("the file does not hold %q behind its first page", text)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, size), int64(at/size*size))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
