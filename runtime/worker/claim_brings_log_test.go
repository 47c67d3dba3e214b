package worker_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

// handing is a store whose claims also return the logs of the claimed runs.
type handing struct{ *flowtest.Between }

func (s handing) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Between.Claim(ctx, c)
	for i := range got.Runs {
		loaded, err := s.Store.Load(ctx, []store.Load{{Run: got.Runs[i].Run, Inbox: true}})
		if err != nil {
			return store.Claimed{}, err
		}
		got.Runs[i].Loaded = &loaded[0]
	}
	return got, err
}

func TestClaim_WhatItHandsOverIsNotReadAgain(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.AttackOnce, 4)
	st := &flowtest.Between{Store: w.Store}
	w.WorkOn(handing{st}, worker.Config{}, flowtest.AttackStep.As(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := st.Count("load"); n != 0 {
		t.Errorf("the worker read %d times, want never", n)
	}
	w.Healthy()
}

func TestClaim_TheInboxThatItHandsOverIsReceived(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Collects, 2)
	for n := range 2 {
		if err := flowtest.Numbers.Send(w.Ctx, run, n); err != nil {
			t.Fatal(err)
		}
	}
	w.WorkOn(handing{&flowtest.Between{Store: w.Store}}, worker.Config{}, flowtest.Collect)
	if diff := cmp.Diff([]int{0, 1}, flowtest.Result(w, run)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	w.Healthy()
}
