package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// steps calls work1 n times.
var (
	steps   = flow[int, int]("steps")
	doSteps = as(steps, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := work1.Call(ctx, i); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	doWork1 = work1.as(func(_ context.Context, n int) (int, error) { return n, nil })
)

// seqs follows a run to its end.
func (w *world) seqs(run follows, opts ...workflow.ReadOption) []uint64 {
	var all []uint64
	for e, err := range w.client.Run(run.ID()).Events(w.ctx, opts...) {
		if err != nil {
			w.t.Error(err)
		}
		all = append(all, e.Seq)
	}
	return all
}

func upTo(from, to uint64) []uint64 {
	var all []uint64
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

func TestRUN6_FollowersMissNothingAndSeeNothingTwiceWhileTheRunIsWriting(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, doSteps, doWork1)
		run := start(w, steps, 150)
		var followers sync.WaitGroup
		got := make([][]uint64, 12)
		for i := range got {
			followers.Go(func() {
				switch i % 3 {
				case 0:
					got[i] = w.seqs(run)
				case 1: // comes back every few events
					for next := uint64(1); ; {
						before := next
						for e := range run.Events(w.ctx, workflow.From(next)) {
							got[i] = append(got[i], e.Seq)
							if next = e.Seq + 1; len(got[i])%7 == 0 {
								break
							}
						}
						if next == before {
							return
						}
					}
				default: // comes late
					w.reach(run, event.StepCompleted, 10*i)
					got[i] = w.seqs(run)
				}
			})
		}
		followers.Wait()
		want := upTo(1, 2+3*150+1)
		for i := range got {
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("follower %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestRUN6_OptionsSelectWhatIsDelivered(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, doSteps, doWork1)
	run := start(w, steps, 3)
	_ = result(w, run) // 12 events: created, started, 3 × (created, started, completed), completed
	for name, tt := range map[string]struct {
		opts []workflow.ReadOption
		want []uint64
	}{
		"all":               {nil, upTo(1, 12)},
		"from the start":    {[]workflow.ReadOption{workflow.From(0)}, upTo(1, 12)},
		"from 5":            {[]workflow.ReadOption{workflow.From(5)}, upTo(5, 12)},
		"from behind":       {[]workflow.ReadOption{workflow.From(13)}, nil},
		"the last 4":        {[]workflow.ReadOption{workflow.FromEnd(4)}, upTo(9, 12)},
		"more than all":     {[]workflow.ReadOption{workflow.FromEnd(400)}, upTo(1, 12)},
		"only new":          {[]workflow.ReadOption{workflow.FromEnd(0)}, nil},
		"types":             {[]workflow.ReadOption{workflow.Types(event.StepCompleted, event.RunCompleted)}, []uint64{5, 8, 11, 12}},
		"types, the last 4": {[]workflow.ReadOption{workflow.Types(event.StepCompleted), workflow.FromEnd(4)}, []uint64{11}},
	} {
		if diff := cmp.Diff(tt.want, w.seqs(run, tt.opts...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tt.want, w.seqs(run, tt.opts...)); diff != "" {
			t.Errorf("%s, with the same options again (-want +got):\n%s", name, diff)
		}
	}
}

func TestRUN6_FromTheEndFollowsLive(t *testing.T) {
	w := newMemory(t)
	run := start(w, steps, 3)
	got := make(chan []uint64)
	watched := &counting{Store: w.store}
	go func() {
		var all []uint64
		for e, err := range steps.Get(workflow.NewClient(watched, workflow.ClientConfig{}), run.ID()).Events(w.ctx, workflow.FromEnd(0)) {
			if err != nil {
				t.Error(err)
			}
			all = append(all, e.Seq)
		}
		got <- all
	}()
	w.eventually("the follower waits", func() bool { return watched.watches.Load() == 1 })
	w.work(worker.Config{}, doSteps, doWork1)
	if diff := cmp.Diff(upTo(2, 12), <-got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRUN6_BreakingOutReleasesEverythingAndAnErrorIsTheLastPair(t *testing.T) {
	w := newMemory(t)
	run := start(w, steps, 3) // nobody works on it: a follower waits after the first event
	for e, err := range run.Events(w.ctx) {
		if e.Seq != 1 || err != nil {
			t.Errorf("got %d, %v", e.Seq, err)
		}
		break // goleak and the race detector look at the rest
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var last error
	pairs := 0
	for e, err := range run.Events(ctx) {
		pairs++
		last = err
		if err == nil {
			cancel()
		} else if diff := cmp.Diff(event.Event{}, e); diff != "" {
			t.Errorf("the event beside the error (-want +got):\n%s", diff)
		}
	}
	cancel()
	if pairs != 2 || !errors.Is(last, context.Canceled) || !containsAll(last.Error(), string(run.ID())) {
		t.Errorf("got %d pairs, the last with %v; want 2, with context.Canceled and the run", pairs, last)
	}
}

func TestEV6_EveryEventCarriesWhatATimelineNeeds(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, doSteps, doWork1)
		run := start(w, steps, 120)
		_ = result(w, run)
		about := map[string]int{}
		var last time.Time
		for e, err := range run.Events(w.ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Time.Before(last) || e.Time.IsZero() || !e.Type.Known() {
				t.Errorf("event %d (%s) has time %v after %v", e.Seq, e.Type, e.Time, last)
			}
			last = e.Time
			about[e.Correlation(run.ID())]++
		}
		if about[string(run.ID())] != 3 || len(about) != 121 {
			t.Errorf("%d events are about the run, and there are %d things in all; want 3 and 121", about[string(run.ID())], len(about))
		}
		for id, n := range about {
			if id != string(run.ID()) && (n != 3 || id[:5] != "step_") {
				t.Errorf("%d events are about %s, want 3 about a step", n, id)
			}
		}
	})
}

// A log that holds what this release does not know how to consume: the run is
// blocked, with an error that names the event.
func TestEV7_AnEventThatNothingConsumesIsAnErrorThatNamesIt(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		now := w.store.Clock().Now()
		run, cid := event.NewRunID(now, event.RandomSlot()), event.NewCID()
		frame, err := event.AppendFrame(nil, &event.Frame{CID: cid, Time: now, Events: []event.Event{
			{Seq: 1, Type: event.RunCreated, Time: now, Spec: &event.Spec{Workflow: "test.parker", Queue: workflow.DefaultQueue}},
			{Seq: 2, Type: event.RunStarted, Time: now},
			{Seq: 3, Type: event.WaitCreated, Time: now, Ref: 3, Since: now, Key: "parker/receive.wake#1", Wait: event.WaitMessage, Name: "wake"},
			{Seq: 4, Type: event.HookCreated, Time: now, Ref: 4, Since: now, Key: "parker/hook#1", Name: "paid", Token: "t"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		class := store.Class{Queue: workflow.DefaultQueue, Workflow: "test.parker"}
		created, err := w.store.Create(w.ctx, []store.Create{{Run: run, Class: class, Frame: frame, CID: cid, Seq: 4}})
		if err != nil || created[0].Err != nil {
			t.Fatal(err, created)
		}
		w.work(worker.Config{}, parks)
		var info workflow.RunInfo
		w.eventually("the run is blocked", func() bool {
			info, err = w.client.Run(run).Info(w.ctx)
			return err == nil && info.Status == workflow.StatusBlocked
		})
		if !containsAll(info.Blocked, "event 4", "hook_created", "parker/hook#1") {
			t.Errorf("it says %q, want seq, type and key of the event", info.Blocked)
		}
	})
}

// One frame holds what ends a run and what caused it.
func TestEV8_WhatEndsARunIsWrittenTogetherWithItsCause(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, calls, work1.as(func(_ context.Context, n int) (int, error) {
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n, nil
		}))
		for n, want := range map[int]string{1: "step_completed run_completed ", -1: "step_failed run_failed "} {
			run := start(w, one, n)
			_, _ = run.Result(w.ctx)
			loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID()}})
			if err != nil {
				t.Fatal(err)
			}
			frames := loaded[0].Frames
			f, err := event.DecodeFrame(frames[len(frames)-1])
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range f.Events {
				got += fmt.Sprint(e.Type, " ")
			}
			if got != want {
				t.Errorf("the last frame holds %q, want %q", got, want)
			}
		}
	})
}

func TestRUN5_StatusesTellWhatARunIsDoing(t *testing.T) {
	does := flow[string, int]("does")
	onEachStore(t, func(t *testing.T, w *world) {
		g := newGates()
		status := func(run follows, want workflow.Status) {
			t.Helper()
			if info, err := w.client.Run(run.ID()).Info(w.ctx); err != nil || info.Status != want || info.EndedAt.IsZero() == want.Terminal() {
				t.Errorf("got status %s, ended %v, %v; want %s", info.Status, info.EndedAt, err, want)
			}
		}
		pending := start(w, does, "sleep")
		status(pending, workflow.StatusPending)
		unknown := start(w, echo, "nobody serves it")
		w.work(worker.Config{}, work1.as(g.pass), as(does, func(ctx workflow.Context, what string) (int, error) {
			switch what {
			case "sleep":
				return 0, workflow.Sleep(ctx, time.Hour)
			case "wait":
				_, err := wake.Receive(ctx)
				return 0, err
			case "fail":
				return 0, errBusy
			}
			return work1.Call(ctx, 0)
		}))
		w.reach(pending, event.WaitCreated, 1)
		status(pending, workflow.StatusSleeping)
		waiting, working, failing := start(w, does, "wait"), start(w, does, "work"), start(w, does, "fail")
		w.reach(waiting, event.WaitCreated, 1)
		status(waiting, workflow.StatusWaiting)
		w.reach(working, event.StepStarted, 1)
		status(working, workflow.StatusRunning)
		_ = failure(w, failing)
		status(failing, workflow.StatusFailed)
		close(g.open[0])
		_ = result(w, working)
		status(working, workflow.StatusCompleted)
		if err := waiting.Cancel(w.ctx, "x"); err != nil {
			t.Fatal(err)
		}
		_ = failure(w, waiting)
		status(waiting, workflow.StatusCanceled)
		status(unknown, workflow.StatusPending)
	})
}

// reading notes which frames are read of a log.
type reading struct {
	store.Store
	frames atomic.Int64
}

func (r *reading) Unwrap() store.Store { return r.Store }

func (r *reading) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	loaded, err := r.Store.Load(ctx, runs)
	for _, l := range loaded {
		r.frames.Add(int64(len(l.Frames)))
	}
	return loaded, err
}

func TestRUN6_AFollowerReadsFromWhereItBegins(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, doSteps, doWork1)
		run := start(w, steps, 600)
		_ = result(w, run)
		all := w.seqs(run)
		last := all[len(all)-1]
		for name, opts := range map[string][]workflow.ReadOption{
			"from near the end": {workflow.From(last - 10)},
			"the last ten":      {workflow.FromEnd(11)},
			"from the middle":   {workflow.From(last / 2)},
			"from after it":     {workflow.From(last + 1)},
			"types":             {workflow.From(last - 10), workflow.Types(event.RunCompleted)},
		} {
			counted := &reading{Store: w.store}
			client := workflow.NewClient(counted, workflow.ClientConfig{})
			var got []uint64
			for e, err := range client.Run(run.ID()).Events(w.ctx, opts...) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Seq)
			}
			_ = client.Close()
			want := map[string][]uint64{
				"from near the end": upTo(last-10, last), "the last ten": upTo(last-10, last), "from the middle": upTo(last/2, last), "types": {last},
			}[name]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			// Each event of a frame of its own is the worst case; one page, and the frames
			// that are looked at on the way, may come on top.
			if frames, most := counted.frames.Load(), int64(len(want)+130); frames > most {
				t.Errorf("%s: %d frames were read of about %d, want at most %d", name, frames, 600, most)
			}
		}
	})
}
