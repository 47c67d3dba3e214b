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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func TestFLOW3_ASleepOfThirtyDaysSurvivesTheStopOfEveryWorker(t *testing.T) {
	naps := flow[workflow.None, time.Duration]("naps")
	code := as(naps, func(ctx workflow.Context, _ workflow.None) (time.Duration, error) {
		begun := workflow.Now(ctx)
		err := workflow.Sleep(ctx, 30*24*time.Hour)
		return workflow.Now(ctx).Sub(begun), err
	})
	w := newVirtual(t)
	first := w.work(worker.Config{}, code)
	run := start(w, naps, workflow.None{})
	due := w.reach(run, event.WaitCreated, 1).Due
	first.stop()
	w.clock.Advance(20 * 24 * time.Hour)
	second := w.work(worker.Config{}, code)
	if info, err := run.Info(w.ctx); err != nil || info.Status != workflow.StatusSleeping || !info.Due.Equal(due) {
		t.Errorf("on day 20: %v, due %v, %v; want sleeping until %v", info.Status, info.Due, err, due)
	}
	w.clock.Advance(10*24*time.Hour - time.Millisecond)
	if n := len(filter(w.log(run), event.WaitCompleted)); n != 0 {
		t.Error("the sleep was shortened")
	}
	second.stop()
	w.clock.Advance(time.Millisecond)
	w.work(worker.Config{}, code)
	if got := result(w, run); !exactly(got, 30*24*time.Hour) {
		t.Errorf("slept for %v", got)
	}
}

func TestFLOW3_AnElapsedSleepCompletesAtOnce(t *testing.T) {
	naps := flow[workflow.None, time.Duration]("naps")
	code := as(naps, func(ctx workflow.Context, _ workflow.None) (time.Duration, error) {
		begun := workflow.Now(ctx)
		if err := errors.Join(workflow.Sleep(ctx, 0), workflow.Sleep(ctx, -time.Hour), workflow.SleepUntil(ctx, begun)); err != nil {
			return 0, err
		}
		err := workflow.SleepUntil(ctx, begun.Add(time.Hour))
		return workflow.Now(ctx).Sub(begun), err
	})
	w := newVirtual(t)
	first := w.work(worker.Config{}, code)
	run := start(w, naps, workflow.None{})
	w.reach(run, event.WaitCreated, 1) // the others needed none
	first.stop()
	w.clock.Advance(50 * time.Hour)
	w.work(worker.Config{}, code)
	if got := result(w, run); !exactly(got, 50*time.Hour) {
		t.Errorf("woke after %v, want 50 h: as soon as there was a worker", got)
	}
	if n := len(filter(w.log(run), event.WaitCreated)); n != 1 {
		t.Errorf("the log has %d waits, want 1", n)
	}
}

// values has the values that workflow code gets from the engine.
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
			w := newWorld(t, open(t), workflow.ClientConfig{})
			var executions seen[values]
			recorded := 0
			code := []binding{parks, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }), as(valued, func(ctx workflow.Context, _ workflow.None) (values, error) {
				v := look(ctx, &recorded)
				executions.add(v)
				_, err := wake.Receive(ctx)
				return v, err
			})}
			first := w.work(worker.Config{Parked: 1}, code...)
			run := start(w, valued, workflow.None{})
			w.reach(run, event.WaitCreated, 2)
			for range 3 { // push it out of the memory
				w.reach(start(w, parker, "x"), event.WaitCreated, 1)
			}
			first.stop()
			w.work(worker.Config{}, code...)
			if err := wake.Send(w.ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			got := result(w, run)
			all := executions.get()
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

var valued = flow[workflow.None, values]("valued")

// look asks for everything that could differ between two executions.
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
	_, _ = work1.Call(ctx, 1)
	v.Later, v.Length = workflow.Now(ctx).String(), workflow.LogLength(ctx)
	return v
}

// zoned is a clock whose times are in a time zone, as those of the machine are.
type zoned struct{ store.Clock }

func (z zoned) Now() time.Time { return z.Clock.Now().In(time.FixedZone("X", 3*3600)) }

func TestFLOW4_RandomNumbersDifferBetweenRunsAndBranches(t *testing.T) {
	ids := flow[workflow.None, []string]("ids")
	w := newMemory(t)
	w.work(worker.Config{}, as(ids, func(ctx workflow.Context, _ workflow.None) ([]string, error) {
		f := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return workflow.UUID(ctx), nil })
		b, err := f.Get(ctx)
		return []string{workflow.UUID(ctx), workflow.UUID(ctx), b}, err
	}))
	different := map[string]bool{}
	for range 10 {
		for _, id := range result(w, start(w, ids, workflow.None{})) {
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

// Code that asks for one more of the ones does not change the others in runs under way:
// neither the numbers, nor the UUIDs, nor those of other branches.
func TestFLOW4_UUIDsAndRandomNumbersAreSeparate(t *testing.T) {
	drawn := flow[int, int]("drawn")
	type draws struct{ first, number, uuid, branch string }
	code := func(moreUUIDs, moreNumbers int, got *seen[draws]) binding {
		return as(drawn, func(ctx workflow.Context, _ int) (int, error) {
			d := draws{first: workflow.UUID(ctx)}
			for range moreUUIDs {
				workflow.UUID(ctx)
			}
			for range moreNumbers {
				workflow.Rand(ctx).Int()
			}
			d.number, d.uuid = fmt.Sprint(workflow.Rand(ctx).Int()), workflow.UUID(ctx)
			d.branch, _ = workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return workflow.UUID(ctx), nil }).Get(ctx)
			got.add(d)
			for {
				if n, err := numbers.Receive(ctx); err != nil || n == 0 {
					return n, err
				}
			}
		})
	}
	onEachStore(t, func(t *testing.T, w *world) {
		var got [3]seen[draws]
		var run *workflow.Run[int]
		for i, c := range []binding{code(0, 0, &got[0]), code(1, 0, &got[1]), code(0, 1, &got[2])} {
			worker := w.work(worker.Config{}, c)
			if i == 0 {
				run = start(w, drawn, 0)
			} else {
				w.send(run, i) // so that it is taken up by this worker
			}
			w.reach(run, event.WaitCreated, i+1)
			worker.stop()
		}
		was, uuid, number := got[0].get()[0], got[1].get()[0], got[2].get()[0]
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
	spoils := flow[order, int]("spoils")
	w := newMemory(t)
	var got seen[order]
	code := []binding{parks, as(spoils, func(ctx workflow.Context, in order) (int, error) {
		got.add(order{append([]string(nil), in.Lines...), map[string]int{"a": in.Tags["a"], "n": len(in.Tags)}})
		in.Lines[0], in.Tags["a"], in.Tags["b"] = "spoilt", 99, 1
		workflow.Info(ctx).Tags["t"] = "spoilt"
		_, err := wake.Receive(ctx)
		in.Lines = append(in.Lines, "more")
		return len(workflow.Info(ctx).Tags["t"]), err
	})}
	first := w.work(worker.Config{Parked: 1}, code...)
	in := order{[]string{"one", "two"}, map[string]int{"a": 1}}
	run := start(w, spoils, in, workflow.WithTags(map[string]string{"t": "u"}))
	w.reach(run, event.WaitCreated, 1)
	first.stop()
	w.work(worker.Config{}, code...)
	if err := wake.Send(w.ctx, run, "go"); err != nil {
		t.Fatal(err)
	}
	if n := result(w, run); n != 1 {
		t.Errorf("the code could change its run's tags: got %d", n)
	}
	want := order{[]string{"one", "two"}, map[string]int{"a": 1, "n": 1}}
	if diff := cmp.Diff([]order{want, want}, got.get()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A line is written once: not again by a replay, and not by code that is only
// being unwound because its run has to leave the memory.
func TestFLOW4_TheLoggerIsSilentInReplay(t *testing.T) {
	chatty := flow[workflow.None, int]("chatty")
	w := newMemory(t)
	code := []binding{parks, as(chatty, func(ctx workflow.Context, _ workflow.None) (int, error) {
		log := workflow.Logger(ctx).With("part", 1).WithGroup("g")
		defer func() { log.Info("line at the end", "err", ctx.Err()) }()
		log.Info("line one")
		end := workflow.GoErr(ctx, func(ctx workflow.Context) error {
			_, err := workflow.NewTopic[string]("end").Receive(ctx)
			return err
		})
		quiet := workflow.GoErr(ctx, func(ctx workflow.Context) error {
			if _, err := wake.Receive(ctx); err != nil {
				return err
			}
			workflow.Logger(ctx).Info("line two") // nothing durable follows
			_, err := end.Get(ctx)
			return err
		})
		_, err := quiet.Get(ctx)
		return 1, err
	})}
	run := start(w, chatty, workflow.None{})
	for i := range 4 { // each of them executes the code anew
		wk := w.work(worker.Config{Parked: 1}, code...)
		if i == 1 {
			if err := wake.Send(w.ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			w.reach(run, event.MessageReceived, 1)
		} else {
			w.reach(start(w, parker, "x"), event.WaitCreated, 1)
			w.reach(run, event.WaitCreated, 2)
		}
		wk.stop()
	}
	w.work(worker.Config{}, code...)
	if err := workflow.NewTopic[string]("end").Send(w.ctx, run, "x"); err != nil {
		t.Fatal(err)
	}
	_ = result(w, run)
	for _, line := range []string{"line one", "line two", "line at the end"} {
		if n := w.logs.count(line); n != 1 {
			t.Errorf("%q was logged %d times, want once", line, n)
		}
	}
	if logs := w.logs.String(); !containsAll(logs, "run="+string(run.ID()), "workflow=test.chatty", "part=1") {
		t.Errorf("the lines do not name the run:\n%s", logs)
	}
}
