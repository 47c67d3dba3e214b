package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Entries = (*Store)(nil)

// WriteEntry writes or removes an entry in partition 0. Like a commit, it waits until enough
// replicas have confirmed the write.
func (s *Store) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	err := s.enter(ctx)
	if err == nil {
		err = w.Check()
	}
	if err != nil {
		return err
	}
	if strings.Contains(w.Space+w.Key, "\x00") { // this is a removal, because Check refuses such a key in a write
		return store.ErrEntryNotFound
	}
	match := ""
	if w.Match {
		match = "1"
	}
	p := s.parts[0]
	c := &call{
		script: scriptEntry, p: p, keys: []string{p.entries()}, size: len(w.Value) + len(w.Old),
		args: []any{w.Space, w.Key, w.Value, match, w.Old, max(w.Limit, 0), max(w.Keep.Most, 0), w.Keep.From, store.EntryTrim},
	}
	if err := s.doReplicated(ctx, c); err != nil {
		return err
	}
	switch c.answer().word() {
	case refusedChanged:
		return store.ErrEntryChanged
	case refusedNone:
		return store.ErrEntryNotFound
	case refusedFull:
		return store.ErrEntriesFull
	}
	return nil
}

// Entries returns entries of the space in q.
func (s *Store) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.parts[0]
	by := &redis.ZRangeBy{Min: "[" + q.Space + "\x00" + q.From, Max: "(" + q.Space + "\x01", Count: int64(q.Max())}
	if q.Below != "" {
		by.Max = "(" + q.Space + "\x00" + q.Below
	}
	var found *redis.StringSliceCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		if q.Newest {
			found = tx.ZRevRangeByLex(ctx, p.entries(), by)
		} else {
			found = tx.ZRangeByLex(ctx, p.entries(), by)
		}
	})
	if err != nil {
		return nil, err
	}
	all := make([]store.Entry, len(found.Val()))
	for i, member := range found.Val() {
		all[i] = unpackEntry(member)
	}
	return all, nil
}

// unpackEntry decodes a member of the set of entries. If the member is invalid, the entry has an
// empty space and the member as its key.
func unpackEntry(member string) store.Entry {
	parts := strings.SplitN(member, "\x00", 3)
	if len(parts) < 3 {
		return store.Entry{Key: member}
	}
	return store.Entry{Space: parts[0], Key: parts[1], Value: []byte(parts[2])}
}

func (v *view) showEntries(snap *store.Snapshot) {
	for _, member := range members(v.shared) {
		snap.Entries = append(snap.Entries, unpackEntry(member))
	}
}

// lookAtEntries finds invalid members of the set of entries, duplicate members of a key, and
// members with a wrong score, which queries do not find. Of several members of a key, it keeps the
// longest valid one, because a later version of an entry is usually longer. It adds the correct
// entries to the snapshot.
func (e *partitionState) lookAtEntries() {
	type id struct{ space, key string }
	stays := map[id]string{}
	for _, member := range members(e.shared) {
		entry := unpackEntry(member)
		at, readable := id{entry.Space, entry.Key}, entry.Damage() == nil
		stay, there := stays[at]
		old := unpackEntry(stay)
		if !there || readable && (old.Damage() != nil || len(member) > len(stay)) {
			stays[at] = member
		}
	}
	for _, z := range e.shared.Val() {
		member, _ := z.Member.(string)
		entry, score := unpackEntry(member), strconv.FormatFloat(z.Score, 'g', -1, 64)
		f, repair, to := store.Defect{Invariant: 24}, "remove it", ""
		switch stay := stays[id{entry.Space, entry.Key}]; {
		case entry.Space == "":
			f.What, f.Explain = fmt.Sprintf("%.60q is stored as an entry, but is not one", member), "nothing reads it"
		case stay != member:
			f.What, f.Explain = fmt.Sprintf("entry %.60q of %s exists twice", entry.Key, entry.Space), "it is shown twice, with two values"
		case z.Score != 0:
			f.What, f.Explain = fmt.Sprintf("entry %.60q of %s has score %s, want 0", entry.Key, entry.Space, score), "it is out of order"
			repair, to = "set its score to 0", "0"
		default:
			e.snap.Entries = append(e.snap.Entries, entry)
			continue
		}
		e.repairable(f, repair, swap{key: e.p.entries(), kind: inZSet, field: member, seen: score, value: to})
	}
}
