package codecs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	rotating = flowtest.Flow[string, string]("rotating")
	rotate   = flowtest.AStep[string, string]("rotate", shim.Policy{Retry: flowtest.Quick})
	turns    = workflow.NewTopic[string]("rotating.turns")
)

// rotations binds a workflow that executes a step for each message, until the message is empty.
func rotations() []flowtest.Binding {
	return []flowtest.Binding{
		rotate.As(func(_ context.Context, s string) (string, error) { return s, nil }),
		flowtest.As(rotating, func(ctx workflow.Context, s string) (string, error) {
			for {
				m, err := turns.Receive(ctx)
				if err != nil || m == "" {
					return s, err
				}
				done, err := rotate.Call(ctx, m)
				if err != nil {
					return "", err
				}
				s += done
			}
		}),
	}
}

// TestOPS5_KeysAreRotatedUnderLoadWithoutABlockedRun proves that a fleet whose workers receive a new
// key one after another, and then use it, blocks no run although workers with both settings execute
// the same runs.
func TestOPS5_KeysAreRotatedUnderLoadWithoutABlockedRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		fleets := []*flowtest.World{}
		for _, keys := range [][]string{{"k1"}, {"k1", "k2"}, {"k2", "k1"}} {
			c, _ := flowtest.WithKeys(t, keys...)
			fleets = append(fleets, w.With(c))
		}
		var runs []*workflow.Run[string]
		send := func(by *flowtest.World, text string) {
			t.Helper()
			for _, run := range runs {
				flowtest.Order(t, turns.Send(w.Ctx, rotating.Get(by.Client, run.ID()), text))
			}
		}
		start := func(by *flowtest.World) {
			for i := range 10 {
				runs = append(runs, flowtest.Start(by, rotating, strconv.Itoa(i)))
			}
		}
		all := map[int][]*flowtest.Running{}
		for n, fleet := range fleets {
			for range 2 {
				all[n] = append(all[n], fleet.Work(worker.Config{Concurrency: 4}, rotations()...))
				start(fleet)
				if n > 0 { // the workers with the old setting stop one after another
					send(fleet, strconv.Itoa(n))
					all[n-1][0].Stop()
					all[n-1] = all[n-1][1:]
				}
			}
		}
		send(fleets[2], "x")
		send(fleets[2], "")
		for _, run := range runs {
			if got, err := rotating.Get(fleets[2].Client, run.ID()).Result(w.Ctx); err != nil || len(got) < 2 {
				t.Errorf("run %s: got %q and %v", run.ID(), got, err)
			}
		}
		if n := w.Logs.Count("run is blocked"); n != 0 {
			t.Errorf("%d runs were blocked", n)
		}
		w.Healthy()
	})
}

// TestOPS5_ARunContinuesWhenARunningWorkerReceivesItsKey proves that a missing key blocks a run with
// the name of the key, and that the run continues as soon as the key is back: a worker that receives
// it while it runs gets the run, without a restart.
func TestOPS5_ARunContinuesWhenARunningWorkerReceivesItsKey(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		old, _ := flowtest.WithKeys(t, "k1")
		next, keys := flowtest.WithKeys(t, "k2")
		by := w.With(old)
		run := flowtest.Start(by, rotating, "0")
		for range 3 {
			flowtest.Order(t, turns.Send(w.Ctx, run, "x"))
		}
		flowtest.Order(t, turns.Send(w.Ctx, run, ""))
		w.With(next).Work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, rotations()...)
		w.BlockedAs(run, "get key k1 of payloads")
		keys.Set("k2", "k1")
		if got, err := run.Result(w.With(old).Ctx); err == nil || got != "" {
			t.Errorf("a client without key k2 gets %q and %v", got, err)
		}
		if got, err := rotating.Get(w.With(next).Client, run.ID()).Result(w.Ctx); err != nil || got != "0xxx" {
			t.Errorf("got %q and %v", got, err)
		}
	})
}

// TestOPS5_AWorkerThatReceivesAKeyClaimsOnlyRunsForWhichItHasSlots proves that a worker does not claim
// all blocked runs at once when it receives their key, and that it claims each of them in the end.
func TestOPS5_AWorkerThatReceivesAKeyClaimsOnlyRunsForWhichItHasSlots(t *testing.T) {
	const most = 2
	w := flowtest.NewMemory(t)
	old, _ := flowtest.WithKeys(t, "k1")
	next, keys := flowtest.WithKeys(t, "k2")
	by := w.With(old)
	var runs []*workflow.Run[string]
	for range 20 {
		run := flowtest.Start(by, rotating, "0")
		flowtest.Order(t, turns.Send(w.Ctx, run, "x"))
		flowtest.Order(t, turns.Send(w.Ctx, run, ""))
		runs = append(runs, run)
	}
	owned := flowtest.Seen[int]{}
	code := rotations()
	code[0] = rotate.As(func(_ context.Context, s string) (string, error) {
		n := 0
		for _, r := range w.Snapshot().Runs {
			if r.QueueState == store.StateOwned {
				n++
			}
		}
		owned.Add(n)
		return s, nil
	})
	after := w.With(next)
	after.Work(worker.Config{Runs: most, Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, code...)
	for _, run := range runs {
		w.BlockedAs(run, "get key k1 of payloads")
	}
	keys.Set("k2", "k1")
	for _, run := range runs {
		if got, err := rotating.Get(after.Client, run.ID()).Result(w.Ctx); err != nil || got != "0x" {
			t.Errorf("got %q and %v, want 0x", got, err)
		}
	}
	if got := slices.Max(owned.Get()); got > most {
		t.Errorf("the worker has owned %d runs, and has slots for %d", got, most)
	}
}

// TestOPS5_BlockedRunsThatUseALimitContinueOneAfterAnotherWhenTheirKeyIsBack proves that a worker which
// receives a key claims all blocked runs that share a permit.
func TestOPS5_BlockedRunsThatUseALimitContinueOneAfterAnotherWhenTheirKeyIsBack(t *testing.T) {
	w := flowtest.NewMemory(t)
	bench := limit.New("bench", limit.Config{AtOnce: 1})
	apart := flowtest.AStep[string, string]("rotate.apart", shim.Policy{
		Queue: "apart", Retry: flowtest.Quick, Uses: shim.Uses(func(flowtest.StepArgs[string]) []limit.Use { return []limit.Use{bench.Use(1)} }),
	})
	caller := flowtest.Flow[string, string]("rotating.apart")
	old, _ := flowtest.WithKeys(t, "k1", "k2")
	next, keys := flowtest.WithKeys(t, "k2")
	by := w.With(old)
	by.Work(worker.Config{}, flowtest.As(caller, apart.Call))
	var runs []*workflow.Run[string]
	for range 3 {
		runs = append(runs, flowtest.Start(by, caller, "x"))
	}
	var atWork, most atomic.Int64
	step := apart.As(func(_ context.Context, s string) (string, error) {
		most.Store(max(most.Load(), atWork.Add(1)))
		defer atWork.Add(-1)
		return s, nil
	})
	w.With(next).Work(worker.Config{Queues: []string{"apart"}, Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, step)
	w.Eventually("all steps are blocked", func() bool {
		return len(by.List(workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true})) == 3
	})
	keys.Set("k2", "k1")
	for _, run := range runs {
		if got := flowtest.Result(by, run); got != "x" {
			t.Errorf("got %q, want x", got)
		}
	}
	if got := most.Load(); got != 1 {
		t.Errorf("%d steps were executed at once, the limit permits 1", got)
	}
	w.Healthy()
}

// TestOPS5_ABlockedRunThatIsTooHeavyForItsWorkerDoesNotKeepBackOthers proves that a worker which receives
// a key claims its blocked runs although an earlier one needs more of a local limit than it has.
func TestOPS5_ABlockedRunThatIsTooHeavyForItsWorkerDoesNotKeepBackOthers(t *testing.T) {
	w := flowtest.NewMemory(t)
	room := limit.NewLocal("room")
	weighing := func(queue string) flowtest.StepOf[int, int] {
		return flowtest.AStep[int, int]("rotate."+queue, shim.Policy{
			Queue: queue, Retry: flowtest.Quick, Uses: shim.Uses(func(a flowtest.StepArgs[int]) []limit.Use { return []limit.Use{room.Use(a.In)} }),
		})
	}
	freight, parcel := weighing("freight"), weighing("parcel")
	freights, parcels := flowtest.Flow[int, int]("rotating.freight"), flowtest.Flow[int, int]("rotating.parcel")
	old, _ := flowtest.WithKeys(t, "k1", "k2")
	by := w.With(old)
	by.Work(worker.Config{}, flowtest.As(freights, freight.Call), flowtest.As(parcels, parcel.Call))
	do := func(_ context.Context, n int) (int, error) { return n, nil }
	begin := func(has int, queues ...string) *flowtest.Ring {
		next, keys := flowtest.WithKeys(t, "k2")
		cfg := worker.Config{Queues: queues, Capacity: map[string]int{"room": has}, Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}
		w.With(next).Work(cfg, freight.As(do), parcel.As(do))
		return keys
	}
	blocked := func(n int) {
		t.Helper()
		w.Eventually("the steps are blocked", func() bool {
			return len(by.List(workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true})) == n
		})
	}
	large := begin(5, "freight")
	heavy := flowtest.Start(by, freights, 5)
	blocked(1)
	small := begin(1, "freight", "parcel")
	light := flowtest.Start(by, parcels, 1)
	blocked(2)
	small.Set("k2", "k1")
	if got := flowtest.Result(by, light); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	large.Set("k2", "k1")
	if got := flowtest.Result(by, heavy); got != 5 {
		t.Errorf("got %d, want 5", got)
	}
	w.Healthy()
}

// TestOPS5_ARunContinuesWhenTheFileOfKeysOfItsWorkerIsEdited is like the test before it, with the
// provider that programs use.
func TestOPS5_ARunContinuesWhenTheFileOfKeysOfItsWorkerIsEdited(t *testing.T) {
	w := flowtest.NewMemory(t)
	path := filepath.Join(t.TempDir(), "keys")
	write := func(ids ...string) {
		var text strings.Builder
		for _, id := range ids {
			text.WriteString(flowtest.Key(id).Text() + "\n")
		}
		flowtest.Order(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	write("k2")
	keys, err := codec.KeysFromFile(path)
	flowtest.Order(t, err)
	next, err := codec.New(codec.Config{Keys: keys})
	flowtest.Order(t, err)
	old, _ := flowtest.WithKeys(t, "k1")
	run := flowtest.Start(w.With(old), rotating, "0")
	flowtest.Order(t, turns.Send(w.Ctx, run, ""))
	by := w.With(next)
	by.Work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: 10 * time.Second}, rotations()...)
	w.BlockedAs(run, "get key k1 of payloads")
	write("k2", "k1")
	if got, err := rotating.Get(by.Client, run.ID()).Result(w.Ctx); err != nil || got != "0" {
		t.Errorf("got %q and %v", got, err)
	}
}

// TestOPS5_ARotationBeginsNewFailureGroups proves that the same failure is in another group when the
// active key has changed, and that the runs which have failed before stay in theirs.
func TestOPS5_ARotationBeginsNewFailureGroups(t *testing.T) {
	fails := flowtest.Flow[int, int]("codecs.groups")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		c, keys := flowtest.WithKeys(t, "k1", "k2")
		by := w.With(c)
		by.Work(worker.Config{}, flowtest.As(fails, func(_ workflow.Context, n int) (int, error) { return 0, fmt.Errorf("no order %d", n) }))
		want := map[string][]workflow.RunID{}
		fail := func() (group string) {
			for n := range 2 {
				run := flowtest.Start(by, fails, n)
				flowtest.Failure(by, run)
				group = w.Record(run).Group
				want[group] = append(want[group], run.ID())
			}
			return group
		}
		before := fail()
		keys.Set("k2", "k1")
		if after := fail(); after == before || len(want) != 2 || len(want[before]) != 2 {
			t.Errorf("groups %v, want another one with each active key", want)
		}
		page, err := ops.New(by.Client).FailureGroups(w.Ctx, ops.FailureFilter{})
		flowtest.Order(t, err)
		if len(page.Groups) != 2 || page.Groups[0].Text != page.Groups[1].Text {
			t.Errorf("groups %+v, want two with the same text", page.Groups)
		}
		for group, runs := range want {
			got := by.List(workflow.Filter{Group: group})
			slices.Sort(got) // runs of the same millisecond have no order
			if slices.Sort(runs); !slices.Equal(got, runs) {
				t.Errorf("group %s: runs %v, want %v", group, got, runs)
			}
		}
	})
}
