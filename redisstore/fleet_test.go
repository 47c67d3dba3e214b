package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// eachURL runs a test on a single server and on a cluster.
func eachURL(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("server", func(t *testing.T) { test(t, with(redistest.Shared(t).URL(), "prefix="+redistest.Prefix())) })
	t.Run("cluster", func(t *testing.T) { test(t, with(redistest.SharedCluster(t).URL(), "prefix="+redistest.Prefix())) })
}

func TestFleet_TwoWorkersCompleteEveryRunOnce(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		const runs = 200
		f := newFleet(t, openURL(t, url))
		var mu sync.Mutex
		executed := map[string]int{}
		step := func(_ context.Context, order string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			executed[order]++
			return "done", nil
		}
		for range 2 {
			own := openURL(t, url)
			t.Cleanup(func() { _ = own.Close() })
			f.work(own, worker.Config{}, step)
		}
		var started []*workflow.Run[string]
		for n := range runs {
			started = append(started, must(Fulfil.Start(f.ctx, f.client, fmt.Sprintf("order-%d", n))))
		}
		for n, run := range started {
			if got, want := result(f, run), fmt.Sprintf("order-%d shipped", n); got != want {
				t.Errorf("result: got %q, want %q", got, want)
			}
		}
		for order, n := range executed {
			if n != 3 {
				t.Errorf("steps of %s: executed %d times, want 3", order, n)
			}
		}
		sound(t, f.store)
	})
}

func TestFleet_MessagesAndSleepsWakeRuns(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		f := newFleet(t, openURL(t, url))
		for range 2 {
			own := openURL(t, url)
			t.Cleanup(func() { _ = own.Close() })
			f.work(own, worker.Config{}, done)
		}
		asked := must(Ask.Start(f.ctx, f.client, workflow.None{}, workflow.WithID("ask-1")))
		slept := must(Sleep.Start(f.ctx, f.client, 300*time.Millisecond))
		for _, answer := range []string{"yes", "no"} {
			for range 2 { // the second message is a duplicate
				if err := Answers.Send(f.ctx, asked, answer, workflow.IdempotencyKey(answer)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := result(f, asked); got != "yes no" {
			t.Errorf("answers: got %q, want %q", got, "yes no")
		}
		if got := result(f, slept); got != "slept" {
			t.Errorf("sleep: got %q", got)
		}
		var woken, due time.Time
		for e, err := range slept.Events(f.ctx) {
			if err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case event.WaitCreated:
				due = e.Due
			case event.WaitCompleted:
				woken = e.Time
			}
		}
		if late := woken.Sub(due); late < 0 || late > time.Second {
			t.Errorf("the timer was %v late", late)
		}
		sound(t, f.store)
	})
}

func TestREC2_RunsOfAWorkerThatCannotBeReachedAreTakenOver(t *testing.T) {
	server, prefix := redistest.Shared(t), redistest.Prefix()
	f := newFleet(t, openURL(t, with(server.URL(), "prefix="+prefix)))
	cfg := worker.Config{ClaimExpiry: time.Second, Heartbeat: 100 * time.Millisecond}

	proxy := redistest.NewProxy(t, server.Addr)
	far, err := redisstore.New(closing(t, redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, DialerRetries: 1})), redisstore.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	begun, cutOff := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := f.work(far, cfg, func(ctx context.Context, _ string) (string, error) {
		once.Do(func() { close(begun) })
		select {
		case <-cutOff:
		case <-ctx.Done():
		}
		return "by the one that was cut off", nil
	})
	run := must(Fulfil.Start(f.ctx, f.client, "order"))
	select {
	case <-begun:
	case <-f.ctx.Done():
		t.Fatal("the first worker has not begun")
	}
	proxy.Do(func(bool, []byte) redistest.Verdict { return redistest.Drop })
	proxy.Sever()

	var steps atomic.Int32
	f.work(f.store, cfg, func(context.Context, string) (string, error) {
		steps.Add(1)
		return "by the successor", nil
	})
	if got := result(f, run); got != "order shipped" {
		t.Errorf("result: got %q", got)
	}
	if steps.Load() != 3 {
		t.Errorf("the successor executed %d steps, want 3", steps.Load())
	}
	entries, err := f.store.Audit(f.ctx, run.ID())
	if err != nil || len(entries) != 1 || entries[0].Reason != store.ReasonExpiredClaim {
		t.Errorf("audit: got %+v, %v, want one expired claim", entries, err)
	}

	before := logOf(f, run.ID())
	proxy.Do(nil)
	close(cutOff) // the step of the worker ends, and the worker tries to record its result
	if got := result(f, must(Fulfil.Start(f.ctx, f.client, "another"))); got != "another shipped" {
		t.Errorf("result: got %q", got)
	}
	stop()
	if after := logOf(f, run.ID()); !slices.Equal(before, after) {
		t.Errorf("the worker that was cut off changed the log: %v, before %v", after, before)
	}
	sound(t, f.store)
}

// logOf returns the frames of a run as strings.
func logOf(f *fleet, run event.RunID) []string {
	f.t.Helper()
	loaded, err := f.store.Load(f.ctx, []store.Load{{Run: run}})
	if err != nil {
		f.t.Fatal(err)
	}
	var frames []string
	for _, frame := range loaded[0].Frames {
		frames = append(frames, string(frame))
	}
	return frames
}

func TestREC5_AnIdleFleetStartsNewWorkAtOnce(t *testing.T) {
	eachURL(t, func(t *testing.T, url string) {
		const runs = 100
		f := newFleet(t, openURL(t, url))
		own := openURL(t, url)
		t.Cleanup(func() { _ = own.Close() })
		began := make(chan time.Time, 3*runs)
		f.work(own, worker.Config{}, func(context.Context, string) (string, error) {
			began <- time.Now()
			return "done", nil
		})
		result(f, must(Fulfil.Start(f.ctx, f.client, "first")))
		var took []time.Duration
		for range runs {
			for len(began) > 0 {
				<-began
			}
			start := time.Now()
			run := must(Fulfil.Start(f.ctx, f.client, "order"))
			took = append(took, (<-began).Sub(start))
			result(f, run)
		}
		slices.Sort(took)
		t.Logf("start to first step: p50 %v, p99 %v", took[runs/2], took[runs-1])
		if took[runs/2] > 50*time.Millisecond {
			t.Errorf("start to first step takes %v, want milliseconds", took[runs/2])
		}
	})
}
