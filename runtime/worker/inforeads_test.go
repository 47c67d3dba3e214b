package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// frameCounter is a store that counts the frames that are read.
type frameCounter struct {
	store.Store
	frames atomic.Int64
	// maps a requested run to the run whose log is read instead
	other map[event.RunID]event.RunID
}

func (s *frameCounter) Unwrap() store.Store { return s.Store }

func (s *frameCounter) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	asked := make([]store.Load, len(runs))
	for i, r := range runs {
		if other, ok := s.other[r.Run]; ok {
			r.Run = other
		}
		asked[i] = r
	}
	got, err := s.Store.Load(ctx, asked)
	for i := range got {
		s.frames.Add(int64(len(got[i].Frames)))
		got[i].Record.Run = runs[i].Run
	}
	return got, err
}

// count returns the number of frames that are read while f runs.
func (s *frameCounter) count(f func()) int {
	before := s.frames.Load()
	f()
	return int(s.frames.Load() - before)
}

var (
	stumbles = flowtest.Flow[string, int]("stumbles")
	stumble  = flowtest.AStep[string, int]("stumble", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Millisecond, Max: time.Millisecond}})
)

// stumbling is the code of stumbles. It sleeps 150 times, which takes more than a page of frames.
// Then it waits for an hour, or fails when the test permits it and is rerun.
func stumbling(ctx workflow.Context, how string) (int, error) {
	for i := range 150 {
		if err := workflow.Sleep(ctx, time.Duration(i)); err != nil {
			return 0, err
		}
	}
	if how == "waits" {
		return 0, workflow.Sleep(ctx, time.Hour)
	}
	return stumble.Call(ctx, how)
}

// stumbleWorker starts a worker that executes the runs of stumbles. Each attempt receives the
// permission to fail from one of the returned channels.
func stumbleWorker(w *flowtest.World) map[string]chan bool {
	may := map[string]chan bool{}
	for _, how := range []string{"work", "before", "after", "short"} {
		may[how] = make(chan bool, 10)
	}
	w.Work(worker.Config{}, flowtest.As(stumbles, stumbling), stumble.As(func(ctx context.Context, how string) (int, error) {
		select {
		case <-may[how]:
			return 0, fmt.Errorf("busy with %s", how)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}))
	w.T.Cleanup(func() { // closed so that a stopping worker does not wait for the attempts
		for _, c := range may {
			close(c)
		}
	})
	return may
}

// counted returns a client of w's store, and the counter of the frames that the client reads.
func counted(w *flowtest.World) (*workflow.Client, *frameCounter) {
	s := &frameCounter{Store: w.Store}
	return workflow.NewClient(s, workflow.ClientConfig{}), s
}

func TestOPS1_InfoReadsOnlyWhatIsNewInALog(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		may := stumbleWorker(w)
		run := flowtest.Start(w, stumbles, "work")
		may["work"] <- true
		w.Reach(run, event.StepStarted, 2)
		client, reads := counted(w)
		defer client.Close()
		h := client.Run(run.ID())
		info := func(attempt int) func() { // An attempt is running, and earlier attempts have failed.
			return func() {
				i, err := h.Info(w.Ctx)
				if err != nil || len(i.Retries) != 1 || i.Retries[0].Attempt != attempt || i.Retries[0].Failed != "busy with work" {
					t.Errorf("info: %+v, %v: want a step of which attempt %d is under way", i.Retries, err, attempt)
				}
			}
		}
		length := int(w.Record(run).N)
		if n := reads.count(info(2)); n != length+1 {
			t.Errorf("the first info has read %d frames, want the %d of the log and its first", n, length)
		}
		if n := reads.count(info(2)); n != 1 {
			t.Errorf("nothing has happened, and info has read %d frames, want the first", n)
		}
		may["work"] <- true
		w.Reach(run, event.StepStarted, 3)
		news := int(w.Record(run).N) - length
		if n := reads.count(info(3)); n > news+2 {
			t.Errorf("%d frames were new, and info has read %d, want those, the first, and the last that was known", news, n)
		}
	})
}

var (
	booths  = workflow.NewHook[int]("booth")
	showing = flowtest.Flow[string, int]("showing")
)

// show sleeps 150 times, which takes more than a page of frames. Then it opens a hook with the
// given name, which accepts payloads until one is 0. Finally another hook is open until a message
// arrives.
func show(ctx workflow.Context, name string) (int, error) {
	for i := range 150 {
		if err := workflow.Sleep(ctx, time.Duration(i)); err != nil {
			return 0, err
		}
	}
	first, err := booths.Open(ctx, workflow.Describe(workflow.HookMeta{Title: name}))
	if err != nil {
		return 0, err
	}
	flowtest.Token.Set(ctx, first.Token())
	for n := -1; n != 0; {
		if n, err = first.Receive(ctx); err != nil {
			return 0, err
		}
	}
	first.Dispose(ctx)
	if _, err := booths.Open(ctx, workflow.Describe(workflow.HookMeta{Title: name + " again"})); err != nil {
		return 0, err
	}
	return workflow.NewTopic[int]("close").Receive(ctx)
}

// titles returns the titles of a run's hooks, as read by a client.
func titles(w *flowtest.World, h *workflow.Handle) (all []string) {
	w.T.Helper()
	open, err := h.Hooks(w.Ctx)
	if err != nil {
		w.T.Error(err)
	}
	for _, i := range open {
		all = append(all, i.Meta.Title)
	}
	return all
}

func TestOPS1_HooksReadsOnlyWhatIsNewInALog(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(showing, show))
		run := flowtest.Start(w, showing, "fair")
		token := w.TokenOf(run)
		w.Reach(run, event.WaitCreated, 150)
		client, reads := counted(w)
		defer client.Close()
		h := client.Run(run.ID())
		look := func(most int, want ...string) {
			t.Helper()
			if n := reads.count(func() {
				if diff := cmp.Diff(want, titles(w, h)); diff != "" {
					t.Errorf("hooks (-want +got):\n%s", diff)
				}
			}); n > most {
				t.Errorf("%d frames were read, want at most %d", n, most)
			}
		}
		length := int(w.Record(run).N)
		look(length, "fair")
		look(0, "fair")
		send := func(n, waits int) (news int) {
			t.Helper()
			if err := booths.Send(w.Ctx, w.Client, token, n); err != nil {
				t.Fatal(err)
			}
			w.Reach(run, event.WaitCreated, waits)
			news, length = int(w.Record(run).N)-length, int(w.Record(run).N)
			return news
		}
		look(send(1, 151)+1, "fair")
		look(send(0, 152)+1, "fair again")
		look(0, "fair again")
		if err := workflow.NewTopic[int]("close").Send(w.Ctx, run, 1); err != nil {
			t.Fatal(err)
		}
		flowtest.Result(w, run)
		look(0)
	})
}

// TestOPS1_HooksForgetsALogThatIsAnotherOneNow proves that Hooks detects that the same run ID has
// another log. This happens after a store has lost writes and the run has continued.
func TestOPS1_HooksForgetsALogThatIsAnotherOneNow(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(showing, show))
	before, other := flowtest.Start(w, showing, "before"), flowtest.Start(w, showing, "other")
	for _, run := range []*workflow.Run[int]{before, other} {
		w.Reach(run, event.WaitCreated, 150)
	}
	client, reads := counted(w)
	defer client.Close()
	reads.other = map[event.RunID]event.RunID{}
	got := titles(w, client.Run(before.ID()))
	reads.other[before.ID()] = other.ID()
	got = append(got, titles(w, client.Run(before.ID()))...)
	if diff := cmp.Diff([]string{"before", "other"}, got); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

func TestOPS1_InfoReadsNothingOfALogInWhichNothingFails(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		stumbleWorker(w)
		run := flowtest.Start(w, stumbles, "waits")
		w.Reach(run, event.WaitCreated, 150)
		client, reads := counted(w)
		defer client.Close()
		n := reads.count(func() {
			if i, err := client.Run(run.ID()).Info(w.Ctx); err != nil || len(i.Retries) > 0 {
				t.Errorf("info: %+v, %v", i.Retries, err)
			}
		})
		if n != 1 {
			t.Errorf("info has read %d frames, want the first", n)
		}
	})
}

// TestOPS1_InfoForgetsALogThatIsAnotherOneNow proves that Info detects that the same run ID has
// another log. This happens after a store has lost writes and the run has continued.
func TestOPS1_InfoForgetsALogThatIsAnotherOneNow(t *testing.T) {
	w := flowtest.NewMemory(t)
	may := stumbleWorker(w)
	before, after, short := flowtest.Start(w, stumbles, "before"), flowtest.Start(w, stumbles, "after"), flowtest.Start(w, stumbles, "short")
	for how, run := range map[string]*workflow.Run[int]{"before": before, "after": after, "short": short} {
		may[how] <- true
		w.Reach(run, event.StepStarted, 2)
	}
	may["after"] <- true
	w.Reach(after, event.StepStarted, 3)
	client, reads := counted(w)
	defer client.Close()
	reads.other = map[event.RunID]event.RunID{}
	look := func() string {
		i, err := client.Run(before.ID()).Info(w.Ctx)
		if err != nil || len(i.Retries) != 1 {
			t.Fatalf("info: %+v, %v", i.Retries, err)
		}
		return fmt.Sprint(i.Retries[0].Failed, " ", i.Retries[0].Attempt)
	}
	got := []string{look()}
	for _, other := range []*workflow.Run[int]{short, after, short} { // logs of equal, greater and smaller length
		reads.other[before.ID()] = other.ID()
		got = append(got, look())
	}
	want := []string{"busy with before 2", "busy with short 2", "busy with after 3", "busy with short 2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("retries (-want +got):\n%s", diff)
	}
}

func TestOPS1_ReadEventsReadsNoMoreThanItReturns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		stumbleWorker(w)
		run := flowtest.Start(w, stumbles, "waits")
		w.Reach(run, event.WaitCreated, 150)
		all := w.Log(run)
		last := len(all)
		client, reads := counted(w)
		defer client.Close()
		for _, c := range []struct{ from, limit, frames int }{
			{0, 1, 1}, {1, 1, 1}, {1, 20, 20}, {last, 1, 1}, {last, 10, 1}, {last - 5, 3, 6}, {last / 2, 10, 120}, {1, last + 10, last}, {last + 1, 10, 0}, {3, 0, 0}, {1<<63 - 1, 1<<63 - 1, 0},
		} {
			var got []event.Event
			n := reads.count(func() {
				var err error
				if got, err = client.Run(run.ID()).ReadEvents(w.Ctx, uint64(c.from), c.limit); err != nil {
					t.Errorf("from %d: %v", c.from, err)
				}
			})
			first := min(max(c.from, 1)-1, last)
			want := all[first : first+min(c.limit, last-first)]
			if len(got) != len(want) || n > c.frames {
				t.Errorf("%d events from %d on: %d, and %d frames were read; want %d and at most %d", c.limit, c.from, len(got), n, len(want), c.frames)
			}
			for i := range got {
				if got[i].Seq != want[i].Seq || got[i].Type != want[i].Type {
					t.Fatalf("event %d is %d %s, want %d %s", i, got[i].Seq, got[i].Type, want[i].Seq, want[i].Type)
				}
			}
		}
	})
}
