package operators

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// note writes an entry with the current time, and returns it.
func (h *harness) note(e store.JournalEntry, keep store.JournalKeep) store.JournalEntry {
	h.Helper()
	e.ID = store.NewJournalID(h.Clock.Now())
	h.rewrite(&e, keep)
	return e
}

// rewrite writes an entry under its ID. It sets e.Time to the time that the store must return.
func (h *harness) rewrite(e *store.JournalEntry, keep store.JournalKeep) {
	h.Helper()
	h.Check("write journal", store.WriteJournal(h.Ctx, h.entries(), *e, keep))
	e.Time = time.UnixMilli(h.Clock.Now().UnixMilli()).UTC()
	if at, err := store.CheckJournalID(e.ID); err == nil {
		e.Time = at
	}
}

// noted returns the entries on all pages of a query, newest first, and the number of pages.
func (h *harness) noted(q store.JournalQuery) (all []store.JournalEntry, pages int) {
	h.Helper()
	for {
		page, err := store.Journal(h.Ctx, h.entries(), q)
		h.Check("read journal", err)
		all, pages = append(all, page.Entries...), pages+1
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return all, pages
		}
		if pages > 10_000 {
			h.Fatalf("the pages have no end")
		}
	}
}

// notes returns the actions of the entries that a query finds, in the order of the answer.
func (h *harness) notes(q store.JournalQuery) (actions []string) {
	h.Helper()
	all, _ := h.noted(q)
	for _, e := range all {
		actions = append(actions, e.Action)
	}
	return actions
}

// noteMany writes an entry for each action, one second apart.
func (h *harness) noteMany(keep store.JournalKeep, actions ...string) {
	h.Helper()
	for _, action := range actions {
		h.note(store.JournalEntry{Action: action}, keep)
		h.Clock.Advance(time.Second)
	}
}

var journalBehaviors = []behavior{
	{"J1_AnEntryIsKeptAsItWasWritten", func(h *harness) {
		e := h.note(store.JournalEntry{
			Principal: "ada", Owner: "north", Face: "api", Action: "cancel", Target: "id:order-1", Run: "wrun_1", New: "wrun_2", Detail: "step", Reason: "because \"<§>\" & 'so'\n\u202e", Key: "k", Outcome: store.JournalOK,
		}, store.JournalKeep{})
		all, _ := h.noted(store.JournalQuery{})
		h.Equal("journal", all, []store.JournalEntry{e})
	}},
	{"J1_AnEntryThatIsWrittenAgainReplacesTheFirst", func(h *harness) {
		e := h.note(store.JournalEntry{Action: "a"}, store.JournalKeep{})
		h.Clock.Advance(time.Second)
		h.note(store.JournalEntry{Action: "b"}, store.JournalKeep{})
		e.Outcome, e.Reason = "refused", strings.Repeat("x", 300)
		h.rewrite(&e, store.JournalKeep{})
		h.rewrite(&e, store.JournalKeep{})
		all, _ := h.noted(store.JournalQuery{})
		h.Equal("actions", h.notes(store.JournalQuery{}), []string{"b", "a"})
		h.Equal("the entry that was written again", all[1], e)
	}},
	{"J1_TheNewestEntriesComeFirst", func(h *harness) {
		h.noteMany(store.JournalKeep{}, "a", "b", "c")
		h.Equal("journal", h.notes(store.JournalQuery{}), []string{"c", "b", "a"})
	}},
	{"J1_EntriesOfOneInstantKeepTheirOrder", func(h *harness) {
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			h.note(store.JournalEntry{Action: want[i]}, store.JournalKeep{})
		}
		slices.Reverse(want)
		h.Equal("journal", h.notes(store.JournalQuery{Limit: 3}), want)
	}},
	{"J1_PagesHaveEachEntryOnce", func(h *harness) {
		var want []string
		for i := range 23 {
			want = append(want, fmt.Sprint(i))
		}
		h.noteMany(store.JournalKeep{}, want...)
		slices.Reverse(want)
		for _, limit := range []int{1, 2, 22, 23, 24} {
			all, pages := h.noted(store.JournalQuery{Limit: limit})
			h.Equal(fmt.Sprint("pages of ", limit), pages, (23+limit-1)/limit)
			h.Equal(fmt.Sprint("entries in pages of ", limit), len(all), 23)
		}
		h.Equal("in pages of 5", h.notes(store.JournalQuery{Limit: 5}), want)
	}},
	{"J1_AQuerySelectsByEachField", func(h *harness) {
		at := h.Clock.Now()
		for i, e := range []store.JournalEntry{
			{Principal: "ada", Owner: "north", Action: "cancel", Target: "id:a", Run: "wrun_a", Outcome: store.JournalOK},
			{Principal: "bob", Action: "cancel", Target: "wrun_a", Outcome: "forbidden"},
			{Principal: "ada", Action: "retry", Target: "wrun_b", New: "wrun_c"},
		} {
			e.Detail = fmt.Sprint(i)
			h.note(e, store.JournalKeep{})
			h.Clock.Advance(time.Second)
		}
		for what, tt := range map[string]struct {
			q    store.JournalQuery
			want []string
		}{
			"principal":        {store.JournalQuery{Principals: []string{"ada"}}, []string{"2", "0"}},
			"principals":       {store.JournalQuery{Principals: []string{"ada", "bob"}}, []string{"2", "1", "0"}},
			"owner":            {store.JournalQuery{Owner: "north"}, []string{"0"}},
			"nobody":           {store.JournalQuery{Principals: []string{"ad"}}, nil},
			"action":           {store.JournalQuery{Actions: []string{"cancel"}}, []string{"1", "0"}},
			"target as named":  {store.JournalQuery{Target: "id:a"}, []string{"0"}},
			"run":              {store.JournalQuery{Target: "wrun_a"}, []string{"1", "0"}},
			"new run":          {store.JournalQuery{Target: "wrun_c"}, []string{"2"}},
			"outcome":          {store.JournalQuery{Outcomes: []string{"forbidden"}}, []string{"1"}},
			"no outcome":       {store.JournalQuery{Outcomes: []string{""}}, []string{"2"}},
			"from":             {store.JournalQuery{From: at.Add(time.Second)}, []string{"2", "1"}},
			"to":               {store.JournalQuery{To: at.Add(time.Second)}, []string{"0"}},
			"from and to":      {store.JournalQuery{From: at.Add(time.Second), To: at.Add(2 * time.Second)}, []string{"1"}},
			"after all":        {store.JournalQuery{From: at.Add(time.Hour)}, nil},
			"a time before":    {store.JournalQuery{To: time.Unix(-1, 0)}, nil},
			"from and a page":  {store.JournalQuery{From: at.Add(time.Second), Limit: 1}, []string{"2", "1"}},
			"all fields":       {store.JournalQuery{Principals: []string{"ada"}, Actions: []string{"cancel"}, Target: "wrun_a", Outcomes: []string{store.JournalOK}, From: at, To: at.Add(time.Second)}, []string{"0"}},
			"one that differs": {store.JournalQuery{Principals: []string{"bob"}, Actions: []string{"cancel"}, Target: "wrun_a", Outcomes: []string{store.JournalOK}}, nil},
		} {
			var got []string
			all, _ := h.noted(tt.q)
			for _, e := range all {
				got = append(got, e.Detail)
			}
			h.Equal(what, got, tt.want)
		}
	}},
	{"J1_NoQueryLooksAtMoreThanItsBudget", func(h *harness) {
		h.noteMany(store.JournalKeep{}, "rare", "a", "b", "c", "d")
		q := store.JournalQuery{Actions: []string{"rare"}, Budget: 2}
		page, err := store.Journal(h.Ctx, h.entries(), q)
		h.Check("read journal", err)
		h.Equal("entries of the first page", len(page.Entries), 0)
		h.Equal("partial", page.Partial, true)
		all, pages := h.noted(q)
		h.Equal("entries of all pages", len(all), 1)
		h.Equal("pages", pages, 3)
		page, err = store.Journal(h.Ctx, h.entries(), store.JournalQuery{Budget: 5})
		h.Check("read journal", err)
		h.Equal("partial with enough", page.Partial, false)
	}},
	{"J1_TheOldestAreForgottenOnceThereAreTooMany", func(h *harness) {
		h.noteMany(store.JournalKeep{Most: 3}, "a", "b", "c")
		h.Equal("as many as are kept", h.notes(store.JournalQuery{}), []string{"c", "b", "a"})
		e := h.note(store.JournalEntry{Action: "d"}, store.JournalKeep{Most: 3})
		h.Equal("one more", h.notes(store.JournalQuery{}), []string{"d", "c", "b"})
		e.Outcome = store.JournalOK
		h.rewrite(&e, store.JournalKeep{Most: 3})
		h.Equal("one that is written again", h.notes(store.JournalQuery{}), []string{"d", "c", "b"})
		h.Clock.Advance(time.Second)
		h.note(store.JournalEntry{Action: "e"}, store.JournalKeep{Most: 2})
		h.Equal("fewer than before", h.notes(store.JournalQuery{}), []string{"e", "d"})
		h.Clock.Advance(time.Second)
		h.note(store.JournalEntry{Action: "f"}, store.JournalKeep{})
		h.Equal("any number", h.notes(store.JournalQuery{}), []string{"f", "e", "d"})
	}},
	{"J1_TheOldestAreForgottenOnceTheyAreTooOld", func(h *harness) {
		keep := store.JournalKeep{For: 2 * time.Second}
		h.noteMany(keep, "a", "b", "c")
		h.Equal("as old as are kept", h.notes(store.JournalQuery{}), []string{"c", "b", "a"})
		h.noteMany(keep, "d")
		h.Equal("one that is older", h.notes(store.JournalQuery{}), []string{"d", "c", "b"})
		h.Clock.Advance(time.Hour)
		h.noteMany(keep, "e")
		h.Equal("all others", h.notes(store.JournalQuery{}), []string{"e"})
	}},
	{"J1_SomeAreForgottenAtATime", func(h *harness) {
		for what, keep := range map[string]store.JournalKeep{"their number": {Most: 1}, "their age": {For: time.Minute}} {
			for range store.EntryTrim + 10 {
				h.note(store.JournalEntry{Action: "a"}, store.JournalKeep{})
			}
			h.Clock.Advance(time.Hour)
			before := len(h.notes(store.JournalQuery{Limit: 1000}))
			h.note(store.JournalEntry{Action: "b"}, keep)
			h.Equal("forgotten for "+what, before+1-len(h.notes(store.JournalQuery{Limit: 1000})), store.EntryTrim)
		}
	}},
	{"J1_WhatIsNoEntryIsRefused", func(h *harness) {
		good := store.NewJournalID(h.Clock.Now())
		for _, id := range []string{"", "x", good + "0", good[1:], strings.ToUpper(good[:27]) + "A", good[:27] + "~", good[:27] + "\x00"} {
			err := store.WriteJournal(h.Ctx, h.entries(), store.JournalEntry{ID: id, Action: "a"}, store.JournalKeep{})
			if err == nil {
				h.Errorf("an entry with the id %q was accepted", id)
			}
			if id == "" {
				continue
			}
			if _, err := store.Journal(h.Ctx, h.entries(), store.JournalQuery{Cursor: id}); err == nil {
				h.Errorf("the cursor %q was accepted", id)
			}
		}
		h.Equal("journal", h.notes(store.JournalQuery{}), []string(nil))
	}},
	{"J1_TextsThatAreNoneOrTooLongAreKeptAsFarAsTheyGo", func(h *harness) {
		h.note(store.JournalEntry{Action: "\xff\x00", Reason: strings.Repeat("ü", store.MaxJournalText), Target: strings.Repeat("x", store.MaxJournalText)}, store.JournalKeep{})
		all, _ := h.noted(store.JournalQuery{})
		h.Equal("entries", len(all), 1)
		h.Equal("action", all[0].Action, "\uFFFD\uFFFD")
		h.Equal("reason", all[0].Reason, strings.Repeat("ü", store.MaxJournalText/2))
		h.Equal("target", all[0].Target, strings.Repeat("x", store.MaxJournalText))
	}},
	{"J1_EntriesOfOneInstantAreAllKept", func(h *harness) {
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				e := store.JournalEntry{ID: store.NewJournalID(h.Clock.Now()), Action: fmt.Sprint(i)}
				for _, e.Outcome = range []string{"", store.JournalOK} {
					if err := store.WriteJournal(h.Ctx, h.entries(), e, store.JournalKeep{Most: 50, For: time.Hour}); err != nil {
						h.Errorf("write journal: %v", err)
					}
				}
			})
		}
		wg.Wait()
		all, _ := h.noted(store.JournalQuery{Limit: 7})
		seen := map[string]bool{}
		for _, e := range all {
			seen[e.Action] = e.Outcome == store.JournalOK
		}
		h.Equal("entries", len(all), 50)
		h.Equal("different ones", len(seen), 50)
	}},
	{"J1_AClosedStoreWritesNoJournal", func(h *harness) {
		j := h.entries()
		h.Check("close", h.Store.Close())
		if err := store.WriteJournal(h.Ctx, j, store.JournalEntry{ID: store.NewJournalID(h.Clock.Now())}, store.JournalKeep{}); err == nil {
			h.Errorf("an entry was written")
		}
		if _, err := store.Journal(h.Ctx, j, store.JournalQuery{}); err == nil {
			h.Errorf("the journal was read")
		}
	}},
}

var reopenJournalBehaviors = []behavior{
	{"J1_TheJournalIsThereAfterTheStoreWasOpenedAgain", func(h *harness) {
		h.noteMany(store.JournalKeep{}, "a", "b")
		h.Reopen()
		h.Equal("journal", h.notes(store.JournalQuery{}), []string{"b", "a"})
	}},
}
