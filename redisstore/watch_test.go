package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// queueStateOf returns the queue state of a run.
func queueStateOf(ctx context.Context, st store.Store, run event.RunID) (store.QueueState, error) {
	loaded, err := st.Load(ctx, []store.Load{{Run: run, Limit: -1}})
	if err != nil {
		return 0, err
	}
	return loaded[0].Record.QueueState, loaded[0].Err
}

// looked returns the number of times that the script of Watch was sent, after it has made the
// server load the script.
func looked(ctx context.Context, t *testing.T, st *redisstore.Store, sent *counter) int {
	t.Helper()
	if err := st.Watch(ctx, event.NewRunID(st.Clock().Now(), 0), store.UntilEnd); !errors.Is(err, store.ErrRunNotFound) {
		t.Fatalf("unknown run: got %v, want %v", err, store.ErrRunNotFound)
	}
	return sent.by["watch"]
}

func TestWatch_UntilEndIsNotWokenByOtherFrames(t *testing.T) {
	server := redistest.Shared(t)
	st, sent := counted(t, server)
	t.Cleanup(func() { _ = st.Close() })
	f := newFleet(t, openURL(t, with(server.URL(), "prefix="+st.Prefix())))
	f.work(f.store, worker.Config{}, done)
	before := looked(f.ctx, t, st, sent)
	run := must(Ask.Start(f.ctx, f.client, workflow.None{}))
	type end struct {
		queueState store.QueueState
		err        error
	}
	ended := make(chan end, 1)
	go func() {
		err := st.Watch(f.ctx, run.ID(), store.UntilEnd)
		state, wrong := queueStateOf(f.ctx, st, run.ID())
		ended <- end{state, errors.Join(err, wrong)}
	}()
	for n, answer := range []string{"yes", "no"} {
		if err := f.store.Watch(f.ctx, run.ID(), uint64(n+1)); err != nil { // waits until the run waits for the answer
			t.Fatal(err)
		}
		if err := Answers.Send(f.ctx, run, answer); err != nil {
			t.Fatal(err)
		}
	}
	got := <-ended
	if got.err != nil || got.queueState != store.StateEnded {
		t.Errorf("Watch returned when the run was %v, %v, want it ended", got.queueState, got.err)
	}
	if n := sent.by["watch"] - before; n != 1 {
		t.Errorf("it looked %d times, want once", n)
	}
	if err := st.Watch(f.ctx, run.ID(), store.UntilEnd); err != nil { // returns at once
		t.Error(err)
	}
}

func TestWatch_UntilEndEndsWithTheRunAndWithItsContext(t *testing.T) {
	f := newFleet(t, openURL(t, with(redistest.Shared(t).URL(), "prefix="+redistest.Prefix())))
	st := f.store
	unknown := event.NewRunID(st.Clock().Now(), 0)
	if err := st.Watch(f.ctx, unknown, store.UntilEnd); !errors.Is(err, store.ErrRunNotFound) {
		t.Errorf("unknown run: got %v, want %v", err, store.ErrRunNotFound)
	}
	run := must(Ask.Start(f.ctx, f.client, workflow.None{})) // no worker executes the run
	ctx, cancel := context.WithCancel(f.ctx)
	gone := make(chan error, 2)
	for range 2 {
		go func() { gone <- st.Watch(ctx, run.ID(), store.UntilEnd) }()
	}
	cancel()
	for range 2 {
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: got %v, want %v", err, context.Canceled)
		}
	}
}

func TestWatch_UntilEndEachResultLooksOnceAndReadsTheLogOnce(t *testing.T) {
	const runs = 100
	server := redistest.Shared(t)
	st, sent := counted(t, server)
	f := newFleet(t, st)
	own := openURL(t, with(server.URL(), "prefix="+st.Prefix()))
	t.Cleanup(func() { _ = own.Close() })
	before := looked(f.ctx, t, st, sent)
	started := make([]*workflow.Run[string], runs)
	for n := range started {
		started[n] = must(Fulfil.Start(f.ctx, f.client, "order"))
	}
	results := make(chan error, runs)
	for _, run := range started {
		go func() {
			got, err := run.Result(f.ctx)
			if err == nil && got != "order shipped" {
				err = errors.New("its result is " + got)
			}
			results <- err
		}()
	}
	f.work(own, worker.Config{}, done)
	for range runs {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := sent.by["watch"] - before; n > runs {
		t.Errorf("%d results took %d looks, want one each", runs, n)
	}
	if n := sent.by["xrange"]; n > runs {
		t.Errorf("%d results took %d reads of logs, want one each", runs, n)
	}
}
