package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

var _ store.Journaler = (*Store)(nil)

// journalDigits is the length of the ID at the beginning of each member of the journal.
const journalDigits = 28

// WriteJournal writes an entry into the journal in partition 0, and waits for replicas as a commit
// does.
func (s *Store) WriteJournal(ctx context.Context, e store.JournalEntry, keep store.JournalKeep) error {
	err := s.enter(ctx)
	var body []byte
	if err == nil {
		body, err = e.Pack()
	}
	if err == nil {
		p := s.parts[0]
		err = s.doReplicated(ctx, &call{
			script: scriptJournal, p: p, keys: []string{p.journal()}, args: []any{e.ID, body, max(keep.Most, 0), keep.Oldest(e.ID), store.JournalTrim},
			size: len(body),
		})
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// Journal returns a page of the journal.
func (s *Store) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.JournalPage{}, err
	}
	p := s.parts[0]
	return paging.Journal(&q, func(low, high string, n int) ([]store.JournalLine, error) {
		by := &redis.ZRangeBy{Min: "-", Max: "+", Count: int64(n)}
		if low != "" {
			by.Min = "[" + low
		}
		if high != "" {
			by.Max = "(" + high
		}
		var found *redis.StringSliceCmd
		if err := s.transaction(ctx, p, func(tx redis.Pipeliner) { found = tx.ZRevRangeByLex(ctx, p.journal(), by) }); err != nil {
			return nil, err
		}
		lines := make([]store.JournalLine, len(found.Val()))
		for i, member := range found.Val() {
			lines[i] = journalLine(member)
		}
		return lines, nil
	})
}

// journalLine decodes a member of the journal.
func journalLine(member string) store.JournalLine {
	n := min(journalDigits, len(member))
	return store.JournalLine{ID: member[:n], Body: []byte(member[n:])}
}

func (v *view) showJournal(snap *store.Snapshot) {
	for _, z := range v.journal.Val() {
		member, _ := z.Member.(string)
		snap.Journal = append(snap.Journal, journalLine(member))
	}
}

// lookAtJournal finds lines of the journal that cannot be decoded, are duplicates, or have a
// position that no page reaches.
func (e *partitionState) lookAtJournal() {
	stays := map[string]string{} // the member to keep for each ID: one with an outcome, if there is one
	for _, z := range e.journal.Val() {
		member, _ := z.Member.(string)
		line := journalLine(member)
		entry, err := store.UnpackJournal(line.ID, line.Body)
		if _, known := stays[line.ID]; err == nil && (!known || entry.Outcome != "") {
			stays[line.ID] = member
		}
	}
	for _, z := range e.journal.Val() {
		member, _ := z.Member.(string)
		line, score := journalLine(member), strconv.FormatFloat(z.Score, 'g', -1, 64)
		f, repair, to := store.Defect{Invariant: 24}, "remove it", ""
		switch stay, known := stays[line.ID]; {
		case !known || !readable(line):
			f.What, f.Explain = fmt.Sprintf("the journal has %.60q, which is no entry", member), "it is shown to nobody"
		case stay != member:
			f.What, f.Explain = fmt.Sprintf("entry %s of the journal is there twice", line.ID), "it is shown twice, with two outcomes"
		case z.Score != 0:
			f.What, f.Explain = fmt.Sprintf("entry %s of the journal stands at %s", line.ID, score), "it is out of order"
			repair, to = "put it into order", "0"
		default:
			continue
		}
		e.repairable(f, repair, swap{key: e.p.journal(), kind: inZSet, field: member, seen: score, value: to})
	}
}

func readable(line store.JournalLine) bool {
	_, err := store.UnpackJournal(line.ID, line.Body)
	return err == nil
}
