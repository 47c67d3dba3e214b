package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// spawn creates the children of a run.
func spawn(t *testing.T, s *sqlitestore.Store, parent, root event.RunID, n int) []event.RunID {
	t.Helper()
	var creates []store.Create
	var runs []event.RunID
	for i := range n {
		slot := event.RandomSlot()
		l := newLogOf(event.DerivedRunID(parent, fmt.Sprint("child ", i), slot), s.Clock())
		l.Spec.Parent, l.Spec.Root = parent, root
		creates = append(creates, l.Create())
		runs = append(runs, l.Run)
	}
	_, err := s.Create(testContext(t), creates)
	check(t, err)
	return runs
}

// list returns all matching runs in pages, the newest first.
func list(t *testing.T, s *sqlitestore.Store, q store.Query) []store.Record {
	t.Helper()
	var all []store.Record
	for {
		page, err := s.List(testContext(t), q)
		check(t, err)
		all = append(all, page.Runs...)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return all
		}
	}
}

func ids(records []store.Record) []event.RunID {
	var runs []event.RunID
	for _, r := range records {
		runs = append(runs, r.Run)
	}
	return runs
}

// newestFirst sorts runs in the order of lists.
func newestFirst(t *testing.T, s *sqlitestore.Store, runs ...event.RunID) []event.RunID {
	t.Helper()
	var loads []store.Load
	for _, run := range runs {
		loads = append(loads, store.Load{Run: run, Limit: -1})
	}
	loaded, err := s.Load(testContext(t), loads)
	check(t, err)
	slices.SortFunc(loaded, func(a, b store.Loaded) int { return store.NewestFirst(&a.Record, &b.Record) })
	var sorted []event.RunID
	for _, l := range loaded {
		sorted = append(sorted, l.Record.Run)
	}
	return sorted
}

func TestRUN7_ShowsTheTreeOfARun(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	roots := start(t, s, 2)
	root := roots[0].Run
	children := spawn(t, s, root, root, 5)
	grandchildren := spawn(t, s, children[2], root, 3)
	strangers := spawn(t, s, roots[1].Run, roots[1].Run, 4)

	for parent, want := range map[event.RunID][]event.RunID{
		root: children, children[2]: grandchildren, children[0]: nil, roots[1].Run: strangers,
	} {
		got := list(t, s, store.Query{Parent: parent, Limit: 2})
		if diff := cmp.Diff(newestFirst(t, s, want...), ids(got)); diff != "" {
			t.Errorf("children of %s (-want +got)\n%s", parent, diff)
		}
	}
	tree := list(t, s, store.Query{Root: root, Limit: 3})
	if diff := cmp.Diff(newestFirst(t, s, slices.Concat(children, grandchildren, []event.RunID{root})...), ids(tree)); diff != "" {
		t.Errorf("the root and the runs below it (-want +got)\n%s", diff)
	}
	parents, depths := map[event.RunID]event.RunID{}, map[int]int{}
	for _, r := range tree {
		parents[r.Run] = r.Parent
	}
	for _, r := range tree {
		depth := 0
		for run := r.Run; run != root; run = parents[run] {
			depth++
		}
		depths[depth]++
	}
	if diff := cmp.Diff(map[int]int{0: 1, 1: 5, 2: 3}, depths); diff != "" {
		t.Errorf("runs by depth (-want +got)\n%s", diff)
	}
	counts, err := s.Count(testContext(t), store.Query{Root: root})
	check(t, err)
	if diff := cmp.Diff(map[event.Status]int{event.StatusPending: 9}, counts.ByStatus()); diff != "" {
		t.Errorf("runs by status (-want +got)\n%s", diff)
	}
}
