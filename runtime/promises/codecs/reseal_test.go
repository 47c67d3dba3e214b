package codecs_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// holding returns a client of the store whose codec has keys with the given IDs. The first one is
// active.
func holding(t *testing.T, w *flowtest.World, ids ...string) *workflow.Client {
	t.Helper()
	var others []codec.Key
	for _, id := range ids[1:] {
		others = append(others, flowtest.Key(id))
	}
	c, err := codec.New(codec.Config{Keys: codec.Keys(flowtest.Key(ids[0]), others...)})
	if err != nil {
		t.Fatal(err)
	}
	return workflow.NewClient(w.Store, workflow.ClientConfig{Codec: c, Logger: slog.New(slog.DiscardHandler)})
}

// runsByKey returns the number of runs and of open runs with each key.
func runsByKey(t *testing.T, w *flowtest.World, c *workflow.Client) map[string][2]int {
	t.Helper()
	status, err := ops.New(c).CodecStatus(w.Ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][2]int{}
	for _, k := range status.Keys {
		if k.Data < k.Runs || k.Bytes <= 0 {
			t.Errorf("key %s has %d fields of %d bytes in %d runs", k.Key, k.Data, k.Bytes, k.Runs)
		}
		runs[k.Key] = [2]int{k.Runs, k.Open}
	}
	return runs
}

// TestOPS5_ResealedRunsNeedOnlyTheActiveKey proves that an old key can be removed when the status
// no longer lists it: ended runs, with their streams, are sealed with the active key, and a program
// without the old key reads and retries them. Open runs keep the old key until their end.
func TestOPS5_ResealedRunsNeedOnlyTheActiveKey(t *testing.T) {
	broken := true
	fails := flowtest.Flow[string, string]("codecs.mended")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		broken = true
		code := append(ordering(), flowtest.As(fails, func(ctx workflow.Context, in string) (string, error) {
			paid, err := pays.Call(ctx, in)
			if err == nil && broken {
				err = errors.New("broken: " + in)
			}
			return paid, err
		}))
		first := w.Work(worker.Config{}, code...)
		done, err := orders.Start(w.Ctx, w.Client, marker)
		if err != nil {
			t.Fatal(err)
		}
		if err := notes.Send(w.Ctx, done, "!"); err != nil {
			t.Fatal(err)
		}
		if _, err := done.Result(w.Ctx); err != nil {
			t.Fatal(err)
		}
		failed, err := fails.Start(w.Ctx, w.Client, marker+" 2")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := failed.Result(w.Ctx); err == nil {
			t.Fatal("the run has not failed")
		}
		waits, err := orders.Start(w.Ctx, w.Client, marker+" 3")
		if err != nil {
			t.Fatal(err)
		}
		w.ReachWaiting(waits)
		first.Stop()

		both, young, none := holding(t, w, "k2", "k1"), holding(t, w, "k2"), workflow.NewClient(w.Store, workflow.ClientConfig{})
		if got, want := runsByKey(t, w, none), map[string][2]int{"k1": {3, 1}}; !cmp.Equal(got, want) {
			t.Errorf("before: runs by key %v, want %v", got, want)
		}
		if _, err := ops.New(young).Reseal(w.Ctx, nil); !errors.As(err, new(*codec.KeyError)) {
			t.Errorf("without the old key: got %v, want a *codec.KeyError", err)
		}
		if _, err := ops.New(none).Reseal(w.Ctx, nil); !errors.Is(err, workflow.ErrNotSupported) {
			t.Errorf("without a codec: got %v, want ErrNotSupported", err)
		}
		got, err := ops.New(both).Reseal(w.Ctx, nil)
		if want := (ops.Resealed{Runs: 3, Changed: 2, Open: 1}); err != nil || got != want {
			t.Errorf("got %+v and %v, want %+v", got, err, want)
		}
		if got, want := runsByKey(t, w, none), map[string][2]int{"k1": {1, 1}, "k2": {2, 0}}; !cmp.Equal(got, want) {
			t.Errorf("after: runs by key %v, want %v", got, want)
		}
		if again, err := ops.New(both).Reseal(w.Ctx, nil); err != nil || again.Changed != 0 {
			t.Errorf("again: got %+v and %v, want no change", again, err)
		}
		if found := w.Check(); len(found) > 0 {
			t.Errorf("the store is damaged: %v", found)
		}
		if v, err := orders.Get(young, done.ID()).Result(w.Ctx); err != nil || v != "paid with "+marker+"!" {
			t.Errorf("without the old key: got %q and %v", v, err)
		}
		if v, set, err := card.Get(w.Ctx, young.Run(done.ID())); err != nil || !set || v != marker {
			t.Errorf("value without the old key: got %q, %v and %v", v, set, err)
		}
		broken = false
		again, err := young.Run(failed.ID()).Retry(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		before := w.Client
		t.Cleanup(func() { w.Client = before })
		w.Client = young
		w.Work(worker.Config{Queues: []string{"default"}}, code...)
		if v, err := fails.Get(young, again.ID()).Result(w.Ctx); err != nil || v != "paid with "+marker+" 2" {
			t.Errorf("retry without the old key: got %q and %v", v, err)
		}
	})
}

// TestOPS5_ResealedReasonsOfTheJournalNeedOnlyTheActiveKey proves that the status lists a key as long
// as a reason in the journal has it, although no run needs it, and that reseal ends that.
func TestOPS5_ResealedReasonsOfTheJournalNeedOnlyTheActiveKey(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		old, both, young, none := holding(t, w, "k1"), holding(t, w, "k2", "k1"), holding(t, w, "k2"), workflow.NewClient(w.Store, workflow.ClientConfig{})
		write := func(c *workflow.Client, reason string) string {
			e := store.JournalEntry{ID: store.NewJournalID(w.Store.Clock().Now()), Action: "cancel", Principal: "ann", Reason: reason}
			entries, _ := store.As[store.Entries](c.Store())
			flowtest.Order(t, store.WriteJournal(w.Ctx, entries, e, store.JournalKeep{}))
			return e.ID
		}
		ids := []string{write(none, "plain"), write(none, ""), write(old, "old"), write(both, "new")}
		byKey := func() map[string]int {
			status, err := ops.New(none).CodecStatus(w.Ctx, nil)
			flowtest.Order(t, err)
			n := map[string]int{}
			for _, k := range status.Keys {
				if n[k.Key] = k.Journal; k.Runs+k.Data+k.Open > 0 {
					t.Errorf("key %q: %+v, want no runs", k.Key, k)
				}
			}
			return n
		}
		if got, want := byKey(), map[string]int{"": 1, "k1": 1, "k2": 1}; !cmp.Equal(got, want) {
			t.Errorf("before: reasons by key %v, want %v", got, want)
		}
		if _, err := ops.New(young).Reseal(w.Ctx, nil); !errors.As(err, new(*codec.KeyError)) {
			t.Errorf("without the old key: got %v, want a *codec.KeyError", err)
		}
		for _, want := range []ops.Resealed{{Journal: 2}, {}} {
			if got, err := ops.New(both).Reseal(w.Ctx, nil); err != nil || got != want {
				t.Errorf("got %+v and %v, want %+v", got, err, want)
			}
		}
		if got, want := byKey(), map[string]int{"k2": 3}; !cmp.Equal(got, want) {
			t.Errorf("after: reasons by key %v, want %v", got, want)
		}
		page, err := ops.New(young).Journal(w.Ctx, store.JournalQuery{})
		flowtest.Order(t, err)
		reasons := map[string]string{}
		for i := range page.Entries {
			reasons[page.Entries[i].ID] = page.Entries[i].Reason
		}
		if want := map[string]string{ids[0]: "plain", ids[1]: "", ids[2]: "old", ids[3]: "new"}; !cmp.Equal(reasons, want) {
			t.Errorf("without the old key: reasons %v, want %v", reasons, want)
		}
	})
}
