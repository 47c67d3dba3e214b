package workflowtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// TestOPS11_SealedRunsAreComparedOnlyIfTheyCanBeOpened proves that sealed and offloaded runs of a live
// store are replayed with the key and the blob store, and that otherwise the report names what is
// missing, and no run is reported to match or not to match.
func TestOPS11_SealedRunsAreComparedOnlyIfTheyCanBeOpened(t *testing.T) {
	k1, err1 := codec.NewKey("k1")
	k2, err2 := codec.NewKey("k2")
	blobs, err3 := codec.NewFileBlobs(t.TempDir())
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	defer blobs.Close()
	clock := storetest.NewClock()
	s := memstore.NewWith(memstore.Config{Clock: clock})
	sealed := func(cfg codec.Config) store.Store {
		cfg.OffloadAbove, cfg.CompressAbove = 64, -1
		with, err := codec.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		client := workflow.NewClient(s, workflow.ClientConfig{Codec: with})
		t.Cleanup(func() { _ = client.Close() })
		if cfg.Blobs == nil {
			return client.Store()
		}
		for _, in := range []string{"small", strings.Repeat("large", 100)} {
			if _, err := keptWaits.Start(t.Context(), client, in, workflow.WithID(in[:5])); err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Second) // the order of the runs is that of their times
		}
		return client.Store()
	}
	whole := sealed(codec.Config{Keys: codec.Keys(k1), Blobs: blobs})
	for name, tt := range map[string]struct {
		store store.Store
		runs  int
		want  []string
	}{
		"with all":             {whole, 2, nil},
		"without a codec":      {s, 0, []string{"sealed, key k1", "ClientConfig.Codec"}},
		"without the key":      {sealed(codec.Config{Keys: codec.Keys(k2)}), 0, []string{"get key k1"}},
		"without a blob store": {sealed(codec.Config{Keys: codec.Keys(k1)}), 1, []string{"blob wrun_", "no blob store is configured"}},
	} {
		n := 0
		got := observe(t, func(t testing.TB) { n = workflowtest.ReplayStore(t, setupKept, tt.store, workflow.Filter{}) })
		if n != tt.runs || (got == "") != (tt.want == nil) || strings.Contains(got, "does not fit") {
			t.Errorf("%s: %d runs were replayed, want %d: %s", name, n, tt.runs, got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}
