package runs_test

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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN6_FollowersMissNothingAndSeeNothingTwiceWhileTheRunIsWriting(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
		run := flowtest.Start(w, flowtest.Steps, 150)
		var followers sync.WaitGroup
		got := make([][]uint64, 12)
		for i := range got {
			followers.Go(func() {
				switch i % 3 {
				case 0:
					got[i] = w.Seqs(run)
				case 1: // reads a few events at a time
					for next := uint64(1); ; {
						before := next
						for e := range run.Events(w.Ctx, workflow.From(next)) {
							got[i] = append(got[i], e.Seq)
							if next = e.Seq + 1; len(got[i])%7 == 0 {
								break
							}
						}
						if next == before {
							return
						}
					}
				default: // begins after some events exist
					w.Reach(run, event.StepCompleted, 10*i)
					got[i] = w.Seqs(run)
				}
			})
		}
		followers.Wait()
		want := flowtest.UpTo(1, 2+3*150+1)
		for i := range got {
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("follower %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestRUN6_OptionsSelectWhatIsDelivered(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
	run := flowtest.Start(w, flowtest.Steps, 3)
	_ = flowtest.Result(w, run) // 12 events: created, started, completed, and 3 for each of 3 steps
	for name, tt := range map[string]struct {
		opts []workflow.ReadOption
		want []uint64
	}{
		"all":               {nil, flowtest.UpTo(1, 12)},
		"from the start":    {[]workflow.ReadOption{workflow.From(0)}, flowtest.UpTo(1, 12)},
		"from 5":            {[]workflow.ReadOption{workflow.From(5)}, flowtest.UpTo(5, 12)},
		"from behind":       {[]workflow.ReadOption{workflow.From(13)}, nil},
		"the last 4":        {[]workflow.ReadOption{workflow.FromEnd(4)}, flowtest.UpTo(9, 12)},
		"more than all":     {[]workflow.ReadOption{workflow.FromEnd(400)}, flowtest.UpTo(1, 12)},
		"only new":          {[]workflow.ReadOption{workflow.FromEnd(0)}, nil},
		"types":             {[]workflow.ReadOption{workflow.Types(event.StepCompleted, event.RunCompleted)}, []uint64{5, 8, 11, 12}},
		"types, the last 4": {[]workflow.ReadOption{workflow.Types(event.StepCompleted), workflow.FromEnd(4)}, []uint64{11}},
	} {
		if diff := cmp.Diff(tt.want, w.Seqs(run, tt.opts...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tt.want, w.Seqs(run, tt.opts...)); diff != "" {
			t.Errorf("%s, with the same options again (-want +got):\n%s", name, diff)
		}
	}
}

func TestRUN6_FromTheEndFollowsLive(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Steps, 3)
	got := make(chan []uint64)
	watched := &counting{Store: w.Store}
	go func() {
		var all []uint64
		for e, err := range flowtest.Steps.Get(flowtest.NewClient(watched, workflow.ClientConfig{}), run.ID()).Events(w.Ctx, workflow.FromEnd(0)) {
			if err != nil {
				t.Error(err)
			}
			all = append(all, e.Seq)
		}
		got <- all
	}()
	w.Eventually("the follower waits", func() bool { return watched.watches.Load() == 1 })
	w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
	if diff := cmp.Diff(flowtest.UpTo(2, 12), <-got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRUN6_BreakingOutReleasesEverythingAndAnErrorIsTheLastPair(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Steps, 3) // no worker serves the run, so a follower waits after the first event
	for e, err := range run.Events(w.Ctx) {
		if e.Seq != 1 || err != nil {
			t.Errorf("got %d, %v", e.Seq, err)
		}
		break // goleak and the race detector check that everything is released
	}
	ctx, cancel := context.WithCancel(w.Ctx)
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
	if pairs != 2 || !errors.Is(last, context.Canceled) || !flowtest.ContainsAll(last.Error(), string(run.ID())) {
		t.Errorf("got %d pairs, the last with %v; want 2, with context.Canceled and the run", pairs, last)
	}
}

func TestEV6_EveryEventCarriesWhatATimelineNeeds(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
		run := flowtest.Start(w, flowtest.Steps, 120)
		_ = flowtest.Result(w, run)
		about := map[string]int{}
		var last time.Time
		for e, err := range run.Events(w.Ctx) {
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

// TestEV7_AnEventThatNothingConsumesIsAnErrorThatNamesIt proves that a run is blocked if its log
// contains an event that the code does not consume. The reason names the event.
func TestEV7_AnEventThatNothingConsumesIsAnErrorThatNamesIt(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		now := w.Store.Clock().Now()
		run, cid := event.NewRunID(now, event.RandomSlot()), event.NewCommitID()
		frame, err := event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: now, Events: []event.Event{
			{Seq: 1, Type: event.RunCreated, Time: now, Spec: &event.Spec{Workflow: "test.parker", Queue: workflow.DefaultQueue}},
			{Seq: 2, Type: event.RunStarted, Time: now},
			{Seq: 3, Type: event.WaitCreated, Time: now, Ref: 3, Since: now, Key: "parker/receive.wake#1", Wait: event.WaitMessage, Name: "wake"},
			{Seq: 4, Type: event.HookCreated, Time: now, Ref: 4, Since: now, Key: "parker/hook#1", Name: "paid", Token: "t"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		route := store.Route{Queue: workflow.DefaultQueue, Workflow: "test.parker"}
		created, err := w.Store.Create(w.Ctx, []store.Create{{Run: run, Route: route, Frame: frame, CommitID: cid, Seq: 4}})
		if err != nil || created[0].Err != nil {
			t.Fatal(err, created)
		}
		w.Work(worker.Config{}, flowtest.Parks)
		var info workflow.RunInfo
		w.Eventually("the run is blocked", func() bool {
			info, err = w.Client.Run(run).Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusBlocked
		})
		if !flowtest.ContainsAll(info.Blocked, "event 4", "hook_created", "parker/hook#1") {
			t.Errorf("it says %q, want seq, type and key of the event", info.Blocked)
		}
	})
}

// TestEV8_WhatEndsARunIsWrittenTogetherWithItsCause proves that the end of a run and the cause of
// the end are in the same frame.
func TestEV8_WhatEndsARunIsWrittenTogetherWithItsCause(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n, nil
		}))
		for n, want := range map[int]string{1: "step_completed run_completed ", -1: "step_failed run_failed "} {
			run := flowtest.Start(w, flowtest.One, n)
			_, _ = run.Result(w.Ctx)
			loaded, err := w.Store.Load(w.Ctx, []store.Load{{Run: run.ID()}})
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
	does := flowtest.Flow[string, int]("does")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		g := flowtest.NewGates()
		status := func(run flowtest.Follows, want workflow.Status) {
			t.Helper()
			if info, err := w.Client.Run(run.ID()).Info(w.Ctx); err != nil || info.Status != want || info.EndedAt.IsZero() == want.Terminal() {
				t.Errorf("got status %s, ended %v, %v; want %s", info.Status, info.EndedAt, err, want)
			}
		}
		pending := flowtest.Start(w, does, "sleep")
		status(pending, workflow.StatusPending)
		unknown := flowtest.Start(w, flowtest.Echo, "nobody serves it")
		w.Work(worker.Config{}, flowtest.Work1.As(g.Pass), flowtest.As(does, func(ctx workflow.Context, what string) (int, error) {
			switch what {
			case "sleep":
				return 0, workflow.Sleep(ctx, time.Hour)
			case "wait":
				_, err := flowtest.Wake.Receive(ctx)
				return 0, err
			case "fail":
				return 0, flowtest.ErrBusy
			}
			return flowtest.Work1.Call(ctx, 0)
		}))
		w.Reach(pending, event.WaitCreated, 1)
		status(pending, workflow.StatusSleeping)
		waiting, working, failing := flowtest.Start(w, does, "wait"), flowtest.Start(w, does, "work"), flowtest.Start(w, does, "fail")
		w.Reach(waiting, event.WaitCreated, 1)
		status(waiting, workflow.StatusWaiting)
		w.Reach(working, event.StepStarted, 1)
		status(working, workflow.StatusRunning)
		_ = flowtest.Failure(w, failing)
		status(failing, workflow.StatusFailed)
		close(g.Open[0])
		_ = flowtest.Result(w, working)
		status(working, workflow.StatusCompleted)
		if err := waiting.Cancel(w.Ctx, "x"); err != nil {
			t.Fatal(err)
		}
		_ = flowtest.Failure(w, waiting)
		status(waiting, workflow.StatusCanceled)
		status(unknown, workflow.StatusPending)
	})
}

// reading is a store that counts the frames that are read.
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
		run := flowtest.Start(w, flowtest.Steps, 600)
		_ = flowtest.Result(w, run)
		all := w.Seqs(run)
		last := all[len(all)-1]
		for name, opts := range map[string][]workflow.ReadOption{
			"from near the end": {workflow.From(last - 10)},
			"the last ten":      {workflow.FromEnd(11)},
			"from the middle":   {workflow.From(last / 2)},
			"from after it":     {workflow.From(last + 1)},
			"types":             {workflow.From(last - 10), workflow.Types(event.RunCompleted)},
		} {
			counted := &reading{Store: w.Store}
			client := flowtest.NewClient(counted, workflow.ClientConfig{})
			var got []uint64
			for e, err := range client.Run(run.ID()).Events(w.Ctx, opts...) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Seq)
			}
			_ = client.Close()
			want := map[string][]uint64{
				"from near the end": flowtest.UpTo(last-10, last), "the last ten": flowtest.UpTo(last-10, last), "from the middle": flowtest.UpTo(last/2, last), "types": {last},
			}[name]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			// In the worst case each event has its own frame. In addition, the reader may read one
			// page, and the frames that it examines to find the first event.
			if frames, most := counted.frames.Load(), int64(len(want)+130); frames > most {
				t.Errorf("%s: %d frames were read of about %d, want at most %d", name, frames, 600, most)
			}
		}
	})
}
