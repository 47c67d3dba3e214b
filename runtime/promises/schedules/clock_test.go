package schedules_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

var Doubling = flowtest.Doubles

func contains(text, part string) bool { return strings.Contains(text, part) }

// onTime executes a test on stores whose virtual time begins at begin.
func onTime(t *testing.T, begin time.Time, test func(t *testing.T, w *flowtest.World)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T, c store.Clock) store.Store{
		"memory": func(_ *testing.T, c store.Clock) store.Store {
			return memstore.NewWith(memstore.Config{Clock: c, Partitions: 3})
		},
		"sqlite": func(t *testing.T, c store.Clock) store.Store {
			st, err := sqlitestore.OpenWith(filepath.Join(t.TempDir(), "flows.db"), sqlitestore.Config{Clock: c})
			call(t, err)
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual := storetest.NewClock()
			w := flowtest.NewWorld(t, open(t, clock{virtual, begin.Sub(virtual.Now())}), workflow.ClientConfig{})
			w.Clock = virtual
			test(t, w)
		})
	}
}

// passTo advances time to the time to. It does nothing if that time has passed.
func passTo(w *flowtest.World, to time.Time) {
	if d := to.Sub(w.Store.Clock().Now()); d > 0 {
		w.Clock.Advance(d)
	}
}

// TestPOOL6_EachTickOfAClockChangeStartsOnceThoughAWorkerDies proves that each tick starts exactly
// one run when clocks change between standard and daylight saving time. At each tick, one of three
// workers is killed after the start is durable and before the worker is notified of that.
func TestPOOL6_EachTickOfAClockChangeStartsOnceThoughAWorkerDies(t *testing.T) {
	for _, tt := range []struct {
		when, from string
		want       []string
	}{
		{"30 2 * * * Europe/Zurich", "2027-03-27T12:00:00Z", []string{"2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"}},
		{"30 2 * * * Europe/Zurich", "2027-10-30T12:00:00Z", []string{"2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"}},
		{"*/20 2 * * * Europe/Zurich", "2027-03-27T12:00:00Z", []string{"2027-03-28T03:00:00+02:00", "2027-03-29T02:00:00+02:00", "2027-03-29T02:20:00+02:00", "2027-03-29T02:40:00+02:00"}},
		{"15 * * * * Europe/Zurich", "2027-03-28T00:00:00Z", []string{"2027-03-28T01:15:00+01:00", "2027-03-28T03:15:00+02:00"}},
		{"15 * * * * Europe/Zurich", "2027-10-31T00:00:00Z", []string{"2027-10-31T02:15:00+02:00", "2027-10-31T02:15:00+01:00"}},
		{"0 0 * * * America/Santiago", "2027-09-04T12:00:00Z", []string{"2027-09-05T01:00:00-03:00", "2027-09-06T00:00:00-03:00"}},
	} {
		t.Run(strings.ReplaceAll(tt.when, "/", "-")+" "+tt.from[:10], func(t *testing.T) {
			onTime(t, at(t, tt.from), func(t *testing.T, w *flowtest.World) {
				var victim atomic.Bool // if set, the next worker that starts a tick is killed
				f := newFleet(w, &victim)
				for range 3 {
					f.work()
				}
				setNightly(w, schedule.Spec{When: tt.when, Overlap: schedule.Allow})
				await(w, "it has begun", func(i schedule.Info) bool { return !i.Next.IsZero() })
				for i, text := range tt.want {
					tick := at(t, text)
					info := await(w, "the next tick is known", func(i schedule.Info) bool { return i.Next.Equal(tick) })
					if got := info.Next.Format(time.RFC3339); got != text {
						t.Fatalf("tick %d: got %s, want %s", i, got, text)
					}
					passTo(w, tick.Add(-time.Minute))
					if n := len(started(w, Nightly.Name())); n != i {
						t.Fatalf("a minute before tick %d there are %d runs", i, n)
					}
					victim.Store(true)
					passTo(w, tick)
					eventually(w, "a worker has died", func() bool { return f.deaths.Load() == int64(i)+1 })
					f.work() // heartbeats are so rare that only a replacement recovers the run of the dead worker
					ran(w, tick)
				}
				got := started(w, Nightly.Name())
				want := map[string]int{}
				for _, text := range tt.want {
					want[at(t, text).UTC().Format(time.RFC3339)] = 1
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("runs by tick (-want +got):\n%s", diff)
				}
				f.stop()
				w.Healthy()
			})
		})
	}
}

// fleet is a set of workers that can be killed when they have started a tick.
type fleet struct {
	w      *flowtest.World
	victim *atomic.Bool // if set, the next worker that starts a tick is killed
	deaths atomic.Int64
	ctx    context.Context
	end    context.CancelFunc
	all    sync.WaitGroup
}

func newFleet(w *flowtest.World, victim *atomic.Bool) *fleet {
	f := &fleet{w: w, victim: victim}
	f.ctx, f.end = context.WithCancel(background)
	w.T.Cleanup(f.stop)
	return f
}

// work starts a worker and waits for its first claim. The worker must find the run of the schedule,
// because the wake of this run may have gone to a dead worker.
func (f *fleet) work() {
	var dead atomic.Bool
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	var wk *worker.Worker
	st := &flowtest.Between{Store: f.w.Store}
	name := "mortal" + string(event.NewItemID())[:8]
	ctx, end := context.WithCancel(f.ctx)
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if dead.Load() {
			return store.ErrClosed
		}
		err := do()
		if op == "claim" && err == nil {
			look()
		}
		if op == "commit" && starts(req.([]store.Commit)) && f.victim.CompareAndSwap(true, false) {
			dead.Store(true)
			(*flow.Registry)(wk.Registry()).Kit().Kill()
			end()
			return store.ErrClosed
		}
		return err
	}
	cfg := worker.Config{Name: name, NoLocalStart: true, Heartbeat: 20_000 * time.Hour, ClaimExpiry: 80_000 * time.Hour}
	cfg.BaseContext = func() context.Context { return ctx }
	wk = worker.New(flowtest.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(f.w.Logs, nil))}), cfg)
	nightly(wk)
	f.all.Go(func() {
		defer end()
		_ = wk.Run(ctx) // returns when the worker was killed or stopped
		if dead.Load() {
			f.bury(name)
		}
	})
	select {
	case <-looked:
	case <-f.w.Ctx.Done():
		f.w.T.Fatal("a new worker has not claimed")
	}
}

// stop stops all workers.
func (f *fleet) stop() {
	f.end()
	f.all.Wait()
}

// starts reports whether one of the commits starts a run.
func starts(commits []store.Commit) bool {
	return slices.ContainsFunc(commits, func(c store.Commit) bool {
		f, err := event.DecodeFrame(c.Frame)
		return err == nil && slices.ContainsFunc(f.Events, func(e event.Event) bool { return e.Type == event.ChildCreated })
	})
}

// bury closes the sessions of a dead worker, so that the other workers need not wait until its
// leases expire.
func (f *fleet) bury(name string) {
	inspector, _ := store.As[store.Inspector](f.w.Store)
	snap, err := inspector.Inspect(background)
	if err != nil {
		f.w.T.Error(err)
		return
	}
	for id, l := range snap.Leases {
		if strings.HasPrefix(string(id), name+"/") {
			if err := f.w.Store.CloseSession(background, l.Partition, id); err != nil {
				f.w.T.Error(err)
			}
		}
	}
	f.deaths.Add(1)
}

func TestPOOL6_TicksThatNobodyStartedInTimeAreCaughtUp(t *testing.T) {
	begin := at(t, "2027-01-01T00:30:00Z")
	for _, tt := range []struct {
		name                     string
		s                        schedule.Spec
		ticks                    []string // hours whose ticks are started after six hours without a worker
		started, skipped, missed int
	}{
		{"each if they may overlap", schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow},
			[]string{"01", "02", "03", "04", "05", "06"}, 6, 0, 0},
		{"the newest if not", schedule.Spec{When: "0 * * * *"}, []string{"06"}, 1, 5, 0},
		{"none that is too late", schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow, CatchUp: 100 * time.Minute},
			[]string{"05", "06"}, 2, 0, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onTime(t, begin, func(t *testing.T, w *flowtest.World) {
				setNightly(w, tt.s)
				passTo(w, begin.Add(6*time.Hour))
				w.Work(worker.Config{}, nightly)
				info := await(w, "it has caught up", func(i schedule.Info) bool {
					return i.Started == tt.started && i.Next.After(begin.Add(6*time.Hour))
				})
				if info.Skipped != tt.skipped || info.Missed != tt.missed {
					t.Errorf("got %d skipped and %d missed, want %d and %d", info.Skipped, info.Missed, tt.skipped, tt.missed)
				}
				want := map[string]int{}
				for _, text := range tt.ticks {
					tick := at(t, "2027-01-01T"+text+":00:00Z")
					want[tick.Format(time.RFC3339)] = 1
					ran(w, tick)
				}
				if diff := cmp.Diff(want, started(w, Nightly.Name())); diff != "" {
					t.Errorf("runs by tick (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPOOL6_AnOrderCountsFromWhenItWasGiven proves that a command to a schedule has its effect from
// the time when it was given, even if a worker executes it later.
func TestPOOL6_AnOrderCountsFromWhenItWasGiven(t *testing.T) {
	begin := at(t, "2027-01-01T00:30:00Z")
	onTime(t, begin, func(t *testing.T, w *flowtest.World) {
		s := ops.New(w.Client).Schedules()
		setNightly(w, schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow})
		passTo(w, begin.Add(2*time.Hour)) // 01:00 and 02:00 are due
		call(t, s.Pause(w.Ctx, "nightly", ""))
		passTo(w, begin.Add(5*time.Hour)) // 03:00 to 05:00 are skipped
		call(t, s.Resume(w.Ctx, "nightly"))
		passTo(w, begin.Add(7*time.Hour)) // 06:00 and 07:00 are due
		call(t, s.Update(w.Ctx, "nightly", schedule.Spec{When: "0 */10 * * *", Overlap: schedule.Allow}))
		passTo(w, begin.Add(10*time.Hour)) // 10:00 is due
		w.Work(worker.Config{}, nightly)
		want := map[string]int{}
		for _, text := range []string{"01", "02", "06", "07", "10"} {
			tick := at(t, "2027-01-01T"+text+":00:00Z")
			want[tick.Format(time.RFC3339)] = 1
			ran(w, tick)
		}
		if diff := cmp.Diff(want, started(w, Nightly.Name())); diff != "" {
			t.Errorf("runs by tick (-want +got):\n%s", diff)
		}
		await(w, "the next tick is that of the new one", func(i schedule.Info) bool { return i.Next.Equal(at(t, "2027-01-01T20:00:00Z")) })
	})
}

// TestPOOL6_AnOrderLosesNoneOfTheTicksBeforeIt proves that a command to a schedule loses no tick
// before it, even if more ticks were missed than one run of the schedule starts.
func TestPOOL6_AnOrderLosesNoneOfTheTicksBeforeIt(t *testing.T) {
	begin := at(t, "2027-01-01T00:00:00Z")
	seconds := schedule.Spec{When: "every 1s", Overlap: schedule.Allow}
	hourly := schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow}
	for name, tt := range map[string]struct {
		give func(w *flowtest.World, s *ops.Schedules) error
		done func(i schedule.Info) bool
	}{
		"a pause": {
			func(w *flowtest.World, s *ops.Schedules) error { return s.Pause(w.Ctx, "nightly", "stocktaking") },
			func(i schedule.Info) bool { return i.Paused },
		},
		"an update": {
			func(w *flowtest.World, s *ops.Schedules) error { return s.Update(w.Ctx, "nightly", hourly) },
			func(i schedule.Info) bool { return i.Next.Equal(begin.Add(time.Hour)) },
		},
		"an update after a pause that has ended": {
			func(w *flowtest.World, s *ops.Schedules) error {
				return errors.Join(s.Pause(w.Ctx, "nightly", ""), s.Resume(w.Ctx, "nightly"), s.Update(w.Ctx, "nightly", hourly))
			},
			func(i schedule.Info) bool { return i.Next.Equal(begin.Add(time.Hour)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			onTime(t, begin, func(t *testing.T, w *flowtest.World) {
				setNightly(w, seconds)
				passTo(w, begin.Add(230*time.Second))
				call(t, tt.give(w, ops.New(w.Client).Schedules()))
				passTo(w, begin.Add(300*time.Second))
				w.Work(worker.Config{}, nightly)
				info := await(w, "the order is obeyed", tt.done)
				if info.Started != 230 || info.Skipped+info.Missed > 0 {
					t.Fatalf("got %d started, %d skipped and %d missed, want 230 started", info.Started, info.Skipped, info.Missed)
				}
				want := map[string]int{}
				for i := range 230 {
					want[begin.Add(time.Duration(i+1)*time.Second).Format(time.RFC3339)] = 1
				}
				var got map[string]int
				eventually(w, "all of them exist", func() bool {
					got = started(w, Nightly.Name())
					return len(got) >= len(want)
				})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("runs by tick (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPOOL6_AScheduleObeysWhateverManyOrdersWaitForIt proves that a schedule executes any number of
// commands. More commands wait for the schedule than one of its runs may have events.
func TestPOOL6_AScheduleObeysWhateverManyOrdersWaitForIt(t *testing.T) {
	onTime(t, at(t, "2027-01-01T00:30:00Z"), func(t *testing.T, w *flowtest.World) {
		s := ops.New(w.Client).Schedules()
		setNightly(w, schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow})
		const orders = 9_000
		for range orders / 2 {
			call(t, s.Pause(w.Ctx, "nightly", ""))
			call(t, s.Resume(w.Ctx, "nightly"))
		}
		call(t, s.Pause(w.Ctx, "nightly", "the last one"))
		w.Work(worker.Config{}, nightly)
		await(w, "all are obeyed", func(i schedule.Info) bool { return i.Note == "the last one" })
		runs := 0
		for _, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: event.ScheduleRun}) {
			call(t, err)
			runs++
		}
		if runs > 20 {
			t.Errorf("the schedule is %d runs after %d orders", runs, orders)
		}
	})
}

// TestPOOL6_APauseTakesOnlyTheTicksThatAreDueInIt proves that a pause skips only ticks that are due
// during the pause. A tick that jitter delays until after the pause is started.
func TestPOOL6_APauseTakesOnlyTheTicksThatAreDueInIt(t *testing.T) {
	begin := at(t, "2027-01-01T00:30:00Z")
	jittered := schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow, Jitter: 50 * time.Minute}
	for name, tt := range map[string]struct {
		pause, resume time.Duration // relative to the due time of the first tick, which jitter delays
		want          []string
	}{
		"before it": {-time.Second, -time.Millisecond, []string{"01", "02"}},
		"around it": {-time.Second, time.Second, []string{"02"}},
	} {
		t.Run(name, func(t *testing.T) {
			onTime(t, begin, func(t *testing.T, w *flowtest.World) {
				s := ops.New(w.Client).Schedules()
				setNightly(w, jittered)
				stop := w.Work(worker.Config{}, nightly).Stop
				var due time.Time
				eventually(w, "the schedule sleeps", func() bool {
					info, err := own(w).Info(w.Ctx)
					due = info.Due
					return err == nil && !due.IsZero()
				})
				stop()
				if first := at(t, "2027-01-01T01:00:00Z"); due.Before(first.Add(2 * time.Second)) {
					t.Fatalf("the first tick is due at %v: nothing can be paused before it", due)
				}
				passTo(w, due.Add(tt.pause))
				call(t, s.Pause(w.Ctx, "nightly", ""))
				passTo(w, due.Add(tt.resume))
				call(t, s.Resume(w.Ctx, "nightly"))
				passTo(w, at(t, "2027-01-01T02:59:59Z"))
				w.Work(worker.Config{}, nightly)
				want := map[string]int{}
				for _, text := range tt.want {
					tick := at(t, "2027-01-01T"+text+":00:00Z")
					want[tick.Format(time.RFC3339)] = 1
					ran(w, tick)
				}
				if diff := cmp.Diff(want, started(w, Nightly.Name())); diff != "" {
					t.Errorf("runs by tick (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPOOL6_JitterDelaysATickAlwaysByTheSame(t *testing.T) {
	begin := at(t, "2027-01-01T00:30:00Z")
	onTime(t, begin, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		// The delay by jitter does not count for CatchUp.
		setNightly(w, schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow, Jitter: 30 * time.Minute, CatchUp: 10 * time.Minute})
		delays := map[time.Duration]bool{}
		for hour := 1; hour <= 3; hour++ {
			tick := at(t, "2027-01-01T00:00:00Z").Add(time.Duration(hour) * time.Hour)
			var due time.Time // read before the tick, because the end of a run wakes the schedule and removes its due time
			eventually(w, "the schedule sleeps", func() bool {
				info, err := own(w).Info(w.Ctx)
				due = info.Due
				return err == nil && due.After(tick.Add(-time.Second)) && due.Before(tick.Add(30*time.Minute))
			})
			delays[due.Sub(tick)] = true
			passTo(w, due)
			ran(w, tick)
		}
		if longest := slices.Max(slices.Collect(maps.Keys(delays))); len(delays) != 3 || longest <= 10*time.Minute {
			t.Errorf("delays: got %v, want three different ones, of which one is longer than the catch-up", delays)
		}
	})
}
