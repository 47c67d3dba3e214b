package operators

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/store"
)

// entries returns the store as a store.Entries.
func (h *harness) entries() store.Entries {
	e, _ := store.As[store.Entries](h.Store)
	return e
}

// put writes an entry.
func (h *harness) put(space, key, value string) {
	h.Helper()
	h.Check("write entry", h.entries().WriteEntry(h.Ctx, store.EntryWrite{Entry: store.Entry{Space: space, Key: key, Value: []byte(value)}}))
}

// under returns the keys and values of the entries that a query selects.
func (h *harness) under(q store.EntryQuery) []string {
	h.Helper()
	all, err := h.entries().Entries(h.Ctx, q)
	h.Check("read entries", err)
	found := []string{}
	for _, e := range all {
		if e.Space != q.Space {
			h.Errorf("an entry of %q was found in %q", e.Space, q.Space)
		}
		found = append(found, fmt.Sprintf("%q=%q", e.Key, e.Value))
	}
	return found
}

// entryModel is a reference implementation of entries in memory.
type entryModel map[string]map[string]string // values by space, then by key

func (m entryModel) write(w *store.EntryWrite) error {
	space := m[w.Space]
	if space == nil {
		space = map[string]string{}
		m[w.Space] = space
	}
	old, found := space[w.Key]
	switch {
	case w.Match && old != string(w.Old):
		return store.ErrEntryChanged
	case !found && len(w.Value) == 0:
		return store.ErrEntryNotFound
	case !found && w.Limit > 0 && len(space) >= w.Limit:
		return store.ErrEntriesFull
	}
	delete(space, w.Key)
	if len(w.Value) > 0 {
		space[w.Key] = string(w.Value)
	}
	for _, key := range m.keys(w.Space) {
		if key < w.Keep.From || w.Keep.Most > 0 && len(space) > w.Keep.Most {
			delete(space, key)
		}
	}
	return nil
}

// keys returns the keys of a space in ascending order.
func (m entryModel) keys(space string) (all []string) {
	for key := range m[space] {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

func (m entryModel) query(q store.EntryQuery) []string {
	found := []string{}
	for _, key := range m.keys(q.Space) {
		if key >= q.From && (q.Below == "" || key < q.Below) {
			found = append(found, fmt.Sprintf("%q=%q", key, m[q.Space][key]))
		}
	}
	if q.Newest {
		slices.Reverse(found)
	}
	return found[:min(len(found), cmp.Or(max(q.Limit, 0), 100))]
}

// entryKeys contains keys that are prefixes of other keys. entrySpaces contains spaces that are
// prefixes of other spaces.
var (
	entryKeys   = []string{"a", "a\x01", "a\x01b", "a b", "aa", "b", "B", "é", "é\x7f", "10", "\U0010ffff", strings.Repeat("k", store.MaxName)}
	entrySpaces = []string{"a", "a\x01", "aa", "other"}
)

func (h *harness) compareEntries(m entryModel, q store.EntryQuery) {
	h.Helper()
	h.Equal(fmt.Sprintf("entries of %+v", q), h.under(q), m.query(q))
}

var entryBehaviors = []behavior{
	{"AnEntryIsReadAsItWasWritten", func(h *harness) {
		h.Equal("entries", h.under(store.EntryQuery{Space: "a"}), []string{})
		value := "\x00\x01{}\xff\x00 é"
		h.put("a", "key é", value)
		h.put("a", "large", strings.Repeat("x", store.MaxEntryValue))
		h.Equal("entries", h.under(store.EntryQuery{Space: "a", Limit: 1}), []string{fmt.Sprintf("%q=%q", "key é", value)})
		all, err := h.entries().Entries(h.Ctx, store.EntryQuery{Space: "a", From: "large"})
		h.Check("read entries", err)
		h.Equal("the large entry", len(all[0].Value), store.MaxEntryValue)
	}},
	{"WritesOfEntriesDoWhatTheModelDoes", func(h *harness) {
		r, m := rand.New(rand.NewPCG(1, 2)), entryModel{} //nolint:gosec // a test repeats its history
		pick := func(all []string) string { return all[r.IntN(len(all))] }
		for n := range 400 {
			w := store.EntryWrite{Entry: store.Entry{Space: pick(entrySpaces), Key: pick(entryKeys)}}
			if r.IntN(4) > 0 {
				w.Value = fmt.Append(nil, "v", n%3)
			}
			if w.Match = r.IntN(3) == 0; w.Match && r.IntN(2) == 0 {
				w.Old = []byte(m[w.Space][w.Key])
			} else if w.Match {
				w.Old = []byte("v1")
			}
			switch r.IntN(12) {
			case 0, 1, 2:
				w.Limit = 5
			case 3:
				w.Keep.Most = 4
			case 4:
				w.Keep.From = pick(entryKeys)
			case 5:
				w.Keep = store.EntryKeep{Most: 3, From: "B"}
			}
			got, want := h.entries().WriteEntry(h.Ctx, w), m.write(&w)
			if !errors.Is(got, want) {
				h.Fatalf("write %d, %+v: got %v, want %v", n, w, got, want)
			}
			h.compareEntries(m, store.EntryQuery{Space: w.Space})
			q := store.EntryQuery{Space: pick(entrySpaces), Newest: r.IntN(2) == 0, Limit: r.IntN(6)}
			if r.IntN(2) == 0 {
				q.From = pick(entryKeys)
			}
			if r.IntN(2) == 0 {
				q.Below = pick(entryKeys)
			}
			h.compareEntries(m, q)
		}
		kept := 0
		for _, e := range h.Inspect().Entries {
			h.Equal("the entry in the snapshot", string(e.Value), m[e.Space][e.Key])
			kept++
		}
		for _, space := range entrySpaces {
			kept -= len(m[space])
		}
		h.Equal("entries in the snapshot that are not in the model", kept, 0)
	}},
	{"AWriteRemovesNoMoreThanSomeEntries", func(h *harness) {
		for what, keep := range map[string]store.EntryKeep{"many": {Most: 1}, "old": {From: "b"}} {
			for i := range store.EntryTrim + 10 {
				h.put(what, fmt.Sprintf("a%05d", i), "x")
			}
			h.Check("write entry", h.entries().WriteEntry(h.Ctx, store.EntryWrite{Entry: store.Entry{Space: what, Key: "b", Value: []byte("x")}, Keep: keep}))
			left := h.under(store.EntryQuery{Space: what})
			h.Equal("the entries that are left", len(left), 11)
			h.Equal("the first of them", left[0], fmt.Sprintf(`"a%05d"="x"`, store.EntryTrim))
		}
	}},
	{"OfThoseThatReplaceTheSameValueOneDoes", func(h *harness) {
		var old []byte // in the first round no entry exists
		for round := range 10 {
			var all sync.WaitGroup
			var wrote atomic.Int64
			for i := range 8 {
				all.Go(func() {
					w := store.EntryWrite{Entry: store.Entry{Space: "a", Key: "k", Value: fmt.Append(nil, round, " ", i)}, Match: true, Old: old}
					switch err := h.entries().WriteEntry(h.Ctx, w); {
					case err == nil:
						wrote.Add(1)
					case !errors.Is(err, store.ErrEntryChanged):
						h.Errorf("replace entry: %v", err)
					}
				})
			}
			all.Wait()
			h.Equal("those that replaced the value", wrote.Load(), int64(1))
			found, err := h.entries().Entries(h.Ctx, store.EntryQuery{Space: "a"})
			h.Check("read entries", err)
			h.Equal("entries", len(found), 1)
			old = found[0].Value
		}
	}},
	{"WhatIsNoEntryIsRefused", func(h *harness) {
		for what, e := range map[string]store.Entry{
			"no space":                {Key: "k", Value: []byte("x")},
			"a long space":            {Space: strings.Repeat("s", store.MaxEntrySpace+1), Key: "k", Value: []byte("x")},
			"a space with a zero":     {Space: "s\x00", Key: "k", Value: []byte("x")},
			"no key":                  {Space: "s", Value: []byte("x")},
			"a long key":              {Space: "s", Key: strings.Repeat("k", store.MaxName+1), Value: []byte("x")},
			"a key with a zero":       {Space: "s", Key: "k\x00", Value: []byte("x")},
			"a key that is no text":   {Space: "s", Key: "\xff", Value: []byte("x")},
			"a large value":           {Space: "s", Key: "k", Value: make([]byte, store.MaxEntryValue+1)},
			"a space that is no text": {Space: "\xff", Key: "k", Value: []byte("x")},
		} {
			if err := h.entries().WriteEntry(h.Ctx, store.EntryWrite{Entry: e}); !errors.As(err, new(*store.InvalidError)) {
				h.Errorf("%s: got %v", what, err)
			}
		}
		h.Equal("entries", h.under(store.EntryQuery{Space: "s"}), []string{})
		for _, e := range []store.Entry{{Key: "k"}, {Space: "s"}, {Space: "\xff", Key: "\xff"}, {Space: "s\x00", Key: "k"}, {Space: "s", Key: "k\x00"}} {
			h.Is("remove what cannot be there", h.entries().WriteEntry(h.Ctx, store.EntryWrite{Entry: e}), store.ErrEntryNotFound)
		}
	}},
	{"AClosedStoreKeepsNoEntries", func(h *harness) {
		e := h.entries()
		h.Check("close", h.Store.Close())
		h.Is("write entry", e.WriteEntry(h.Ctx, store.EntryWrite{Entry: store.Entry{Space: "s", Key: "k", Value: []byte("x")}}), store.ErrClosed)
		_, err := e.Entries(h.Ctx, store.EntryQuery{Space: "s"})
		h.Is("read entries", err, store.ErrClosed)
	}},
}

var reopenEntryBehaviors = []behavior{
	{"EntriesAreThereAfterTheStoreWasOpenedAgain", func(h *harness) {
		h.Reopen()
		h.put("a", "k", "x")
		h.put("a", "l", "x")
		h.Check("remove entry", h.entries().WriteEntry(h.Ctx, store.EntryWrite{Entry: store.Entry{Space: "a", Key: "l"}}))
		h.Reopen()
		h.Equal("entries", h.under(store.EntryQuery{Space: "a"}), []string{`"k"="x"`})
	}},
}
