package limits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// Runs with workflow IDs are in all partitions, but the limit is kept in one partition. Runs in
// other partitions get their permits through runs of workflow flowgen.permit.

var (
	room  = limit.New("test.room", limit.Config{AtOnce: 1})
	one   = func(int) []limit.Use { return []limit.Use{room.Use(1)} }
	named = flowtest.LimitedFlow[int, int]("limits.named", one)
)

// elsewhere returns an option with a workflow ID in another partition than the limit, if the store
// has several partitions.
func elsewhere(w *flowtest.World, n int) workflow.StartOption {
	home := int(room.Use(1).Slot) % w.Store.Partitions()
	return w.In(home+1, fmt.Sprint("named ", n))
}

// nothingHeld waits until no permits are held or waited for.
func nothingHeld(w *flowtest.World) {
	w.T.Helper()
	w.Eventually("all permits were given back", func() bool {
		all, err := ops.New(w.Client).Limits().List(w.Ctx)
		for _, l := range all {
			if l.Name == room.Name() && (l.Held != 0 || l.Waits != 0) {
				return false
			}
		}
		return err == nil
	})
}

// othersWait waits until many runs are running or wait for the only permit. The workflow IDs of the
// runs are id with the numbers from 0.
func othersWait(w *flowtest.World, under *gauge, id string, many int) {
	w.T.Helper()
	w.Eventually("one is under way, and the others wait", func() bool {
		waits := 0
		for n := range many {
			info, err := w.Client.RunByID(fmt.Sprint(id, n)).Info(w.Ctx)
			if err == nil && slices.Contains(info.Waits, room.Name()) {
				waits++
			}
		}
		now := int(under.now.Load())
		return now >= 1 && now+waits == many
	})
}

func TestPOOL2_RunsWithWorkflowIDsHoldTheirPermitsFromTheirCodesBeginToTheirEnds(t *testing.T) {
	flowtest.OnPartitions(t, 4, func(t *testing.T, w *flowtest.World) {
		var under gauge
		all := make(chan struct{}) // closed when all other runs wait; until then the test can detect a second permit
		nap := flowtest.AStep[int, int]("limits.namednap", shim.Policy{})
		for range 2 {
			w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, n int) (int, error) {
				if _, err := nap.Call(ctx, n); err != nil {
					return 0, err
				}
				if err := workflow.Sleep(ctx, 1); err != nil { // the run keeps its permit while it sleeps
					return 0, err
				}
				switch n % 4 {
				case 1:
					return 0, errors.New("it fails")
				case 2:
					return 0, named.ContinueAsNew(ctx, n+2)
				}
				return nap.Call(ctx, n)
			}), nap.As(func(ctx context.Context, n int) (int, error) {
				defer under.enter()()
				select {
				case <-all:
				case <-ctx.Done():
				}
				return n, ctx.Err()
			}))
		}
		var runs []*workflow.Run[int]
		for n := range 12 {
			runs = append(runs, flowtest.Start(w, named, n, workflow.WithID(fmt.Sprint("named ", n))))
		}
		othersWait(w, &under, "named ", 12)
		close(all)
		for n, run := range runs {
			if n%4 == 1 {
				flowtest.Failure(w, run)
			} else {
				flowtest.Result(w, run)
			}
		}
		if most := under.most.Load(); most != 1 {
			t.Errorf("%d at once, want 1", most)
		}
		nothingHeld(w)
		if others := w.List(workflow.Filter{Workflow: event.PermitRun}); w.Store.Partitions() > 1 && len(others) < 2 || w.Store.Partitions() == 1 && len(others) != 0 {
			t.Errorf("%d runs took permits for others", len(others))
		}
		if all := w.List(workflow.Filter{}); len(all) != 12+3 {
			t.Errorf("a list has %d runs, want those that were started, and continued", len(all))
		}
	})
}

func TestPOOL2_ARunThatWaitsForItsPermitRunSaysSoAndLeavesWhenItIsCanceled(t *testing.T) {
	topic := workflow.NewTopic[int]("go")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var begun atomic.Int64
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, _ int) (int, error) {
			begun.Add(1)
			return topic.Receive(ctx)
		}))
		first := flowtest.Start(w, named, 1, elsewhere(w, 1))
		w.Eventually("the first has begun", func() bool { return begun.Load() == 1 })
		second, third := flowtest.Start(w, named, 2, elsewhere(w, 2)), flowtest.Start(w, named, 3, elsewhere(w, 3))
		for _, run := range []*workflow.Run[int]{second, third} {
			w.Eventually("it says for what it waits", func() bool {
				info, err := run.Info(w.Ctx)
				return err == nil && len(info.Waits) == 1 && info.Waits[0] == "test.room"
			})
		}
		if err := second.Cancel(w.Ctx, "not wanted"); err != nil {
			t.Fatal(err)
		}
		if e := flowtest.Failure(w, second); !errors.Is(e, workflow.ErrCanceled) {
			t.Errorf("the canceled one ended with %v", e)
		}
		for _, run := range []*workflow.Run[int]{first, third} {
			if err := topic.Send(w.Ctx, run, 9); err != nil {
				t.Fatal(err)
			}
			if got := flowtest.Result(w, run); got != 9 {
				t.Errorf("got %d", got)
			}
		}
		if n := begun.Load(); n != 2 {
			t.Errorf("the code was begun %d times, want not for the one that was canceled in line", n)
		}
		nothingHeld(w)
	})
}

func TestPOOL2_NobodyBeginsWithoutThePermitOfAnotherPartitionThoughWorkersDie(t *testing.T) {
	nap := flowtest.AStep[int, int]("limits.dyingnap", shim.Policy{Retry: flowtest.Quick})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var under gauge
		var kills atomic.Int64
		fleet := w.Keep(3, worker.Config{}, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{
				flowtest.As(named, func(ctx workflow.Context, n int) (int, error) { return nap.Call(ctx, n) }),
				nap.As(func(ctx context.Context, n int) (int, error) {
					leave := under.enter()
					if kills.Add(1) == 3 {
						leave()
						die()
						<-ctx.Done()
						return 0, ctx.Err()
					}
					defer leave()
					time.Sleep(time.Millisecond) // makes concurrent attempts overlap
					return n, nil
				}),
			}
		})
		var runs []*workflow.Run[int]
		for n := range 8 {
			runs = append(runs, flowtest.Start(w, named, n, elsewhere(w, n)))
		}
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
		if most := under.most.Load(); most != 1 {
			t.Errorf("%d at once, want 1", most)
		}
		if fleet.Deaths.Load() == 0 {
			t.Error("no worker has died")
		}
		nothingHeld(w)
	})
}

func TestPOOL3_ARunWhosePermitRunIsTooHeavyFailsWithItsReason(t *testing.T) {
	lowered := limit.New("test.lowered", limit.Config{AtOnce: 3})
	heavy := flowtest.LimitedFlow[int, int]("limits.namedheavy", func(n int) []limit.Use { return []limit.Use{lowered.Use(n)} })
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		if w.Store.Partitions() == 1 {
			return // with one partition, the start is refused as in the other tests
		}
		if err := ops.New(w.Client).Limits().Set(w.Ctx, lowered, limit.Config{AtOnce: 1}); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.As(heavy, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		flowtest.Result(w, flowtest.Start(w, heavy, 1, elsewhere(w, 1)))
		e := flowtest.Failure(w, flowtest.Start(w, heavy, 3, elsewhere(w, 2)))
		if e.Code != "overlimit" || !strings.Contains(e.Error(), "test.lowered") || !strings.Contains(e.Error(), "a weight of 3") {
			t.Errorf("it ended with %v with code %s, want code overlimit, the limit and the weight", e, e.Code)
		}
		nothingHeld(w)
	})
}

func TestPOOL2_AChildWithAWorkflowIDTakesItsPermitsElsewhereToo(t *testing.T) {
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var under gauge
		all := make(chan struct{}) // closed when all other runs wait
		nap := flowtest.AStep[int, int]("limits.childnap", shim.Policy{})
		w.Work(worker.Config{},
			flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) {
				return named.StartChild(ctx, n, workflow.WithID(fmt.Sprint("child ", n))).Get(ctx)
			}),
			flowtest.As(named, func(ctx workflow.Context, n int) (int, error) { return nap.Call(ctx, n) }),
			nap.As(func(ctx context.Context, n int) (int, error) {
				defer under.enter()()
				select {
				case <-all:
				case <-ctx.Done():
				}
				return n, ctx.Err()
			}))
		var runs []*workflow.Run[int]
		for n := range 6 {
			runs = append(runs, flowtest.Start(w, renders, n))
		}
		othersWait(w, &under, "child ", 6)
		close(all)
		for n, run := range runs {
			if got := flowtest.Result(w, run); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
		}
		if most := under.most.Load(); most != 1 {
			t.Errorf("%d at once, want 1", most)
		}
		nothingHeld(w)
	})
}

func TestPOOL2_APermitOfAnotherPartitionIsTakenAndGivenBackOnceWhereverAWorkerCrashes(t *testing.T) {
	nap := flowtest.AStep[int, int]("limits.crashnap", shim.Policy{})
	setup := func(e *workflowtest.Env) {
		shim.BindWorkflow(e, renders, func(ctx workflow.Context, n int) (int, error) {
			first, second := named.StartChild(ctx, n, workflow.WithID("named a")), named.StartChild(ctx, n, workflow.WithID("named b"))
			one, err := first.Get(ctx)
			if err != nil {
				return 0, err
			}
			two, err := second.Get(ctx)
			return one + two, err
		})
		shim.BindWorkflow(e, named, func(ctx workflow.Context, n int) (int, error) { return nap.Call(ctx, n) })
		nap.As(func(_ context.Context, n int) (int, error) { return n, nil })(e)
	}
	open := func(testing.TB) store.Store { return memstore.NewWith(memstore.Config{Partitions: 3}) }
	workflowtest.CrashEverywhere(t, renders, 3, setup, workflowtest.WithStore(open), workflowtest.Sample(40), workflowtest.Pairs(10))
}

func TestPOOL2_ARunWithAPermitRunIsRetriedAndRestarted(t *testing.T) {
	nap := flowtest.AStep[int, int]("limits.failsnap", shim.Policy{})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var fails atomic.Bool
		fails.Store(true)
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, n int) (int, error) {
			if _, err := nap.Call(ctx, n); err != nil || fails.Load() {
				return 0, errors.Join(err, errors.New("it fails"))
			}
			return n, nil
		}), nap.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		run := flowtest.Start(w, named, 1, elsewhere(w, 1))
		flowtest.Failure(w, run)
		fails.Store(false)
		for what, rerun := range map[string]func() (*workflow.Run[int], error){
			"retry":   func() (*workflow.Run[int], error) { return run.Retry(w.Ctx) },
			"restart": func() (*workflow.Run[int], error) { return run.Restart(w.Ctx) },
		} {
			again, err := rerun()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := again.Result(w.Ctx); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			nothingHeld(w)
		}
	})
}

func TestPOOL6_TheRunsOfAScheduleTakeTheirPermits(t *testing.T) {
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var under gauge
		var done atomic.Int64
		nap := flowtest.AStep[int, int]("limits.ticknap", shim.Policy{})
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, n int) (int, error) {
			defer done.Add(1)
			return nap.Call(ctx, n)
		}), nap.As(func(_ context.Context, n int) (int, error) {
			defer under.enter()()
			time.Sleep(time.Millisecond) // makes concurrent attempts overlap
			return n, nil
		}))
		if err := named.Schedule(w.Ctx, w.Client, "limited", schedule.Spec{When: "every 1h", Overlap: schedule.Allow}, 1); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if _, err := ops.New(w.Client).Schedules().Trigger(w.Ctx, "limited"); err != nil {
				t.Fatal(err)
			}
		}
		w.Eventually("all runs have ended", func() bool {
			return len(w.List(workflow.Filter{Workflow: named.Name(), Statuses: []workflow.Status{workflow.StatusCompleted}})) == 6
		})
		if most := under.most.Load(); most != 1 {
			t.Errorf("%d at once, want 1", most)
		}
		nothingHeld(w)
	})
}

func TestRUN3_ARunWhosePermitRunIsNotServedInTimeFailsWithoutItsCode(t *testing.T) {
	topic := workflow.NewTopic[int]("go")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var begun atomic.Int64
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, _ int) (int, error) {
			begun.Add(1)
			return topic.Receive(ctx)
		}))
		first := flowtest.Start(w, named, 1, elsewhere(w, 1))
		w.Eventually("the first has begun", func() bool { return begun.Load() == 1 })
		late := flowtest.Start(w, named, 2, elsewhere(w, 2), workflow.WithStartBy(time.Millisecond))
		if w.Store.Partitions() == 1 { // with one partition, a worker ends the run when it is admitted
			info, err := late.Info(w.Ctx)
			flowtest.Order(t, err)
			w.Eventually("it is too late", func() bool { return !w.Store.Clock().Now().Before(info.StartBy) })
			flowtest.Order(t, topic.Send(w.Ctx, first, 9))
		}
		if e := flowtest.Failure(w, late); e.Code != event.CodeNotStarted {
			t.Errorf("got %v", e)
		}
		if w.Store.Partitions() > 1 {
			flowtest.Order(t, topic.Send(w.Ctx, first, 9))
		}
		if got := flowtest.Result(w, first); got != 9 || begun.Load() != 1 {
			t.Errorf("the first: got %d, the code was begun %d times", got, begun.Load())
		}
		nothingHeld(w)
	})
}

func TestPOOL2_AMessageOfSomebodyElseBringsNoPermits(t *testing.T) {
	topic := workflow.NewTopic[int]("go")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var begun atomic.Int64
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, _ int) (int, error) {
			begun.Add(1)
			return topic.Receive(ctx)
		}))
		first := flowtest.Start(w, named, 1, elsewhere(w, 1))
		w.Eventually("the first has begun", func() bool { return begun.Load() == 1 })
		second := flowtest.Start(w, named, 2, elsewhere(w, 2))
		w.Eventually("the second waits", func() bool {
			info, err := second.Info(w.Ctx)
			return err == nil && len(info.Waits) == 1
		})
		w.Forge(second, event.PermitRun, `1`)
		if w.Store.Partitions() > 1 {
			w.Reach(second, event.MessageReceived, 1)
		}
		if n := begun.Load(); n != 1 {
			t.Errorf("%d have begun, want 1", n)
		}
		for _, run := range []*workflow.Run[int]{first, second} {
			flowtest.Order(t, topic.Send(w.Ctx, run, 9))
			_ = flowtest.Result(w, run)
		}
		nothingHeld(w)
	})
}

// TestPOOL2_APermitRunThatComesTooLateEnds proves that a permit run that begins after the run which
// it serves has ended releases its permits and ends.
func TestPOOL2_APermitRunThatComesTooLateEnds(t *testing.T) {
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		if w.Store.Partitions() == 1 {
			return // runs need no permit runs
		}
		w.Work(worker.Config{}, flowtest.As(named, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		gone := flowtest.Start(w, named, 1, elsewhere(w, 1))
		_ = flowtest.Result(w, gone)
		nothingHeld(w)
		slot := room.Use(1).Slot
		spec := &event.Spec{Workflow: event.PermitRun, Queue: workflow.DefaultQueue, Parent: gone.ID(), ParentKey: event.PermitRun, Root: gone.ID(), Depth: 1,
			Uses: []event.Use{{Limit: room.Name(), Weight: 1}}, Whole: true}
		late := event.DerivedRunID(gone.ID(), "once more", slot) // a failover of its partition may restore such a run
		created := event.Event{Seq: 1, Type: event.RunCreated, Time: w.Store.Clock().Now(), Spec: spec}
		frame, err := event.AppendFrame(nil, &event.Frame{CommitID: event.NewCommitID(), Time: created.Time, Events: []event.Event{created}})
		flowtest.Order(t, err)
		f, err := event.DecodeFrame(frame)
		flowtest.Order(t, err)
		answer, err := w.Store.Create(w.Ctx, []store.Create{{
			Run: late, Route: store.Route{Queue: spec.Queue, Workflow: spec.Workflow}, Parent: spec.Parent, Root: spec.Root,
			CommitID: f.CommitID, Frame: frame, Seq: 1, Uses: []store.Use{{LimitID: store.LimitID{Name: room.Name()}, Weight: 1}}, Whole: true,
		}})
		flowtest.Order(t, errors.Join(err, answer[0].Err))
		w.Eventually("it has ended", func() bool {
			info, err := w.Client.Run(late).Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusFailed
		})
		nothingHeld(w)
	})
}
