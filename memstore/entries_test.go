package memstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestREC8_FindsDamageOfJournalCatalogueAndViews proves that a damaged entry is reported, hides no
// other entry, and is removed when the entry is written again. In memory only a defect of the
// process causes such damage, so there is no repair.
func TestREC8_FindsDamageOfJournalCatalogueAndViews(t *testing.T) {
	clock := storetest.NewClock()
	f := open(t, memstore.Config{Clock: clock})
	var ids []string
	for n := range 3 {
		e := store.JournalEntry{ID: store.NewJournalID(clock.Now().Add(time.Duration(n) * time.Second)), Action: "pause"}
		ids = append(ids, e.ID)
		f.check(store.WriteJournal(t.Context(), f.Store, e, store.JournalKeep{}))
	}
	for _, workflow := range []string{"one", "two"} {
		f.check(store.Describe(t.Context(), f.Store, workflow, store.CatalogVersion{Build: "b", Queue: "q"}))
	}
	for _, name := range []string{"one", "two"} {
		f.check(store.SaveView(t.Context(), f.Store, store.View{Name: name, Filter: "failing"}))
	}
	for _, e := range []store.Entry{
		{Space: store.ViewSpace, Key: "one", Value: []byte(`{"f":"trou`)},
		{Space: store.JournalSpace, Key: ids[1][:20], Value: []byte(`{}`)},
		{Space: store.CatalogSpace, Key: "one", Value: []byte(`[{"build`)},
	} {
		memstore.Plant(f.Store, e)
	}

	snap, err := f.Inspect(t.Context())
	f.check(err)
	found := fsck.Check(snap)
	if len(found) != 3 || found[0].Invariant != 24 || !strings.Contains(found[0].What, `catalog has`) || !strings.Contains(found[0].What, `"one"`) ||
		!strings.Contains(found[1].What, ids[1][:20]) || !strings.Contains(found[2].What, `views has`) || !strings.Contains(found[2].What, `"one"`) {
		t.Errorf("findings: got %v, want one of the catalogue, one of the journal and one of the views that name the entries", found)
	}
	if _, err := fsck.Repair(t.Context(), f.Store, fsck.Options{}); !errors.Is(err, fsck.ErrNotRepairable) {
		t.Errorf("repair: got %v, want that it cannot", err)
	}
	page, err := store.Journal(t.Context(), f.Store, store.JournalQuery{})
	f.check(err)
	var got []string
	for _, e := range page.Entries {
		got = append(got, e.ID)
	}
	if diff := cmp.Diff([]string{ids[2], ids[1], ids[0]}, got); diff != "" {
		t.Errorf("journal (-want +got)\n%s", diff)
	}
	described := func() (names []string) {
		all, err := store.Catalog(t.Context(), f.Store, store.CatalogQuery{})
		f.check(err)
		for _, e := range all {
			names = append(names, e.Workflow)
		}
		return names
	}
	if diff := cmp.Diff([]string{"two"}, described()); diff != "" {
		t.Errorf("catalogue (-want +got)\n%s", diff)
	}
	f.check(store.Describe(t.Context(), f.Store, "one", store.CatalogVersion{Build: "b", Queue: "q"}))
	if diff := cmp.Diff([]string{"one", "two"}, described()); diff != "" {
		t.Errorf("catalogue once it is described again (-want +got)\n%s", diff)
	}
	viewed := func() (names []string) {
		all, err := store.Views(t.Context(), f.Store)
		f.check(err)
		for _, v := range all {
			names = append(names, v.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"two"}, viewed()); diff != "" {
		t.Errorf("views (-want +got)\n%s", diff)
	}
	f.check(store.SaveView(t.Context(), f.Store, store.View{Name: "one", Filter: "failing"}))
	if diff := cmp.Diff([]string{"one", "two"}, viewed()); diff != "" {
		t.Errorf("views once it is saved again (-want +got)\n%s", diff)
	}
}
