package repairtest

import (
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
)

// Described is the workflow of the scene Entries: a worker that starts describes it in the catalogue.
const Described = "repair.sleeping"

// EntryID is the id of the nth entry of the journal in the scene Entries, which has those from 0 to 2.
func EntryID(n int) string { return fmt.Sprintf("%012x%016x", 1000+n, n) }

// Entries is a sleeping run in a store whose journal and whose catalogue have entries. When it finishes they must all be
// there, in order, each once, and with their outcomes; so must one be that is written then.
func (w *World) Entries() *Scene {
	w.T.Helper()
	for n := range 3 {
		w.enter(n, store.JournalOK)
	}
	if err := w.catalog().Describe(w.Ctx, Described, store.CatalogVersion{Build: "b", Queue: "q"}); err != nil {
		w.T.Fatal(err)
	}
	s := w.Sleeping()
	finish := s.Finish
	s.Finish = func() string {
		w.enter(3, "")
		w.enter(3, store.JournalOK)
		w.entered()
		return finish()
	}
	return s
}

// enter writes an entry into the journal.
func (w *World) enter(n int, outcome string) {
	w.T.Helper()
	j, ok := store.As[store.Journaler](w.Store)
	if !ok {
		w.T.Fatalf("%T is not a store.Journaler", w.Store)
	}
	e := store.JournalEntry{ID: EntryID(n), Principal: "ada", Face: "cli", Action: "pause", Outcome: outcome}
	if err := j.WriteJournal(w.Ctx, e, store.JournalKeep{}); err != nil {
		w.T.Fatal(err)
	}
}

// entered fails the test unless the journal and the catalogue have what they should have.
func (w *World) entered() {
	w.T.Helper()
	j, _ := store.As[store.Journaler](w.Store)
	page, err := j.Journal(w.Ctx, store.JournalQuery{})
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
		found, err := w.catalog().Catalog(w.Ctx, store.CatalogQuery{Workflow: Described})
		return len(found) == 1, err
	})
}

func (w *World) catalog() store.Cataloger {
	w.T.Helper()
	c, ok := store.As[store.Cataloger](w.Store)
	if !ok {
		w.T.Fatalf("%T is not a store.Cataloger", w.Store)
	}
	return c
}
