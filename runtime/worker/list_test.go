package worker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func (w *world) list(f workflow.Filter) []workflow.RunID {
	w.t.Helper()
	var ids []workflow.RunID
	for info, err := range w.client.List(w.ctx, f) {
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	return ids
}

func TestRUN7_ListFiltersNewestFirst(t *testing.T) {
	clock := storetest.NewClock()
	w := newWorld(t, memstore.NewWith(memstore.Config{Clock: clock}), workflow.ClientConfig{})
	w.clock = clock
	begun := clock.Now()
	var ids []workflow.RunID
	for i := range 6 { // one a minute
		opts := []workflow.StartOption{workflow.WithTags(map[string]string{"parity": fmt.Sprint(i % 2), "n": fmt.Sprint(i)})}
		if i >= 4 {
			opts = append(opts, workflow.WithQueue("bulk"))
		}
		if i == 5 {
			ids = append(ids, start(w, parker, "x", opts...).ID())
		} else {
			ids = append(ids, start(w, echo, "x", opts...).ID())
		}
		clock.Advance(time.Minute)
	}
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, runs)
	for _, id := range ids[:4] {
		_ = result(w, echo.Get(w.client, id))
	}
	at := func(i int) time.Time { return begun.Add(time.Duration(i) * time.Minute) }
	for name, tt := range map[string]struct {
		filter workflow.Filter
		want   []int
	}{
		"all":             {workflow.Filter{}, []int{5, 4, 3, 2, 1, 0}},
		"status":          {workflow.Filter{Statuses: []workflow.Status{workflow.StatusCompleted}}, []int{3, 2, 1, 0}},
		"statuses":        {workflow.Filter{Statuses: []workflow.Status{workflow.StatusPending, workflow.StatusFailed}}, []int{5, 4}},
		"workflow":        {workflow.Filter{Workflow: "test.parker"}, []int{5}},
		"queue":           {workflow.Filter{Queue: "bulk"}, []int{5, 4}},
		"tag":             {workflow.Filter{Tags: map[string]string{"parity": "1"}}, []int{5, 3, 1}},
		"tags":            {workflow.Filter{Tags: map[string]string{"parity": "1", "n": "3"}}, []int{3}},
		"time":            {workflow.Filter{From: at(1), To: at(4)}, []int{3, 2, 1}},
		"several at once": {workflow.Filter{Queue: "bulk", Workflow: "test.echo"}, []int{4}},
		"none":            {workflow.Filter{Tags: map[string]string{"n": "77"}}, nil},
	} {
		var want []workflow.RunID
		for _, i := range tt.want {
			want = append(want, ids[i])
		}
		if diff := cmp.Diff(want, w.list(tt.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		counts, err := w.client.Count(w.ctx, tt.filter)
		n := 0
		for _, c := range counts {
			n += c
		}
		if err != nil || n != len(want) {
			t.Errorf("%s: counted %v, %v, want %d", name, counts, err, len(want))
		}
	}
}

func TestRUN7_ListPagesWithoutACapAndGoesOnFromACursor(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		requests := make([]workflow.StartRequest[string], 350)
		started, err := echo.StartMany(w.ctx, w.client, requests)
		if err != nil {
			t.Fatal(err)
		}
		var want []workflow.RunID
		for _, s := range started {
			want = append(want, s.Run.ID())
		}
		all := w.list(workflow.Filter{})
		got := slices.Clone(all)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		lister, _ := store.As[store.Lister](w.store)
		page, err := lister.List(w.ctx, store.Query{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all[200:], w.list(workflow.Filter{Cursor: page.Cursor})); diff != "" {
			t.Errorf("from the cursor (-want +got):\n%s", diff)
		}
		for info, err := range w.client.List(w.ctx, workflow.Filter{}) {
			if err != nil || info.ID != all[0] {
				t.Errorf("got %s, %v", info.ID, err)
			}
			break
		}
	})
}

func TestRUN7_WhatListReturnsBelongsToTheCaller(t *testing.T) {
	w := newMemory(t)
	run := start(w, echo, "x", workflow.WithTags(map[string]string{"a": "b"}))
	for range 2 {
		for info, err := range w.client.List(w.ctx, workflow.Filter{}) {
			if err != nil || info.Tags["a"] != "b" {
				t.Errorf("got %v, %v", info.Tags, err)
			}
			info.Tags["a"] = "changed"
		}
	}
	if info, err := run.Info(w.ctx); err != nil || info.Tags["a"] != "b" {
		t.Errorf("got %v, %v", info.Tags, err)
	}
}
