package schedules_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestPOOL6_EveryWorkerTogetherStartEachTickOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for range 3 {
			w.Work(worker.Config{}, nightly)
		}
		setNightly(w, schedule.Spec{When: "every 1s", Overlap: schedule.Allow})
		info := await(w, "three ticks", func(i schedule.Info) bool { return i.Started >= 3 })
		for _, s := range info.Recent {
			ran(w, s.Tick)
		}
		call(t, ops.New(w.Client).Schedules().Delete(w.Ctx, "nightly"))
		w.StopWorkers()
		found := started(w, Nightly.Name())
		ticks := slices.Sorted(maps.Keys(found))
		first := at(t, ticks[0])
		want := map[string]int{}
		for i := range ticks { // the ticks have no gap
			want[first.Add(time.Duration(i)*time.Second).Format(time.RFC3339)] = 1
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("runs by tick (-want +got):\n%s", diff)
		}
		w.Healthy()
	})
}

func TestPOOL6_WhatIsAskedOfAScheduleReachesItOnEveryStore(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		s := ops.New(w.Client).Schedules()
		setNightly(w, schedule.Spec{When: "0 0 1 1 * Europe/Zurich"})
		setNightly(w, schedule.Spec{When: "0 0 1 1 * Europe/Zurich"}) // the same schedule again has no effect

		call(t, s.Pause(w.Ctx, "nightly", "stocktaking"))
		if info := await(w, "it is paused", func(i schedule.Info) bool { return i.Paused }); info.Note != "stocktaking" || !info.Next.IsZero() {
			t.Errorf("paused: got %+v", info)
		}
		trigger(w) // a trigger works during a pause
		call(t, s.Resume(w.Ctx, "nightly"))
		info := await(w, "it goes on", func(i schedule.Info) bool { return !i.Paused })
		if got := info.Next; got.Month() != time.January || got.Day() != 1 || got.Hour() != 0 || !got.After(time.Now()) {
			t.Errorf("next tick: got %v", got)
		}

		call(t, s.Update(w.Ctx, "nightly", schedule.Spec{When: "0 12 * * *", Overlap: schedule.Allow, Jitter: time.Minute}))
		info = await(w, "it is another one", func(i schedule.Info) bool { return i.When == "0 12 * * *" })
		if info.Next.Hour() != 12 || info.Workflow != Nightly.Name() || info.Jitter != time.Minute {
			t.Errorf("after the update: got %+v", info)
		}

		noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for range 2 { // in the second round, each tick already has a run
			call(t, s.Backfill(w.Ctx, "nightly", schedule.Backfill{From: noon, To: noon.AddDate(0, 0, 120)}))
		}
		await(w, "the backfills are done", func(i schedule.Info) bool { return i.Started == 1+2*120 && len(i.Backfills) == 0 })
		for day := range 120 {
			ran(w, noon.AddDate(0, 0, day))
		}
		if got := len(started(w, Nightly.Name())); got != 121 {
			t.Errorf("runs: got %d, want 121", got)
		}

		var names []string
		for info, err := range s.List(w.Ctx) {
			call(t, err)
			names = append(names, info.Name)
		}
		if diff := cmp.Diff([]string{"nightly"}, names); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		call(t, s.Delete(w.Ctx, "nightly"))
		if _, err := s.Get(w.Ctx, "nightly"); !errors.Is(err, ops.ErrScheduleNotFound) {
			t.Errorf("Get after Delete: got %v", err)
		}
		setNightly(w, schedule.Spec{When: "every 24h"}) // the name of the deleted schedule is free
		if info := get(w, "nightly"); info.When != "every 24h" || info.Started != 0 {
			t.Errorf("a new one: got %+v", info)
		}
		w.StopWorkers()
		w.Healthy()
	})
}

// TestPOOL6_AScheduleFollowsItsWorkflowToAnotherQueue proves that a schedule moves to the new queue
// of its workflow. When it has moved, the operator may stop the workers of the old queue.
func TestPOOL6_AScheduleFollowsItsWorkflowToAnotherQueue(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		old := w.Work(worker.Config{}, nightly)
		never := schedule.Spec{When: "0 0 1 1 *", Overlap: schedule.Allow}
		setNightly(w, never)
		first := get(w, "nightly").Run
		call(t, Nightly.Schedule(w.Ctx, w.Client, "nightly", never, "in", workflow.WithQueue("moved")))
		call(t, ops.New(w.Client).Schedules().Pause(w.Ctx, "nightly", "stays"))
		info := await(w, "it is another run", func(i schedule.Info) bool { return i.Run != first })
		old.Stop()
		if run, err := w.Client.Run(info.Run).Info(w.Ctx); err != nil || run.Queue != "moved" || run.Workflow != event.ScheduleRun {
			t.Errorf("got a run on queue %q, %v", run.Queue, err)
		}
		w.Work(worker.Config{Queues: []string{"moved"}}, nightly)
		info = await(w, "it is paused", func(i schedule.Info) bool { return i.Paused })
		if info.Queue != "moved" || info.Note != "stays" {
			t.Errorf("got %+v", info)
		}
		trigger(w)
		w.StopWorkers()
		w.Healthy()
	})
}

func TestPOOL6_AScheduleGoesOnAsNewRunsAndKeepsItsLogShort(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		setNightly(w, schedule.Spec{When: "every 24h", Overlap: schedule.Allow})
		first := own(w)
		from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		call(t, ops.New(w.Client).Schedules().Backfill(w.Ctx, "nightly", schedule.Backfill{From: from, To: from.AddDate(0, 0, 350)}))
		info := await(w, "all are started", func(i schedule.Info) bool { return i.Started == 350 })
		ran(w, from.AddDate(0, 0, 349))
		if got := len(started(w, Nightly.Name())); got != 350 {
			t.Errorf("runs: got %d, want 350", got)
		}
		events := w.Log(first)
		if last := events[len(events)-1]; last.Type != event.RunContinued || len(events) > 500 || info.Run == first.ID() {
			t.Errorf("the first run of the schedule has %d events, the last is %s; the schedule is run %s now", len(events), last.Type, info.Run)
		}
		if len(info.Recent) != 10 {
			t.Errorf("recent: got %d, want 10", len(info.Recent))
		}
		w.StopWorkers()
		w.Healthy()
	})
}

func TestPOOL6_OverlapDecidesWhatATickDoesThatFindsARun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, stays)
		s := ops.New(w.Client).Schedules()
		begin := func(name string, o schedule.Overlap) (first, second *workflow.Run[string]) {
			call(t, Stays.Schedule(w.Ctx, w.Client, name, schedule.Spec{When: "0 0 1 1 *", Overlap: o}, ""))
			var runs []*workflow.Run[string]
			for range 2 {
				id, err := s.Trigger(w.Ctx, name)
				call(t, err)
				runs = append(runs, Stays.Get(w.Client, id))
				eventually(w, "the schedule has an answer", func() bool {
					info := get(w, name)
					_, err := runs[len(runs)-1].Info(w.Ctx)
					return err == nil || info.Skipped > 0
				})
			}
			return runs[0], runs[1]
		}

		first, second := begin("skips", schedule.Skip)
		if _, err := second.Info(w.Ctx); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("the second run of one that skips: got %v", err)
		}
		if info := get(w, "skips"); info.Started != 1 || info.Skipped != 1 || info.Recent[1].Skipped == "" {
			t.Errorf("skips: got %+v", info)
		}
		call(t, leave.Send(w.Ctx, first, "left"))
		flowtest.Result(w, first)

		first, second = begin("replaces", schedule.Replace)
		if err := flowtest.Failure(w, first); !errors.Is(err, workflow.ErrCanceled) {
			t.Errorf("the first run of one that replaces: got %v", err)
		}
		call(t, leave.Send(w.Ctx, second, "left"))
		flowtest.Result(w, second)

		first, second = begin("queues", schedule.Queue)
		third, err := s.Trigger(w.Ctx, "queues")
		call(t, err)
		eventually(w, "the third is in line", func() bool {
			_, err := Stays.Get(w.Client, third).Info(w.Ctx)
			return err == nil
		})
		for _, run := range []*workflow.Run[string]{first, second, Stays.Get(w.Client, third)} {
			call(t, leave.Send(w.Ctx, run, "left"))
			flowtest.Result(w, run)
		}

		first, second = begin("latest", schedule.Latest)
		third, err = s.Trigger(w.Ctx, "latest")
		call(t, err)
		eventually(w, "the third waits", func() bool {
			_, err := Stays.Get(w.Client, third).Info(w.Ctx)
			return err == nil
		})
		for _, run := range []*workflow.Run[string]{first, Stays.Get(w.Client, third)} {
			call(t, leave.Send(w.Ctx, run, "left"))
			flowtest.Result(w, run)
		}
		if err := flowtest.Failure(w, second); !errors.Is(err, workflow.ErrCanceled) {
			t.Errorf("the second run of one that keeps the latest: got %v", err)
		}

		first, second = begin("allows", schedule.Allow)
		for _, run := range []*workflow.Run[string]{first, second} {
			call(t, leave.Send(w.Ctx, run, "left"))
			flowtest.Result(w, run)
		}
		w.StopWorkers()
		w.Healthy()
	})
}

func TestPOOL6_ABadScheduleIsRefusedWithTheFix(t *testing.T) {
	w := flowtest.NewMemory(t)
	s := ops.New(w.Client).Schedules()
	setNightly(w, schedule.Spec{When: "every 1h"})
	long := make([]byte, 201)
	for name, err := range map[string]error{
		`no year has such a day`:                         Nightly.Schedule(w.Ctx, w.Client, "x", schedule.Spec{When: "0 0 31 2 *"}, ""),
		`4 fields: want 5`:                               s.Update(w.Ctx, "nightly", schedule.Spec{When: "0 0 1 *"}),
		`overlap "queued" is not known`:                  s.Update(w.Ctx, "nightly", schedule.Spec{When: "every 1h", Overlap: "queued"}),
		`a catch-up of 1s is not possible`:               s.Update(w.Ctx, "nightly", schedule.Spec{When: "every 1h", CatchUp: time.Second}),
		`a jitter of -1s is not possible`:                s.Update(w.Ctx, "nightly", schedule.Spec{When: "every 1h", Jitter: -time.Second}),
		`has 0 bytes`:                                    Nightly.Schedule(w.Ctx, w.Client, "", schedule.Spec{When: "every 1h"}, ""),
		`the name ends in /run`:                          Nightly.Schedule(w.Ctx, w.Client, "nightly/run", schedule.Spec{When: "every 1h"}, ""),
		`has 201 bytes`:                                  Nightly.Schedule(w.Ctx, w.Client, string(long), schedule.Spec{When: "every 1h"}, ""),
		`WithID: the runs have the workflow id`:          Nightly.Schedule(w.Ctx, w.Client, "x", schedule.Spec{When: "every 1h"}, "", workflow.WithID("x")),
		`the schedule decides when the runs begin`:       Nightly.Schedule(w.Ctx, w.Client, "x", schedule.Spec{When: "every 1h"}, "", workflow.WithDelay(1)),
		`has no ticks: To is exclusive`:                  s.Backfill(w.Ctx, "nightly", schedule.Backfill{From: time.Unix(2, 0), To: time.Unix(1, 0)}),
		`is in the future: a backfill is for past ticks`: s.Backfill(w.Ctx, "nightly", schedule.Backfill{From: time.Now().Add(time.Hour), To: time.Now().Add(2 * time.Hour)}),
		`overlap "q" is not known: want one of ["`:       s.Backfill(w.Ctx, "nightly", schedule.Backfill{From: time.Unix(1, 0), To: time.Unix(2, 0), Overlap: "q"}),
	} {
		bad, ok := errors.AsType[*schedule.Error](err)
		if !ok || !contains(bad.Problem, name) {
			t.Errorf("got %v, want a *ScheduleError with %q", err, name)
		}
	}
	for what, err := range map[string]error{
		"pause": s.Pause(w.Ctx, "other", ""), "resume": s.Resume(w.Ctx, "other"), "delete": s.Delete(w.Ctx, "other"),
		"update": s.Update(w.Ctx, "other", schedule.Spec{When: "every 1h"}),
	} {
		if !errors.Is(err, ops.ErrScheduleNotFound) {
			t.Errorf("%s of a schedule that is not there: got %v", what, err)
		}
	}
	// Without a worker, the schedule is listed and can be deleted.
	if info := get(w, "nightly"); info.When != "every 1h" || !info.Unserved {
		t.Errorf("without a worker: got %+v", info)
	}
	call(t, s.Delete(w.Ctx, "nightly"))
	if _, err := Doubling.Start(w.Ctx, w.Client, 1, workflow.WithID(event.ScheduleRunID("taken"))); err != nil {
		t.Fatal(err)
	}
	if err := Nightly.Schedule(w.Ctx, w.Client, "taken", schedule.Spec{When: "every 1h"}, ""); !errors.Is(err, workflow.ErrWrongWorkflow) {
		t.Errorf("a workflow id that is taken: got %v", err)
	}
	if err := s.Pause(w.Ctx, "taken", ""); !errors.Is(err, ops.ErrScheduleNotFound) {
		t.Errorf("a run that is no schedule: got %v", err)
	}
}

// TestPOOL6_AScheduleThatNobodyServesIsShownWithOneWarning proves that a schedule that no worker
// serves is shown as unserved. The log of the other workers contains one warning.
func TestPOOL6_AScheduleThatNobodyServesIsShownWithOneWarning(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, flowtest.Echoes)
		if err := Nightly.Schedule(w.Ctx, w.Client, "nightly", schedule.Spec{When: "every 1h"}, "in", workflow.WithQueue("forgotten")); err != nil {
			t.Fatal(err)
		}
		const message = "a run waits for a worker, but no worker serves it"
		passes := func() {
			w.Clock.Advance(time.Minute)
			flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "time passes"))
		}
		w.Eventually("it is in the log", func() bool {
			passes()
			return len(w.Lines(message)) > 0
		})
		for range 5 {
			passes()
		}
		if lines := w.Lines(message); len(lines) != 1 || !contains(lines[0], "flowgen.schedule") || !contains(lines[0], "forgotten") {
			t.Errorf("the log says:\n%v\nwant one warning that names workflow and queue", lines)
		}
		if info := get(w, "nightly"); !info.Unserved || info.Started != 0 {
			t.Errorf("got %+v, want that it is unserved", info)
		}
	})
}

func TestPOOL6_TicksStartOnceWhileWorkersDieOfTheirRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		fatal := flowtest.AStep[string, string]("fatal", shim.Policy{Retry: flowtest.Quick})
		dies := flowtest.Flow[string, string]("dies")
		var mu sync.Mutex
		died := map[string]bool{}
		f := w.Keep(3, worker.Config{}, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{
				flowtest.As(dies, func(ctx workflow.Context, _ string) (string, error) {
					tick, _ := workflow.Tick(ctx)
					return fatal.Call(ctx, tick.Format(time.RFC3339))
				}),
				fatal.As(func(_ context.Context, tick string) (string, error) {
					mu.Lock()
					first := !died[tick]
					died[tick] = true
					mu.Unlock()
					if first {
						die()
					}
					return tick, nil
				}),
			}
		})
		call(t, dies.Schedule(w.Ctx, w.Client, "nightly", schedule.Spec{When: "every 1s", Overlap: schedule.Allow}, ""))
		info := await(w, "three ticks", func(i schedule.Info) bool { return i.Started >= 3 })
		for _, s := range info.Recent[:3] {
			eventually(w, "the run of the tick exists", func() bool {
				_, err := w.Client.Run(s.Run).Info(w.Ctx)
				return err == nil
			})
			if got, want := flowtest.Result(w, dies.Get(w.Client, s.Run)), s.Tick.Format(time.RFC3339); got != want {
				t.Errorf("result: got %q, want %q", got, want)
			}
		}
		call(t, ops.New(w.Client).Schedules().Delete(w.Ctx, "nightly"))
		for tick, runs := range started(w, dies.Name()) {
			if runs != 1 {
				t.Errorf("tick %s has %d runs", tick, runs)
			}
		}
		if f.Deaths.Load() < 3 {
			t.Errorf("deaths: got %d, want 3 or more", f.Deaths.Load())
		}
	})
}

// TestPOOL6_AScheduleThatHasForgottenItsTicksStartsNoneAgain proves that a schedule starts no tick
// twice, even if it has lost the record of its starts. A failover may cause such a loss. Here the
// schedule is deleted and created again.
func TestPOOL6_AScheduleThatHasForgottenItsTicksStartsNoneAgain(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for round, overlap := range []schedule.Overlap{schedule.Allow, schedule.Skip, schedule.Replace} {
			setNightly(w, schedule.Spec{When: "0 12 * * *", Overlap: overlap})
			call(t, ops.New(w.Client).Schedules().Backfill(w.Ctx, "nightly", schedule.Backfill{From: from, To: from.AddDate(0, 0, 20)}))
			info := await(w, "the ticks are done", func(i schedule.Info) bool { return i.Started+i.Skipped >= 20 && len(i.Backfills) == 0 })
			if info.Skipped != 0 { // the run that a tick already has does not overlap with itself
				t.Errorf("round %d: %d ticks were skipped", round, info.Skipped)
			}
			for day := range 20 {
				ran(w, from.AddDate(0, 0, day))
			}
			call(t, ops.New(w.Client).Schedules().Delete(w.Ctx, "nightly"))
		}
		if got := len(started(w, Nightly.Name())); got != 20 {
			t.Errorf("runs: got %d, want 20", got)
		}
		for tick, runs := range started(w, Nightly.Name()) {
			if runs != 1 {
				t.Errorf("tick %s has %d runs", tick, runs)
			}
		}
		w.StopWorkers()
		w.Healthy()
	})
}

// TestPOOL6_AScheduleThatHasFailedSaysSo proves that the error for a schedule whose run has failed
// names this run. Otherwise the schedule would appear never to have existed.
func TestPOOL6_AScheduleThatHasFailedSaysSo(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, nightly)
	broken := shim.NewWorkflow[string, workflow.None](event.ScheduleRun, "", shim.WorkflowPolicy{})
	run := flowtest.Start(w, broken, "no schedule", workflow.WithID(event.ScheduleRunID("nightly")))
	flowtest.Failure(w, run)
	_, err := ops.New(w.Client).Schedules().Get(w.Ctx, "nightly")
	if !errors.Is(err, ops.ErrScheduleNotFound) || !contains(err.Error(), string(run.ID())+" has failed") {
		t.Errorf("Get: got %v", err)
	}
	setNightly(w, schedule.Spec{When: "every 1h"})
	await(w, "it is there again", func(i schedule.Info) bool { return !i.Next.IsZero() })
}

// pages is a store that calls between after the first page of a list.
type pages struct {
	store.Store
	store.Lister
	between func()
}

func (p *pages) Unwrap() store.Store { return p.Store }

func (p *pages) List(ctx context.Context, q store.Query) (store.Page, error) {
	if q.Cursor != "" && p.between != nil {
		between := p.between
		p.between = nil
		between()
	}
	return p.Lister.List(ctx, q)
}

// The test proves that a list of schedules contains each of them once, even if the runs of some
// continue as new runs between two pages of runs, wherever these were in the list.
func TestPOOL6_AListContainsAScheduleWhoseRunContinuesMeanwhile(t *testing.T) {
	w := flowtest.NewMemory(t)
	var want []string
	for n := range 102 { // a page has 100 runs
		want = append(want, fmt.Sprintf("nightly-%03d", n))
		call(t, Nightly.Schedule(w.Ctx, w.Client, want[n], schedule.Spec{When: "0 0 1 1 *", Overlap: schedule.Allow}, "in"))
	}
	w.Work(worker.Config{}, nightly)
	s := ops.New(w.Client).Schedules()
	lister, _ := store.As[store.Lister](w.Store)
	p := &pages{Store: w.Store, Lister: lister}
	client := workflow.NewClient(p, workflow.ClientConfig{})
	defer client.Close()
	for i, name := range []string{want[0], want[101]} { // the oldest and the newest run are on different pages
		p.between = func() {
			before, err := s.Get(w.Ctx, name)
			call(t, err)
			for range 20 {
				_, err := s.Trigger(w.Ctx, name)
				call(t, err)
			}
			eventually(w, "the schedule continues in another run", func() bool {
				now, err := s.Get(w.Ctx, name)
				call(t, err)
				return now.Run != before.Run
			})
		}
		var got []string
		for info, err := range ops.New(client).Schedules().List(w.Ctx) {
			call(t, err)
			got = append(got, info.Name)
		}
		if p.between != nil {
			t.Fatalf("list %d had one page", i)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("schedules while %s continues (-want +got):\n%s", name, diff)
		}
	}
}
