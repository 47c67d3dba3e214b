package worker_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

// handing is a store whose claims hand over everything.
type handing struct{ *between }

func (s handing) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.between.Claim(ctx, c)
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
	w := newMemory(t)
	run := start(w, attackOnce, 4)
	st := &between{Store: w.store}
	w.workOn(handing{st}, worker.Config{}, attackStep.as(func(_ context.Context, n int) (int, error) { return 2 * n, nil }), as(attackOnce, attackStep.Call))
	if got := result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := st.count("load"); n != 0 {
		t.Errorf("the worker read %d times, want never", n)
	}
	w.healthy()
}

func TestClaim_TheInboxThatItHandsOverIsReceived(t *testing.T) {
	w := newMemory(t)
	run := start(w, collects, 2)
	for n := range 2 {
		if err := numbers.Send(w.ctx, run, n); err != nil {
			t.Fatal(err)
		}
	}
	w.workOn(handing{&between{Store: w.store}}, worker.Config{}, collect)
	if diff := cmp.Diff([]int{0, 1}, result(w, run)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	w.healthy()
}
