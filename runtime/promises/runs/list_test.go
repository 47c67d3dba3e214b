package runs_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// selects is the expected result of a filter for a run.
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		all := family(w)
		var kinds []string
		find := func(workflowName string, parent workflow.RunID) workflow.RunInfo {
			return all[slices.IndexFunc(all, func(i workflow.RunInfo) bool { return i.Workflow == "test."+workflowName && i.Parent == parent })]
		}
		top := find("parent", "")
		child := find("middle", top.ID)
		grandchild := find("echo", child.ID)
		for _, id := range w.List(workflow.Filter{}) {
			at := slices.IndexFunc(all, func(i workflow.RunInfo) bool { return i.ID == id })
			kinds = append(kinds, strings.TrimPrefix(all[at].Tags["kind"], "grand"))
		}
		if got, want := slices.Compact(kinds), []string{"child", "other", "parent"}; !slices.Equal(got, want) {
			t.Errorf("the runs are, newest first, %v, want %v", got, want)
		}
		const some = -1 // the wanted number depends on how many runs were created in one millisecond
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
			if diff := gocmp.Diff(want, w.List(tt.filter)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if diff := gocmp.Diff(want, paged(w, tt.filter, 1, func([]workflow.RunID) {})); diff != "" {
				t.Errorf("%s, one by one (-want +got):\n%s", name, diff)
			}
			if got, err := w.Client.Count(w.Ctx, tt.filter); err != nil || !got.Exact || !maps.Equal(got.ByStatus(), counts) {
				t.Errorf("%s: counted %v, %v, want %v", name, got, err, counts)
			}
		}
	})
}

// TestRUN7_APageKeepsToItsBudgetAndTheNextGoesOn proves that no page examines more runs than its
// budget, and that all pages together are the complete list. It tests filters for roots, tags and
// workflow IDs, with the newest and the oldest runs first.
func TestRUN7_APageKeepsToItsBudgetAndTheNextGoesOn(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		all := family(w)
		named := flowtest.Start(w, flowtest.Echo, "x", workflow.WithID("order-1"), workflow.WithTags(map[string]string{"kind": "named"}))
		flowtest.Result(w, named)
		info, err := named.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		all = append([]workflow.RunInfo{info}, all...)
		for name, tt := range map[string]struct {
			filter  workflow.Filter
			selects func(i workflow.RunInfo) bool
		}{
			"all":            {workflow.Filter{}, func(workflow.RunInfo) bool { return true }},
			"roots":          {workflow.Filter{Roots: true}, func(i workflow.RunInfo) bool { return i.Parent == "" }},
			"roots of a tag": {workflow.Filter{Roots: true, Tags: map[string]string{"kind": "other"}}, func(i workflow.RunInfo) bool { return i.Tags["kind"] == "other" }},
			"workflow id":    {workflow.Filter{WorkflowID: "order-1"}, func(i workflow.RunInfo) bool { return i.ID == named.ID() }},
			"another one":    {workflow.Filter{WorkflowID: "order-2"}, func(workflow.RunInfo) bool { return false }},
		} {
			for _, oldest := range []bool{false, true} {
				var want, got []workflow.RunID
				for _, i := range all {
					if tt.selects(i) {
						want = append(want, i.ID)
					}
				}
				if oldest {
					slices.Reverse(want)
				}
				f := tt.filter
				f.Oldest, f.Budget = oldest, 3
				for {
					page, err := w.Client.Page(w.Ctx, f, 2)
					if err != nil {
						t.Fatal(err)
					}
					if page.Looked > 3 || len(page.Runs) > 2 {
						t.Errorf("%s: a page of %d runs has looked at %d, with a limit of 2 and a budget of 3", name, len(page.Runs), page.Looked)
					}
					for _, i := range page.Runs {
						got = append(got, i.ID)
					}
					if f.Cursor = page.Cursor; f.Cursor == "" {
						break
					}
				}
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("%s, oldest first: %v (-want +got):\n%s", name, oldest, diff)
				}
			}
			if counts, err := w.Client.Count(w.Ctx, tt.filter); err != nil || !counts.Exact {
				t.Errorf("%s: counted %+v, %v", name, counts, err)
			}
		}
	})
}

// TestRUN7_PagesNeitherSkipNorRepeatRunsWhileThereAreOthers proves that pages contain every
// existing run once, and no run that was started later, while other runs start, end and are
// deleted. Several runs have the same creation time, and these runs span several pages.
func TestRUN7_PagesNeitherSkipNorRepeatRunsWhileThereAreOthers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const unserved, served, page = 300, 60, 25
		var want []workflow.RunID
		for _, some := range []struct {
			queue string
			n     int
		}{{"nobody", unserved}, {workflow.DefaultQueue, served}} {
			requests := make([]workflow.StartRequest[string], some.n)
			for i := range requests {
				requests[i].Options = []workflow.StartOption{workflow.WithQueue(some.queue)}
			}
			started, err := flowtest.Echo.StartMany(w.Ctx, w.Client, requests)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range started {
				want = append(want, s.Run.ID())
			}
		}
		slices.Sort(want)
		full := w.Store.Clock().Now()
		w.Eventually("what is started later is newer", func() bool { return w.Store.Clock().Now().Sub(full) > 10*time.Millisecond })
		w.Work(worker.Config{}, flowtest.Runs) // the worker executes runs of the default queue while the pages are read
		got := paged(w, workflow.Filter{}, page, func(ids []workflow.RunID) {
			for _, id := range ids {
				err := ops.New(w.Client).Delete(w.Ctx, id)
				if err != nil && !errors.As(err, new(*workflow.StatusError)) {
					t.Error(err)
				}
			}
			_ = flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "later"))
		})
		slices.Sort(got)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.Eventually("what is served has ended", func() bool {
			counts, err := w.Client.Count(w.Ctx, workflow.Filter{Queue: workflow.DefaultQueue})
			return err == nil && counts.ByStatus()[workflow.StatusPending]+counts.ByStatus()[workflow.StatusRunning] == 0
		})
		n, err := ops.New(w.Client).DeleteMany(w.Ctx, workflow.Filter{Queue: workflow.DefaultQueue})
		if left := w.List(workflow.Filter{Queue: workflow.DefaultQueue}); err != nil || n == 0 || len(left) > 0 {
			t.Errorf("deleted %d, %v, and %v are left", n, err, left)
		}
		if got := w.List(workflow.Filter{}); len(got) != unserved {
			t.Errorf("%d runs are left, want those that nobody serves", len(got))
		}
	})
}

func TestRUN7_ListPagesWithoutACapAndGoesOnFromACursor(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		requests := make([]workflow.StartRequest[string], 350)
		started, err := flowtest.Echo.StartMany(w.Ctx, w.Client, requests)
		if err != nil {
			t.Fatal(err)
		}
		var want []workflow.RunID
		for _, s := range started {
			want = append(want, s.Run.ID())
		}
		all := w.List(workflow.Filter{})
		got := slices.Clone(all)
		slices.Sort(got)
		slices.Sort(want)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		lister, _ := store.As[store.Lister](w.Store)
		page, err := lister.List(w.Ctx, store.Query{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(all[200:], w.List(workflow.Filter{Cursor: page.Cursor})); diff != "" {
			t.Errorf("from the cursor (-want +got):\n%s", diff)
		}
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{}) {
			if err != nil || info.ID != all[0] {
				t.Errorf("got %s, %v", info.ID, err)
			}
			break
		}
	})
}

func TestRUN7_WhatListReturnsBelongsToTheCaller(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Echo, "x", workflow.WithTags(map[string]string{"a": "b"}))
	for range 2 {
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{}) {
			if err != nil || info.Tags["a"] != "b" {
				t.Errorf("got %v, %v", info.Tags, err)
			}
			info.Tags["a"] = "changed"
		}
	}
	if info, err := run.Info(w.Ctx); err != nil || info.Tags["a"] != "b" {
		t.Errorf("got %v, %v", info.Tags, err)
	}
}

// paged lists the runs that match a filter in pages of limit runs. It calls after with each page.
func paged(w *flowtest.World, f workflow.Filter, limit int, after func(page []workflow.RunID)) []workflow.RunID {
	w.T.Helper()
	lister, _ := store.As[store.Lister](w.Store)
	q := store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, From: f.From, To: f.To, Limit: limit,
	}
	var all []workflow.RunID
	for {
		page, err := lister.List(w.Ctx, q)
		flowtest.Order(w.T, err)
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

// family starts two parents that wait for a message, and four other runs after them. When these
// runs exist, the parents receive their message and start children and grandchildren. It
// returns the Info of all these runs, newest first.
func family(w *flowtest.World) []workflow.RunInfo {
	w.T.Helper()
	parent, middle := flowtest.Flow[string, string]("parent"), flowtest.Flow[string, string]("middle")
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, flowtest.Runs, flowtest.Parks,
		flowtest.As(middle, func(ctx workflow.Context, in string) (string, error) {
			return flowtest.Echo.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "grandchild"})).Get(ctx)
		}),
		flowtest.As(parent, func(ctx workflow.Context, in string) (string, error) {
			if _, err := flowtest.Wake.Receive(ctx); err != nil {
				return "", err
			}
			flowtest.Parker.StartChild(ctx, in, workflow.WithQueue("bulk"), workflow.WithParentClose(workflow.ParentCloseAbandon),
				workflow.WithTags(map[string]string{"kind": "child", "left": "yes"}))
			return middle.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "child"})).Get(ctx)
		}))
	var parents, others []*workflow.Run[string]
	for n := range 2 {
		parents = append(parents, flowtest.Start(w, parent, "x", workflow.WithTags(map[string]string{"kind": "parent", "n": fmt.Sprint(n)})))
	}
	later(w)
	for n := range 4 {
		opts := []workflow.StartOption{workflow.WithTags(map[string]string{"kind": "other", "n": fmt.Sprint(n)})}
		if n == 3 {
			opts = append(opts, workflow.WithQueue("bulk"))
		}
		others = append(others, flowtest.Start(w, flowtest.Echo, "x", opts...))
	}
	later(w)
	for _, run := range parents {
		flowtest.Order(w.T, flowtest.Wake.Send(w.Ctx, run, "go"))
	}
	for _, run := range slices.Concat(parents, others[:3]) {
		_ = flowtest.Result(w, run)
	}
	var ids []workflow.RunID
	w.Eventually("all children are there", func() bool {
		ids = w.List(workflow.Filter{})
		return len(ids) == 12
	})
	var all []workflow.RunInfo
	for _, id := range ids {
		info, err := w.Client.Run(id).Info(w.Ctx)
		flowtest.Order(w.T, err)
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b workflow.RunInfo) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return all
}

// later waits until new runs have a later creation time than the existing runs.
func later(w *flowtest.World) {
	w.T.Helper()
	now := w.Store.Clock().Now()
	w.Eventually("the clock has gone on", func() bool { return !w.Store.Clock().Now().Before(now.Add(2 * time.Millisecond)) })
}
