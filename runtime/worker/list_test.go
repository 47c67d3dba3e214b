package worker_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
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

// paged lists what matches page by page, and calls a function after each page.
func (w *world) paged(f workflow.Filter, limit int, after func(page []workflow.RunID)) []workflow.RunID {
	w.t.Helper()
	lister, _ := store.As[store.Lister](w.store)
	q := store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, From: f.From, To: f.To, Limit: limit,
	}
	var all []workflow.RunID
	for {
		page, err := lister.List(w.ctx, q)
		if err != nil {
			w.t.Fatal(err)
		}
		begins := len(all)
		for _, r := range page.Runs {
			all = append(all, r.Run)
		}
		after(all[begins:])
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return all
		}
	}
}

// family is parents that wait for a message, runs that were started after them, and then,
// once the parents have got it, their children and a grandchild of each. It returns what
// the store says of each of them alone, newest first.
func (w *world) family() []workflow.RunInfo {
	w.t.Helper()
	parent, middle := flow[string, string]("parent"), flow[string, string]("middle")
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, runs, parks,
		as(middle, func(ctx workflow.Context, in string) (string, error) {
			return echo.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "grandchild"})).Get(ctx)
		}),
		as(parent, func(ctx workflow.Context, in string) (string, error) {
			if _, err := wake.Receive(ctx); err != nil {
				return "", err
			}
			parker.StartChild(ctx, in, workflow.WithQueue("bulk"), workflow.WithParentClose(workflow.ParentCloseAbandon),
				workflow.WithTags(map[string]string{"kind": "child", "left": "yes"}))
			return middle.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "child"})).Get(ctx)
		}))
	var parents, others []*workflow.Run[string]
	for n := range 2 {
		parents = append(parents, start(w, parent, "x", workflow.WithTags(map[string]string{"kind": "parent", "n": fmt.Sprint(n)})))
	}
	w.later()
	for n := range 4 {
		opts := []workflow.StartOption{workflow.WithTags(map[string]string{"kind": "other", "n": fmt.Sprint(n)})}
		if n == 3 {
			opts = append(opts, workflow.WithQueue("bulk"))
		}
		others = append(others, start(w, echo, "x", opts...))
	}
	w.later()
	for _, run := range parents {
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, run := range slices.Concat(parents, others[:3]) {
		_ = result(w, run)
	}
	var ids []workflow.RunID
	w.eventually("all children are there", func() bool {
		ids = w.list(workflow.Filter{})
		return len(ids) == 12
	})
	var all []workflow.RunInfo
	for _, id := range ids {
		info, err := w.client.Run(id).Info(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b workflow.RunInfo) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return all
}

// later waits until what is created now is newer than what is there.
func (w *world) later() {
	w.t.Helper()
	now := w.store.Clock().Now()
	w.eventually("the clock has gone on", func() bool { return !w.store.Clock().Now().Before(now.Add(2 * time.Millisecond)) })
}

// selects reports whether a filter asks for a run.
func selects(f workflow.Filter, i *workflow.RunInfo) bool {
	for key, value := range f.Tags {
		if got, ok := i.Tags[key]; !ok || got != value {
			return false
		}
	}
	return (f.Workflow == "" || i.Workflow == f.Workflow) && (f.Queue == "" || i.Queue == f.Queue) &&
		(f.Parent == "" || i.Parent == f.Parent) && (f.Root == "" || i.Root == f.Root) &&
		(f.From.IsZero() || !i.CreatedAt.Before(f.From)) && (f.To.IsZero() || i.CreatedAt.Before(f.To)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, i.Status))
}

func TestRUN7_ListFiltersNewestFirst(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		all := w.family()
		var kinds []string
		find := func(workflowName string, parent workflow.RunID) workflow.RunInfo {
			return all[slices.IndexFunc(all, func(i workflow.RunInfo) bool { return i.Workflow == "test."+workflowName && i.Parent == parent })]
		}
		top := find("parent", "")
		child := find("middle", top.ID)
		grandchild := find("echo", child.ID)
		for _, id := range w.list(workflow.Filter{}) {
			at := slices.IndexFunc(all, func(i workflow.RunInfo) bool { return i.ID == id })
			kinds = append(kinds, strings.TrimPrefix(all[at].Tags["kind"], "grand"))
		}
		if got, want := slices.Compact(kinds), []string{"child", "other", "parent"}; !slices.Equal(got, want) {
			t.Errorf("the runs are, newest first, %v, want %v", got, want)
		}
		const some = -1 // how many depends on what was created in one millisecond
		completed, pending := workflow.StatusCompleted, workflow.StatusPending
		for name, tt := range map[string]struct {
			filter workflow.Filter
			want   int
		}{
			"all":                        {workflow.Filter{}, 12},
			"status":                     {workflow.Filter{Statuses: []workflow.Status{completed}}, 9},
			"statuses":                   {workflow.Filter{Statuses: []workflow.Status{pending, workflow.StatusFailed}}, 3},
			"workflow":                   {workflow.Filter{Workflow: "test.echo"}, 6},
			"queue":                      {workflow.Filter{Queue: "bulk"}, 3},
			"tag":                        {workflow.Filter{Tags: map[string]string{"kind": "child"}}, 4},
			"tags":                       {workflow.Filter{Tags: map[string]string{"kind": "child", "left": "yes"}}, 2},
			"a tag that none has":        {workflow.Filter{Tags: map[string]string{"n": "77"}}, 0},
			"parent":                     {workflow.Filter{Parent: top.ID}, 2},
			"parent that is a child":     {workflow.Filter{Parent: child.ID}, 1},
			"root":                       {workflow.Filter{Root: top.ID}, 4},
			"root that is none":          {workflow.Filter{Root: child.ID}, 0},
			"children of a status":       {workflow.Filter{Parent: top.ID, Statuses: []workflow.Status{completed}}, 1},
			"tree in a queue":            {workflow.Filter{Root: top.ID, Queue: "bulk"}, 1},
			"from a child":               {workflow.Filter{From: child.CreatedAt}, some},
			"from a grandchild":          {workflow.Filter{From: grandchild.CreatedAt}, some},
			"to a child":                 {workflow.Filter{To: child.CreatedAt}, some},
			"the millisecond of a child": {workflow.Filter{From: child.CreatedAt, To: child.CreatedAt.Add(time.Millisecond)}, some},
			"children from a time":       {workflow.Filter{Parent: top.ID, From: child.CreatedAt}, some},
			"everything": {workflow.Filter{
				Parent: child.ID, Root: top.ID, Workflow: "test.echo", Queue: "default", Statuses: []workflow.Status{completed},
				Tags: grandchild.Tags, From: top.CreatedAt, To: grandchild.CreatedAt.Add(time.Nanosecond),
			}, 1},
		} {
			var want []workflow.RunID
			counts := map[workflow.Status]int{}
			for i := range all {
				if selects(tt.filter, &all[i]) {
					want = append(want, all[i].ID)
					counts[all[i].Status]++
				}
			}
			if tt.want != some && len(want) != tt.want {
				t.Errorf("%s: the filter selects %d runs, want %d", name, len(want), tt.want)
			}
			if diff := gocmp.Diff(want, w.list(tt.filter)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if diff := gocmp.Diff(want, w.paged(tt.filter, 1, func([]workflow.RunID) {})); diff != "" {
				t.Errorf("%s, one by one (-want +got):\n%s", name, diff)
			}
			if got, err := w.client.Count(w.ctx, tt.filter); err != nil || !maps.Equal(got, counts) {
				t.Errorf("%s: counted %v, %v, want %v", name, got, err, counts)
			}
		}
	})
}

// Whatever is started, ends or is deleted meanwhile: pages have all other runs once, and
// those that are started later not at all. A start of so many puts many into one
// millisecond.
func TestRUN7_PagesNeitherSkipNorRepeatRunsWhileThereAreOthers(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		var want []workflow.RunID
		for _, some := range []struct {
			queue string
			n     int
		}{{"nobody", 3000}, {workflow.DefaultQueue, 100}} {
			requests := make([]workflow.StartRequest[string], some.n)
			for i := range requests {
				requests[i].Options = []workflow.StartOption{workflow.WithQueue(some.queue)}
			}
			started, err := echo.StartMany(w.ctx, w.client, requests)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range started {
				want = append(want, s.Run.ID())
			}
		}
		slices.Sort(want)
		w.work(worker.Config{}, runs) // the hundred, while pages are read
		got := w.paged(workflow.Filter{}, 130, func(page []workflow.RunID) {
			for _, id := range page {
				err := w.client.Run(id).Delete(w.ctx)
				if err != nil && !errors.As(err, new(*workflow.StatusError)) {
					t.Error(err)
				}
			}
			_ = result(w, start(w, echo, "later"))
		})
		slices.Sort(got)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.eventually("what is served has ended", func() bool {
			counts, err := w.client.Count(w.ctx, workflow.Filter{Queue: workflow.DefaultQueue})
			return err == nil && counts[workflow.StatusPending]+counts[workflow.StatusRunning] == 0
		})
		n, err := w.client.Delete(w.ctx, workflow.Filter{Queue: workflow.DefaultQueue})
		if left := w.list(workflow.Filter{Queue: workflow.DefaultQueue}); err != nil || n == 0 || len(left) > 0 {
			t.Errorf("deleted %d, %v, and %v are left", n, err, left)
		}
		if got := w.list(workflow.Filter{}); len(got) != 3000 {
			t.Errorf("%d runs are left, want those that nobody serves", len(got))
		}
	})
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
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		lister, _ := store.As[store.Lister](w.store)
		page, err := lister.List(w.ctx, store.Query{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(all[200:], w.list(workflow.Filter{Cursor: page.Cursor})); diff != "" {
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
