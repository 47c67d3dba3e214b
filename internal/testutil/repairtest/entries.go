package repairtest

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
)

// Described is the name of the workflow in the scene Entries. A worker that starts adds the
// description of the workflow to the catalogue.
const Described = "repair.sleeping"

// EntryID returns the ID of journal entry n in the scene Entries. The scene has the entries 0 to 2.
func EntryID(n int) string { return fmt.Sprintf("%012x%016x", 1000+n, n) }

// SavedView is the name of a view in the scene Entries. The operator saves this view again when the
// scene finishes.
const SavedView = "Night shift"

// Entries returns a sleeping run in a store with journal entries, catalogue entries and two views.
// When the scene finishes, all entries must exist once, in order and with their outcomes, together
// with an entry that is written then. The store must have no other views.
func (w *World) Entries() *Scene {
	w.T.Helper()
	for n := range 3 {
		w.enter(n, store.JournalOK)
	}
	if err := store.Describe(w.Ctx, w.entries(), Described, store.CatalogVersion{Build: "b", Queue: "q"}); err != nil {
		w.T.Fatal(err)
	}
	for _, name := range []string{"another", SavedView} {
		w.save(name)
	}
	s := w.Sleeping()
	finish := s.Finish
	s.Finish = func() string {
		w.enter(3, "")
		w.enter(3, store.JournalOK)
		w.entered()
		w.save(SavedView)
		w.viewed("another", SavedView)
		return finish()
	}
	return s
}

// enter writes an entry to the journal.
func (w *World) enter(n int, outcome string) {
	w.T.Helper()
	e := store.JournalEntry{ID: EntryID(n), Principal: "ada", Face: "cli", Action: "pause", Outcome: outcome}
	if err := store.WriteJournal(w.Ctx, w.entries(), e, store.JournalKeep{}); err != nil {
		w.T.Fatal(err)
	}
}

// entered fails the test unless the journal and the catalogue contain exactly the expected entries.
func (w *World) entered() {
	w.T.Helper()
	page, err := store.Journal(w.Ctx, w.entries(), store.JournalQuery{})
	if err != nil {
		w.T.Fatal(err)
	}
	var got, want []string
	for _, e := range page.Entries {
		got = append(got, e.ID+" "+e.Outcome)
	}
	for n := 3; n >= 0; n-- {
		want = append(want, EntryID(n)+" "+store.JournalOK)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.T.Errorf("journal (-want +got)\n%s", diff)
	}
	w.until("the workflow is described", func() (bool, error) {
		found, err := store.Catalog(w.Ctx, w.entries(), store.CatalogQuery{Workflow: Described})
		return len(found) == 1, err
	})
}

// save saves a view.
func (w *World) save(name string) {
	w.T.Helper()
	if err := store.SaveView(w.Ctx, w.entries(), store.View{Name: name, Filter: "status:failed"}); err != nil {
		w.T.Fatal(err)
	}
}

// viewed fails the test unless the store has exactly the given views.
func (w *World) viewed(want ...string) {
	w.T.Helper()
	i := able[store.Inspector](w)
	snap, err := i.Inspect(w.Ctx)
	if err != nil {
		w.T.Fatal(err)
	}
	var got []string
	for _, e := range snap.Entries {
		if e.Space == store.ViewSpace {
			got = append(got, e.Key)
		}
	}
	views, err := store.Views(w.Ctx, w.entries())
	if err != nil || len(views) != len(want) || slices.ContainsFunc(views, func(v store.View) bool { return v.Filter != "status:failed" }) {
		w.T.Errorf("got %+v, %v", views, err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		w.T.Errorf("views (-want +got)\n%s", diff)
	}
}

func (w *World) entries() store.Entries { return able[store.Entries](w) }

// able returns the store as the optional interface T. It fails the test if the store does not
// implement T.
func able[T any](w *World) T {
	w.T.Helper()
	s, ok := store.As[T](w.Store)
	if !ok {
		w.T.Fatalf("%T is no %v", w.Store, reflect.TypeFor[T]())
	}
	return s
}
