package fsck_test

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// entries adds two entries of the journal, one of the catalog and a view, and damages them.
func entries(do func(s *state), want ...int) damage {
	return damage{want, func(s *state) {
		for n := range 2 {
			e := store.JournalEntry{ID: store.NewJournalID(s.Now.Add(time.Duration(n) * time.Second)), Principal: "ada", Face: "cli", Action: "pause"}
			body, _ := e.Pack() // its ID is valid
			s.Journal = append(s.Journal, store.JournalLine{ID: e.ID, Body: body})
		}
		e := store.CatalogEntry{Workflow: "w", Versions: []store.CatalogVersion{{Build: "b", At: s.Now, Queue: "q"}}}
		body, _ := e.Pack() // text and times can always be encoded
		s.Catalog = map[string][]byte{"w": body}
		v := store.View{Name: "v", Filter: "troubled"}
		packed, _ := v.Pack(s.Now) // its name and its filter are valid
		s.Views = map[string][]byte{"v": packed}
		do(s)
	}}
}

var entryDamage = map[string]damage{
	"24, 25 and 27 all is well":            entries(func(*state) {}),
	"24 an entry is cut short":             entries(func(s *state) { l := &s.Journal[1]; l.Body = l.Body[:len(l.Body)-1] }, 24),
	"24 an entry is empty":                 entries(func(s *state) { s.Journal[0].Body = nil }, 24),
	"24 an entry is something else":        entries(func(s *state) { s.Journal[0].Body = []byte(`["pause"]`) }, 24),
	"24 an id is none":                     entries(func(s *state) { s.Journal[0].ID = "0" }, 24),
	"24 an id is that of no time":          entries(func(s *state) { s.Journal[1].ID = "z" + s.Journal[1].ID[1:] }, 24),
	"24 an entry comes before an older":    entries(func(s *state) { slices.Reverse(s.Journal) }, 24),
	"24 an entry is there twice":           entries(func(s *state) { s.Journal = append(s.Journal, s.Journal[1]) }, 24),
	"25 an entry is cut short":             entries(func(s *state) { s.Catalog["w"] = s.Catalog["w"][:9] }, 25),
	"25 an entry is empty":                 entries(func(s *state) { s.Catalog["w"] = nil }, 25),
	"25 an entry has no version":           entries(func(s *state) { s.Catalog["w"] = []byte(`[]`) }, 25),
	"25 an entry has too many":             entries(func(s *state) { s.Catalog["w"] = []byte(`[{},{},{},{},{}]`) }, 25),
	"25 an entry is of a workflow unnamed": entries(func(s *state) { s.Catalog[""] = s.Catalog["w"] }, 25),
	"25 a build has a name that is none":   entries(func(s *state) { s.Catalog["w"] = []byte(`[{"build":"\u0000","queue":"q"}]`) }, 25),
	"27 a view is cut short":               entries(func(s *state) { s.Views["v"] = s.Views["v"][:9] }, 27),
	"27 a view is empty":                   entries(func(s *state) { s.Views["v"] = nil }, 27),
	"27 a view has no name":                entries(func(s *state) { s.Views[""] = s.Views["v"] }, 27),
	"27 a view has no filter":              entries(func(s *state) { s.Views["v"] = []byte(`{}`) }, 27),
	"27 a view has a filter of two lines":  entries(func(s *state) { s.Views["v"] = []byte(`{"f":"a\nb"}`) }, 27),
}
