package store

import (
	"bytes"
	"context"
	"errors"
)

// Entries is a store that keeps named entries: small values beside the runs, such as the views that
// operators share, the catalogue of workflows and the journal. A store knows nothing of their
// meaning. Everything that a kind of entries needs (encoding, checks, order of pages) is written
// once, in this package, on top of this interface; a further kind of entries changes no store.
//
// Entries belong to no run. Data of a step do not fit here: they are written under the fence of a
// run, may count as its progress in the same action, and end with it. See [StepDataStore].
type Entries interface {
	// Clock returns the clock of the store, which dates entries.
	Clock() Clock
	// WriteEntry writes or removes an entry, in one action with the conditions and the retention of
	// w. When it returns nil, the change is as durable as a commit. Otherwise it returns an
	// *InvalidError from [EntryWrite.Check] or an error of [EntryWrite.Refused], and nothing was
	// changed.
	WriteEntry(ctx context.Context, w EntryWrite) error
	// Entries returns entries of a space in the order of their keys.
	Entries(ctx context.Context, q EntryQuery) ([]Entry, error)
}

// Entry is a value under a key of a space.
type Entry struct {
	Space string // the kind of the entry, for example [ViewSpace]
	Key   string
	Value []byte // not empty
}

// The limits of entries, in bytes. A key is at most MaxName long.
const (
	MaxEntrySpace = 40
	MaxEntryValue = 1 << 20
)

// EntryTrim is the maximum number of entries that one write removes for their number, and for their
// keys: a space whose retention was shortened shrinks with each write.
const EntryTrim = 1000

// EntryWrite is a change of an entry.
type EntryWrite struct {
	// Entry is the entry to write. An empty value removes the entry of the key.
	Entry
	// If Match is set, the value must be Old, or there must be no entry if Old is empty. A value
	// serves as its own version: one that was changed and changed back counts as unchanged.
	Match bool
	Old   []byte
	// Limit is the number of entries in the space from which no further key is accepted; 0 means
	// any number.
	Limit int
	// Keep removes other entries of the space after the write, those with the least keys first, at
	// most EntryTrim for either reason.
	Keep EntryKeep
}

// EntryKeep defines which entries of a space are kept. The zero value keeps all.
type EntryKeep struct {
	Most int    // entries; 0 means any number
	From string // the least key
}

// EntryQuery selects entries of a space.
type EntryQuery struct {
	Space string
	From  string // the least key
	Below string // a key that is greater than all; empty for no bound
	// Newest reverses the order: the greatest key comes first.
	Newest bool
	Limit  int // the maximum number of entries; 100 if not positive
}

// The errors of writes of entries.
var (
	ErrEntryChanged  = errors.New("the entry was changed")
	ErrEntryNotFound = errors.New("there is no such entry")
	ErrEntriesFull   = errors.New("there are as many entries as there may be")
)

// Check returns an *InvalidError for a space, a key or a value that is not accepted by every store.
// It accepts every removal, so that entries that were damaged can be removed.
func (w *EntryWrite) Check() error {
	if len(w.Value) == 0 {
		return nil
	}
	if err := checkSpace(w.Space); err != nil {
		return err
	}
	if w.Key == "" {
		return &InvalidError{What: "key of an entry", Reason: "is empty"}
	}
	if len(w.Value) > MaxEntryValue {
		return tooLong("value of an entry", string(w.Value), MaxEntryValue)
	}
	return CheckName("key of an entry", w.Key)
}

func checkSpace(space string) error {
	if space == "" {
		return &InvalidError{What: "space of an entry", Reason: "is empty"}
	}
	return CheckText("space of an entry", space, MaxEntrySpace)
}

// Refused returns the reason for which a store must not make the change: ErrEntryChanged,
// ErrEntryNotFound or ErrEntriesFull. found reports whether the key has an entry, old is its value,
// and count returns the number of entries in the space.
func (w *EntryWrite) Refused(old []byte, found bool, count func() (int, error)) error {
	switch {
	case w.Match && !bytes.Equal(old, w.Old):
		return ErrEntryChanged
	case found:
		return nil
	case len(w.Value) == 0:
		return ErrEntryNotFound
	case w.Limit <= 0:
		return nil
	}
	n, err := count()
	if err == nil && n >= w.Limit {
		err = ErrEntriesFull
	}
	return err
}

// Max returns the maximum number of entries that the query selects.
func (q *EntryQuery) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return q.Limit
}

// spaces contains the check of each space of this release. It returns an error for a key and a
// value that the functions of the space have not written, which those that read it leave out.
var spaces = map[string]func(key string, value []byte) error{
	ViewSpace:    func(name string, value []byte) error { _, err := unpackView(name, value); return err },
	CatalogSpace: func(name string, value []byte) error { _, err := unpackCatalog(name, value); return err },
	JournalSpace: func(id string, value []byte) error { _, err := unpackJournal(id, value); return err },
}

// Damage returns an error if the entry cannot be read. An entry of a space that this release does
// not know, which a newer release may have written, is not damaged.
func (e *Entry) Damage() error {
	if check := spaces[e.Space]; check != nil {
		return check(e.Key, e.Value)
	}
	return checkSpace(e.Space)
}

// entryOf returns the query that finds the entry of a key, or else the one after it.
func entryOf(space, key string) EntryQuery { return EntryQuery{Space: space, From: key, Limit: 1} }

// afterKey returns the least key that is greater than a key.
func afterKey(key string) string { return key + "\x01" } // a key has no zero byte

// eachEntry calls f for the selected entries until f returns false. It reads q.Limit at a time.
func eachEntry(ctx context.Context, s Entries, q EntryQuery, f func(e *Entry) bool) error {
	for {
		page, err := s.Entries(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if !f(&page[i]) {
				return nil
			}
			if q.Newest {
				q.Below = page[i].Key
			} else {
				q.From = afterKey(page[i].Key)
			}
		}
		if len(page) < q.Max() {
			return nil
		}
	}
}
