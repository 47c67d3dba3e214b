package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Entries is a store that keeps named entries: small values that belong to no run, such as the
// views that operators share, the workflow catalogue and the journal. Stores do not interpret the
// values. This package implements the encoding, the checks and the pages of each kind of entry on
// top of this interface, so a new kind of entry requires no change of a store.
//
// Do not use entries for data of a step. Those are written under the fence of a run, may count as
// progress of the run in the same action, and are removed with its end. See [StepDataStore].
type Entries interface {
	// Clock returns the clock of the store. It determines the times in entries.
	Clock() Clock
	// WriteEntry writes or removes an entry. In the same action it checks the conditions and
	// applies the retention of w. If it returns nil, the change is as durable as a commit.
	// Otherwise nothing was changed, and it returns an *InvalidError from [EntryWrite.Check] or an
	// error from [EntryWrite.Refused].
	WriteEntry(ctx context.Context, w EntryWrite) error
	// Entries returns the entries that q selects, in the order of their keys.
	Entries(ctx context.Context, q EntryQuery) ([]Entry, error)
}

// Entry is a value under a key of a space.
type Entry struct {
	Space string // kind of the entry, such as [ViewSpace]
	Key   string
	Value []byte // not empty
}

// Limits of entries, in bytes. A key has at most MaxName bytes.
const (
	MaxEntrySpace = 40
	MaxEntryValue = 1 << 20
)

// EntryTrim is the maximum number of entries that one write removes because of EntryKeep.Most, and
// also because of EntryKeep.From. If the retention of a space was shortened, each write removes
// some entries until the space complies.
const EntryTrim = 1000

// EntryWrite is a change of an entry.
type EntryWrite struct {
	// Entry is the entry to write. An empty value removes the entry with this key.
	Entry
	// If Match is set, the write succeeds only if the current value is Old, or if there is no entry
	// and Old is empty. A value that was changed and changed back counts as unchanged.
	Match bool
	Old   []byte
	// Limit is the maximum number of entries in the space. If the space has this many entries, a
	// write with a new key fails. 0 means no maximum.
	Limit int
	// Keep removes other entries of the space after the write, those with the lowest keys first. It
	// removes at most EntryTrim entries because of each of its fields.
	Keep EntryKeep
}

// EntryKeep defines which entries of a space are kept. The zero value keeps all entries.
type EntryKeep struct {
	Most int    // maximum number of entries; 0 means no maximum
	From string // lowest key
}

// EntryQuery selects entries of a space.
type EntryQuery struct {
	Space string
	From  string // lowest key
	Below string // exclusive upper bound of the keys; empty means no bound
	// Newest reverses the order, so that the highest key comes first.
	Newest bool
	Limit  int // maximum number of entries; 100 if not positive
}

// Errors of writes of entries.
var (
	ErrEntryChanged  = errors.New("the entry was changed")
	ErrEntryNotFound = errors.New("there is no such entry")
	ErrEntriesFull   = errors.New("the maximum number of entries is reached")
)

// Check returns an *InvalidError if some stores cannot keep the space, the key or the value. It
// accepts every removal, so that a damaged entry can be removed.
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

// Refused returns the error with which a store must refuse the write: ErrEntryChanged,
// ErrEntryNotFound or ErrEntriesFull. It returns nil if the write is permitted. found reports
// whether the key has an entry, and old is the value of the entry. count returns the number of
// entries in the space.
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

// spaces contains the spaces that this release uses, each with the check of an entry. The check
// returns an error for an entry that was not written by the functions of this package. Readers omit
// such entries.
var spaces = map[string]func(key string, value []byte) error{
	ViewSpace:    func(name string, value []byte) error { _, err := unpackView(name, value); return err },
	CatalogSpace: func(name string, value []byte) error { _, err := unpackCatalog(name, value); return err },
	JournalSpace: func(id string, value []byte) error { _, err := unpackJournal(id, value); return err },
	AlertSpace:   func(string, []byte) error { return nil }, // a worker replaces an entry that it cannot read
	DeploySpace: func(_ string, value []byte) error {
		return json.Unmarshal(value, &struct {
			Builds []struct {
				ID, To               string
				First, Last, Retired time.Time
				Percent              int
			}
		}{})
	},
}

// AlertSpace is the space of the entries by which workers agree on the one that searches for
// conditions to report, see package alert. The workers of a rolling deployment that have different
// rules have an entry each.
const AlertSpace = "alerts"

// DeploySpace is the space of the entry that records the builds of workers and the distribution of
// new runs over them. See ops.Client.Deploys.
const DeploySpace = "deploys"

// Damage returns an error if the entry cannot be decoded. An entry of an unknown space may have
// been written by a newer release, so it is not damaged unless the name of the space is invalid.
func (e *Entry) Damage() error {
	if check := spaces[e.Space]; check != nil {
		return check(e.Key, e.Value)
	}
	return checkSpace(e.Space)
}

// entryOf returns a query for the entry with the given key. If there is none, the query selects the
// entry with the next higher key.
func entryOf(space, key string) EntryQuery { return EntryQuery{Space: space, From: key, Limit: 1} }

// afterKey returns a lower bound for the keys that are greater than key.
func afterKey(key string) string { return key + "\x01" } // a key contains no zero byte

// eachEntry calls f for the selected entries until f returns false. It reads q.Limit entries at a
// time.
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
