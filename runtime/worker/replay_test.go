//go:build !inmemory

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestFLOW3_ASleepOfThirtyDaysSurvivesTheStopOfEveryWorker(t *testing.T) {
	naps := flowtest.Flow[workflow.None, time.Duration]("naps")
	code := flowtest.As(naps, func(ctx workflow.Context, _ workflow.None) (time.Duration, error) {
		begun := workflow.Now(ctx)
		err := workflow.Sleep(ctx, 30*24*time.Hour)
		return workflow.Now(ctx).Sub(begun), err
	})
	w := flowtest.NewVirtual(t)
	first := w.Work(worker.Config{}, code)
	run := flowtest.Start(w, naps, workflow.None{})
	due := w.Reach(run, event.WaitCreated, 1).Due
	first.Stop()
	w.Clock.Advance(20 * 24 * time.Hour)
	second := w.Work(worker.Config{}, code)
	if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusSleeping || !info.Due.Equal(due) {
		t.Errorf("on day 20: %v, due %v, %v; want sleeping until %v", info.Status, info.Due, err, due)
	}
	w.Clock.Advance(10*24*time.Hour - time.Millisecond)
	if n := len(flowtest.Filter(w.Log(run), event.WaitCompleted)); n != 0 {
		t.Error("the sleep was shortened")
	}
	second.Stop()
	w.Clock.Advance(time.Millisecond)
	w.Work(worker.Config{}, code)
	if got := flowtest.Result(w, run); !flowtest.Exactly(got, 30*24*time.Hour) {
		t.Errorf("slept for %v", got)
	}
}

func TestFLOW3_AnElapsedSleepCompletesAtOnce(t *testing.T) {
	naps := flowtest.Flow[workflow.None, time.Duration]("naps")
	code := flowtest.As(naps, func(ctx workflow.Context, _ workflow.None) (time.Duration, error) {
		begun := workflow.Now(ctx)
		if err := errors.Join(workflow.Sleep(ctx, 0), workflow.Sleep(ctx, -time.Hour), workflow.SleepUntil(ctx, begun)); err != nil {
			return 0, err
		}
		err := workflow.SleepUntil(ctx, begun.Add(time.Hour))
		return workflow.Now(ctx).Sub(begun), err
	})
	w := flowtest.NewVirtual(t)
	first := w.Work(worker.Config{}, code)
	run := flowtest.Start(w, naps, workflow.None{})
	w.Reach(run, event.WaitCreated, 1) // the other runs were not replayed
	first.Stop()
	w.Clock.Advance(50 * time.Hour)
	w.Work(worker.Config{}, code)
	if got := flowtest.Result(w, run); !flowtest.Exactly(got, 50*time.Hour) {
		t.Errorf("woke after %v, want 50 h: as soon as there was a worker", got)
	}
	if n := len(flowtest.Filter(w.Log(run), event.WaitCreated)); n != 1 {
		t.Errorf("the log has %d waits, want 1", n)
	}
}

// values contains the values that workflow code gets from the engine.
type values struct {
	Now, Later    string
	Numbers       []int
	ID, BranchID  string
	Recorded      int
	RecordedError string
	Length        int
}

func TestFLOW4_ValuesAreTheSameInEveryReplay(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store {
			return memstore.NewWith(memstore.Config{Clock: zoned{store.SystemClock}})
		},
		"sqlite": func(t *testing.T) store.Store {
			st, err := sqlitestore.OpenWith(filepath.Join(t.TempDir(), "f.db"), sqlitestore.Config{Clock: zoned{store.SystemClock}})
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			var executions flowtest.Seen[values]
			recorded := 0
			code := []flowtest.Binding{flowtest.Parks, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }), flowtest.As(valued, func(ctx workflow.Context, _ workflow.None) (values, error) {
				v := look(ctx, &recorded)
				executions.Add(v)
				_, err := flowtest.Wake.Receive(ctx)
				return v, err
			})}
			first := w.Work(worker.Config{Parked: 1}, code...)
			run := flowtest.Start(w, valued, workflow.None{})
			w.Reach(run, event.WaitCreated, 2)
			for range 3 { // evicts the run from memory
				w.Reach(flowtest.Start(w, flowtest.Parker, "x"), event.WaitCreated, 1)
			}
			first.Stop()
			w.Work(worker.Config{}, code...)
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			got := flowtest.Result(w, run)
			all := executions.Get()
			if len(all) < 2 {
				t.Fatalf("the code was executed %d times: nothing was replayed", len(all))
			}
			for i, v := range all {
				if diff := cmp.Diff(got, v); diff != "" {
					t.Errorf("execution %d differs from the result (-result +execution):\n%s", i+1, diff)
				}
			}
			if recorded != 1 {
				t.Errorf("the recorded function ran %d times", recorded)
			}
			if want := "UTC"; got.Now[len(got.Now)-len(want):] != want {
				t.Errorf("Now is %s, want it in UTC", got.Now)
			}
		})
	}
}

var valued = flowtest.Flow[workflow.None, values]("valued")

// look reads all values that could differ between two executions.
func look(ctx workflow.Context, recorded *int) values {
	v := values{Now: workflow.Now(ctx).String(), ID: workflow.UUID(ctx)}
	for range 5 {
		v.Numbers = append(v.Numbers, workflow.Rand(ctx).IntN(1_000_000))
	}
	v.BranchID, _ = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return workflow.UUID(ctx), nil }).Get(ctx)
	v.Recorded, _ = workflow.Record(ctx, func() (int, error) { *recorded++; return *recorded, nil })
	_, err := workflow.Record(ctx, func() (int, error) { return 0, fmt.Errorf("no: %w", context.Canceled) })
	v.RecordedError = fmt.Sprint(err, errors.Is(err, context.Canceled))
	_ = workflow.Sleep(ctx, time.Millisecond)
	_, _ = flowtest.Work1.Call(ctx, 1)
	v.Later, v.Length = workflow.Now(ctx).String(), workflow.LogLength(ctx)
	return v
}

// zoned is a clock whose times are in a time zone, like those of a machine's clock.
type zoned struct{ store.Clock }

func (z zoned) Now() time.Time { return z.Clock.Now().In(time.FixedZone("X", 3*3600)) }

func TestFLOW4_RandomNumbersDifferBetweenRunsAndBranches(t *testing.T) {
	ids := flowtest.Flow[workflow.None, []string]("ids")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(ids, func(ctx workflow.Context, _ workflow.None) ([]string, error) {
		f := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return workflow.UUID(ctx), nil })
		b, err := f.Get(ctx)
		return []string{workflow.UUID(ctx), workflow.UUID(ctx), b}, err
	}))
	different := map[string]bool{}
	for range 10 {
		for _, id := range flowtest.Result(w, flowtest.Start(w, ids, workflow.None{})) {
			different[id] = true
			if len(id) != 36 || id[14] != '4' {
				t.Errorf("%q is not a version 4 UUID", id)
			}
		}
	}
	if len(different) != 30 {
		t.Errorf("30 UUIDs have %d values", len(different))
	}
}

// TestFLOW4_UUIDsAndRandomNumbersAreSeparate proves that code which draws an additional UUID or
// random number changes no other value in existing runs. The other kind and the values of other
// branches remain the same.
func TestFLOW4_UUIDsAndRandomNumbersAreSeparate(t *testing.T) {
	drawn := flowtest.Flow[int, int]("drawn")
	type draws struct{ first, number, uuid, branch string }
	code := func(moreUUIDs, moreNumbers int, got *flowtest.Seen[draws]) flowtest.Binding {
		return flowtest.As(drawn, func(ctx workflow.Context, _ int) (int, error) {
			d := draws{first: workflow.UUID(ctx)}
			for range moreUUIDs {
				workflow.UUID(ctx)
			}
			for range moreNumbers {
				workflow.Rand(ctx).Int()
			}
			d.number, d.uuid = fmt.Sprint(workflow.Rand(ctx).Int()), workflow.UUID(ctx)
			d.branch, _ = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return workflow.UUID(ctx), nil }).Get(ctx)
			got.Add(d)
			for {
				if n, err := flowtest.Numbers.Receive(ctx); err != nil || n == 0 {
					return n, err
				}
			}
		})
	}
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var got [3]flowtest.Seen[draws]
		var run *workflow.Run[int]
		for i, c := range []flowtest.Binding{code(0, 0, &got[0]), code(1, 0, &got[1]), code(0, 1, &got[2])} {
			worker := w.Work(worker.Config{}, c)
			if i == 0 {
				run = flowtest.Start(w, drawn, 0)
			} else {
				w.Send(run, i) // the message makes this worker claim the run
			}
			w.Reach(run, event.WaitCreated, i+1)
			worker.Stop()
		}
		was, uuid, number := got[0].Get()[0], got[1].Get()[0], got[2].Get()[0]
		if uuid.first != was.first || uuid.number != was.number || uuid.branch != was.branch || uuid.uuid == was.uuid {
			t.Errorf("with one UUID more: got %+v, want but for the last UUID %+v", uuid, was)
		}
		if number.number == was.number || number.first != was.first || number.uuid != was.uuid || number.branch != was.branch {
			t.Errorf("with one number more: got %+v, want but for the number %+v", number, was)
		}
	})
}

func TestFLOW12_EachReplaySeesTheOriginalInput(t *testing.T) {
	type order struct {
		Lines []string
		Tags  map[string]int
	}
	spoils := flowtest.Flow[order, int]("spoils")
	w := flowtest.NewMemory(t)
	var got flowtest.Seen[order]
	code := []flowtest.Binding{flowtest.Parks, flowtest.As(spoils, func(ctx workflow.Context, in order) (int, error) {
		got.Add(order{append([]string(nil), in.Lines...), map[string]int{"a": in.Tags["a"], "n": len(in.Tags)}})
		in.Lines[0], in.Tags["a"], in.Tags["b"] = "spoilt", 99, 1
		workflow.Info(ctx).Tags["t"] = "spoilt"
		_, err := flowtest.Wake.Receive(ctx)
		in.Lines = append(in.Lines, "more")
		return len(workflow.Info(ctx).Tags["t"]), err
	})}
	first := w.Work(worker.Config{Parked: 1}, code...)
	in := order{[]string{"one", "two"}, map[string]int{"a": 1}}
	run := flowtest.Start(w, spoils, in, workflow.WithTags(map[string]string{"t": "u"}))
	w.Reach(run, event.WaitCreated, 1)
	first.Stop()
	w.Work(worker.Config{}, code...)
	if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
		t.Fatal(err)
	}
	if n := flowtest.Result(w, run); n != 1 {
		t.Errorf("the code could change its run's tags: got %d", n)
	}
	want := order{[]string{"one", "two"}, map[string]int{"a": 1, "n": 1}}
	if diff := cmp.Diff([]order{want, want}, got.Get()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFLOW4_TheLoggerIsSilentInReplay proves that workflow code logs a line once. Neither a replay
// nor the unwinding of code that leaves the memory repeats the line.
func TestFLOW4_TheLoggerIsSilentInReplay(t *testing.T) {
	chatty := flowtest.Flow[workflow.None, int]("chatty")
	w := flowtest.NewMemory(t)
	code := []flowtest.Binding{flowtest.Parks, flowtest.As(chatty, func(ctx workflow.Context, _ workflow.None) (int, error) {
		log := workflow.Logger(ctx).With("part", 1).WithGroup("g")
		defer func() { log.Info("line at the end", "err", ctx.Err()) }()
		log.Info("line one")
		end := workflow.GoErr(ctx, func(ctx workflow.Context) error {
			_, err := workflow.NewTopic[string]("end").Receive(ctx)
			return err
		})
		quiet := workflow.GoErr(ctx, func(ctx workflow.Context) error {
			if _, err := flowtest.Wake.Receive(ctx); err != nil {
				return err
			}
			workflow.Logger(ctx).Info("line two") // no durable operation follows this line
			_, err := end.Get(ctx)
			return err
		})
		_, err := quiet.Get(ctx)
		return 1, err
	})}
	run := flowtest.Start(w, chatty, workflow.None{})
	for i := range 4 { // each message causes a new execution of the code
		wk := w.Work(worker.Config{Parked: 1}, code...)
		if i == 1 {
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			w.Reach(run, event.MessageReceived, 1)
		} else {
			w.Reach(flowtest.Start(w, flowtest.Parker, "x"), event.WaitCreated, 1)
			w.Reach(run, event.WaitCreated, 2)
		}
		wk.Stop()
	}
	w.Work(worker.Config{}, code...)
	if err := workflow.NewTopic[string]("end").Send(w.Ctx, run, "x"); err != nil {
		t.Fatal(err)
	}
	_ = flowtest.Result(w, run)
	w.StopWorkers()
	for _, line := range []string{"line one", "line two", "line at the end"} {
		if n := w.Logs.Count(line); n != 1 {
			t.Errorf("%q was logged %d times, want once", line, n)
		}
	}
	if logs := w.Logs.String(); !flowtest.ContainsAll(logs, "run="+string(run.ID()), "workflow=test.chatty", "part=1") {
		t.Errorf("the lines do not name the run:\n%s", logs)
	}
}
