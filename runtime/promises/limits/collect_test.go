package limits_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// edit is a change of a document.
type edit struct {
	Doc  string
	Text string
}

// debounced returns a workflow in which all starts for one document share a run.
func debounced(name string, quiet, most time.Duration) workflow.Definition[edit, string] {
	return shim.NewWorkflow[edit, string]("test.debounced."+name, "edit", shim.WorkflowPolicy{
		Collect: shim.Debounce(func(e edit) string { return shim.Key(e.Doc) }, quiet, most),
	})
}

func text(ran *flowtest.Seen[string]) func(workflow.Context, edit) (string, error) {
	return func(_ workflow.Context, e edit) (string, error) {
		ran.Add(e.Doc + " " + e.Text)
		return e.Text, nil
	}
}

func TestPOOL7_ADebouncedRunHasTheInputOfTheLastStart(t *testing.T) {
	reindex := debounced("last", 20*time.Millisecond, time.Hour)
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var ran flowtest.Seen[string]
		first := flowtest.Start(w, reindex, edit{"a", "1"})
		other := flowtest.Start(w, reindex, edit{"b", "1"})
		if !first.Created() || !other.Created() || first.ID() == other.ID() {
			t.Errorf("got runs %s and %s, created %v and %v", first.ID(), other.ID(), first.Created(), other.Created())
		}
		for n := 2; n <= 5; n++ {
			if run := flowtest.Start(w, reindex, edit{"a", fmt.Sprint(n)}); run.ID() != first.ID() || run.Created() {
				t.Errorf("start %d: got run %s, created %v, want %s", n, run.ID(), run.Created(), first.ID())
			}
		}
		w.Work(worker.Config{}, flowtest.As(reindex, text(&ran)))
		if got := flowtest.Result(w, first); got != "5" {
			t.Errorf("result: got %s", got)
		}
		if got := flowtest.Result(w, other); got != "1" {
			t.Errorf("result of the other document: got %s", got)
		}
		again := flowtest.Start(w, reindex, edit{"a", "6"})
		if got := flowtest.Result(w, again); got != "6" || again.ID() == first.ID() {
			t.Errorf("a start that comes later: got %s of run %s", got, again.ID())
		}
		all := ran.Get()
		if slices.Sort(all); !slices.Equal(all, []string{"a 5", "a 6", "b 1"}) {
			t.Errorf("ran with %v", all)
		}
		w.Healthy()
	})
}

func TestPOOL7_ADebouncedRunBeginsWhenItWasQuietAndAtTheLatestAfterMost(t *testing.T) {
	reindex := debounced("times", 10*time.Second, 25*time.Second)
	w := flowtest.NewVirtual(t)
	begun := w.Clock.Now()
	var at flowtest.Seen[time.Duration]
	w.Work(worker.Config{}, flowtest.As(reindex, func(_ workflow.Context, e edit) (string, error) {
		at.Add(w.Clock.Now().Sub(begun))
		return e.Text, nil
	}))
	run := flowtest.Start(w, reindex, edit{"a", "1"})
	due := func(want time.Duration) {
		t.Helper()
		if got := w.Record(run).Due; !got.Equal(begun.Add(want)) {
			t.Errorf("due after %v, want %v", got.Sub(begun), want)
		}
	}
	for n, want := range []time.Duration{19 * time.Second, 25 * time.Second} {
		w.Clock.Advance(9 * time.Second)
		flowtest.Start(w, reindex, edit{"a", fmt.Sprint(n + 2)})
		due(want)
	}
	w.Clock.Advance(7 * time.Second)
	if got := flowtest.Result(w, run); got != "3" {
		t.Errorf("got %s", got)
	}
	if all := at.Get(); len(all) != 1 || !flowtest.Exactly(all[0], 25*time.Second) {
		t.Errorf("begun after %v", all)
	}
}

func TestPOOL7_ABatchHasTheInputsOfAllItsStarts(t *testing.T) {
	mail := shim.NewWorkflow[int, []int]("test.batch.all", "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(n int) string { return shim.Key(n < 0) }, 3, 20*time.Millisecond),
	})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var runs []*workflow.Run[[]int]
		for n := 1; n <= 7; n++ {
			runs = append(runs, flowtest.Start(w, mail, n))
		}
		lone := flowtest.Start(w, mail, -1)
		w.Work(worker.Config{}, flowtest.AsBatch(mail, func(_ workflow.Context, all []int) ([]int, error) { return all, nil }))
		for i, want := range [][]int{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {4, 5, 6}, {4, 5, 6}, {4, 5, 6}, {7}} {
			if got := flowtest.Result(w, runs[i]); !slices.Equal(got, want) {
				t.Errorf("start %d: got %v, want %v", i+1, got, want)
			}
		}
		if got := flowtest.Result(w, lone); !slices.Equal(got, []int{-1}) {
			t.Errorf("of another key: got %v", got)
		}
		w.Healthy()
	})
}

// TestPOOL7_StartsShareRunsOnARedisCluster proves that starts find the run that collects them on a
// Redis Cluster, where the runs of different keys are on different masters.
func TestPOOL7_StartsShareRunsOnARedisCluster(t *testing.T) {
	st, err := redisstore.Open(redistest.StartCluster(t, false).URL() + "&partitions=16")
	if err != nil {
		t.Fatal(err)
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	const keys, starts = 12, 5
	mail := shim.NewWorkflow[int, []int]("test.batch.cluster", "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(n int) string { return shim.Key(n % keys) }, starts, time.Hour),
	})
	reindex := debounced("cluster", 200*time.Millisecond, time.Hour)
	var batches []*workflow.Run[[]int]
	var last [keys]*workflow.Run[string]
	for n := range keys * starts {
		batches = append(batches, flowtest.Start(w, mail, n))
		last[n%keys] = flowtest.Start(w, reindex, edit{fmt.Sprint(n % keys), fmt.Sprint(n)})
	}
	var ran flowtest.Seen[string]
	for range 2 {
		w.Work(worker.Config{}, flowtest.AsBatch(mail, func(_ workflow.Context, all []int) ([]int, error) { return all, nil }), flowtest.As(reindex, text(&ran)))
	}
	partitions := map[int]bool{}
	for n, run := range batches {
		key := n % keys
		if got, want := flowtest.Result(w, run), []int{key, key + keys, key + 2*keys, key + 3*keys, key + 4*keys}; !slices.Equal(got, want) {
			t.Errorf("start %d: got %v, want %v", n, got, want)
		}
		partitions[int(run.ID().Slot())%16] = true
	}
	for key, run := range last {
		if got, want := flowtest.Result(w, run), fmt.Sprint(key+(starts-1)*keys); got != want {
			t.Errorf("document %d: got %s, want %s", key, got, want)
		}
	}
	if len(partitions) < 3 {
		t.Errorf("the runs were in partitions %v: the test proves nothing", partitions)
	}
	w.Healthy()
}

// TestPOOL7_ABatchKeepsItsStartsWhenItsWorkerDiesRightAfterTheClaim proves that a batch executes
// each start exactly once if its worker dies after it has claimed the run. This includes starts
// that arrive at the same time.
func TestPOOL7_ABatchKeepsItsStartsWhenItsWorkerDiesRightAfterTheClaim(t *testing.T) {
	const name = "test.batch.dies"
	mail := shim.NewWorkflow[int, []int](name, "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(int) string { return "" }, 4, time.Hour),
	})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var runs []*workflow.Run[[]int]
		start := func(n int) { runs = append(runs, flowtest.Start(w, mail, n)) }
		for n := range 4 {
			start(n)
		}
		partition := int(runs[0].ID().Slot()) % w.Store.Partitions()
		route := store.Route{Queue: workflow.DefaultQueue, Workflow: name}
		dead := store.Session{ID: "dead", Partition: partition, TTL: time.Hour, Routes: []store.Route{route}}
		flowtest.Order(t, w.Store.OpenSession(w.Ctx, dead))
		claimed, err := w.Store.Claim(w.Ctx, store.Claim{Partition: partition, Session: dead.ID, Token: event.NewToken(), Routes: dead.Routes, Max: 10})
		if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run != runs[0].ID() {
			t.Fatalf("claimed %v, %v, want run %s", claimed.Runs, err, runs[0].ID())
		}
		start(4)
		start(5)
		flowtest.Order(t, w.Store.CloseSession(w.Ctx, partition, dead.ID)) // otherwise the test waits until the lease expires
		start(6)
		var ran flowtest.Seen[string]
		w.Work(worker.Config{}, flowtest.AsBatch(mail, func(_ workflow.Context, all []int) ([]int, error) {
			ran.Add(fmt.Sprint(all))
			return all, nil
		}))
		start(7)
		for i, want := range [][]int{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}, {4, 5, 6, 7}, {4, 5, 6, 7}, {4, 5, 6, 7}} {
			if got := flowtest.Result(w, runs[i]); !slices.Equal(got, want) {
				t.Errorf("start %d: got %v, want %v", i, got, want)
			}
		}
		if all := ran.Get(); len(all) != 2 {
			t.Errorf("ran with %v", all)
		}
		w.Healthy()
	})
}

// TestPOOL7_NoStartOfABatchIsLostOrTwiceWhileWorkersDieAndAnswersAreLost proves that each start is
// in exactly one executed batch. Many clients start runs, every second answer of the store is lost,
// and workers are killed.
func TestPOOL7_NoStartOfABatchIsLostOrTwiceWhileWorkersDieAndAnswersAreLost(t *testing.T) {
	const starts, clients = 120, 4
	mail := shim.NewWorkflow[int, []int]("test.batch.chaos", "", shim.WorkflowPolicy{
		Collect: shim.Batch(func(n int) string { return shim.Key(n % 3) }, 7, 5*time.Millisecond),
	})
	note := flowtest.AStep[[]int, int]("batch.note", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100, Initial: time.Millisecond, Max: time.Millisecond}})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var kills atomic.Int64
		kills.Store(4)
		fleet := w.Keep(2, worker.Config{}, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{
				flowtest.AsBatch(mail, func(ctx workflow.Context, all []int) ([]int, error) {
					_, err := note.Call(ctx, all)
					return all, err
				}),
				note.As(func(_ context.Context, all []int) (int, error) {
					if kills.Add(-1) >= 0 {
						die()
					}
					return len(all), nil
				}),
			}
		})
		runs := make(chan *workflow.Run[[]int], starts)
		for c := range clients {
			lossy := &losesCreates{Store: w.Store}
			client := flowtest.NewClient(lossy, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.Logs, nil))})
			t.Cleanup(func() { _ = client.Close() })
			go func() {
				for n := c; n < starts; n += clients {
					run, err := mail.Start(w.Ctx, client, n)
					if err != nil {
						t.Errorf("start %d: %v", n, err)
					}
					runs <- run
				}
			}()
		}
		in, ids := map[int]int{}, map[workflow.RunID][]int{}
		for range starts {
			if run := <-runs; run != nil && ids[run.ID()] == nil {
				all := flowtest.Result(w, mail.Get(w.Client, run.ID()))
				ids[run.ID()] = all
				for _, n := range all {
					in[n]++
				}
			}
		}
		want := map[int]int{}
		for n := range starts {
			want[n] = 1
		}
		if diff := cmp.Diff(want, in); diff != "" {
			t.Errorf("starts by how often they are in a batch (-want +got):\n%s", diff)
		}
		if fleet.Deaths.Load() == 0 {
			t.Error("no worker has died")
		}
		w.Healthy()
	})
}

// losesCreates is a store that executes Create but returns an error for every second call.
type losesCreates struct {
	store.Store
	calls atomic.Int64
}

func (s *losesCreates) Unwrap() store.Store { return s.Store }

func (s *losesCreates) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	created, err := s.Store.Create(ctx, runs)
	if s.calls.Add(1)%2 == 1 {
		return nil, flowtest.ErrOutage
	}
	return created, err
}
