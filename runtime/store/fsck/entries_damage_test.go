package fsck_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// entries returns a case that damages entries. It adds an entry of the catalogue, two of the
// journal and a view, in this order, and calls do.
func entries(do func(s *state), want ...int) damage {
	return damage{want, func(s *state) {
		ctx, m := context.Background(), memstore.New()
		check := func(err error) {
			if err != nil {
				panic(err)
			}
		}
		for n := range 2 {
			e := store.JournalEntry{ID: store.NewJournalID(s.Now.Add(time.Duration(n) * time.Second)), Principal: "ada", Face: "cli", Action: "pause"}
			check(store.WriteJournal(ctx, m, e, store.JournalKeep{}))
		}
		check(store.Describe(ctx, m, "w", store.CatalogVersion{Build: "b", Queue: "q"}))
		check(store.SaveView(ctx, m, store.View{Name: "v", Filter: "failing"}))
		snap, err := m.Inspect(ctx)
		check(err)
		s.Entries = snap.Entries
		do(s)
	}}
}

// entry returns a case that damages entry number n, from 0.
func entry(n int, do func(e *store.Entry)) damage {
	return entries(func(s *state) { do(&s.Entries[n]) }, 24)
}

// value returns a case that changes the value of entry number n.
func value(n int, value string) damage {
	return entry(n, func(e *store.Entry) { e.Value = []byte(value) })
}

// shorten returns a case that truncates the value of entry number n.
func shorten(n int) damage {
	return entry(n, func(e *store.Entry) { e.Value = e.Value[:len(e.Value)-1] })
}

var entryDamage = map[string]damage{
	"24 all is well":                      entries(func(*state) {}),
	"24 a space is unknown":               entries(func(s *state) { s.Entries[3] = store.Entry{Space: "zoo", Key: "k", Value: []byte("x")} }),
	"24 a space has no name":              entry(0, func(e *store.Entry) { e.Space = "" }),
	"24 a space has a long name":          entry(3, func(e *store.Entry) { e.Space = strings.Repeat("z", store.MaxEntrySpace+1) }),
	"24 an entry comes before another":    entries(func(s *state) { s.Entries[1], s.Entries[2] = s.Entries[2], s.Entries[1] }, 24),
	"24 a space comes before another":     entries(func(s *state) { slices.Reverse(s.Entries[2:]) }, 24),
	"24 an entry is there twice":          entries(func(s *state) { s.Entries = append(s.Entries, s.Entries[3]) }, 24),
	"24 a workflow is cut short":          shorten(0),
	"24 a workflow is empty":              value(0, ""),
	"24 a workflow has no version":        value(0, `[]`),
	"24 a workflow has too many":          value(0, `[{},{},{},{},{}]`),
	"24 a workflow is unnamed":            entry(0, func(e *store.Entry) { e.Key = "" }),
	"24 a build has a name that is none":  value(0, `[{"build":"\u0000","queue":"q"}]`),
	"24 a request is cut short":           shorten(2),
	"24 a request is empty":               value(1, ""),
	"24 a request is something else":      value(1, `["pause"]`),
	"24 an id is none":                    entry(1, func(e *store.Entry) { e.Key = "0" }),
	"24 an id is that of no time":         entry(2, func(e *store.Entry) { e.Key = "z" + e.Key[1:] }),
	"24 a view is cut short":              shorten(3),
	"24 a view is empty":                  value(3, ""),
	"24 a view has no name":               entry(3, func(e *store.Entry) { e.Key = "" }),
	"24 a view has no filter":             value(3, `{}`),
	"24 a view has a filter of two lines": value(3, `{"f":"a\nb"}`),
}
