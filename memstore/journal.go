package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

var _ store.Journaler = (*Store)(nil)

// journal contains the entries of the journal, the oldest first.
type journal struct {
	mu    sync.Mutex
	lines []store.JournalLine
}

// at returns the index at which an ID is or would be.
func (j *journal) at(id string) (i int, there bool) {
	return slices.BinarySearchFunc(j.lines, id, func(l store.JournalLine, id string) int { return strings.Compare(l.ID, id) })
}

// WriteJournal writes an entry.
func (s *Store) WriteJournal(ctx context.Context, e store.JournalEntry, keep store.JournalKeep) error {
	err := s.enter(ctx)
	var body []byte
	if err == nil {
		body, err = e.Pack()
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j := &s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	line := store.JournalLine{ID: e.ID, Body: body}
	if i, there := j.at(e.ID); there {
		j.lines[i] = line
	} else {
		j.lines = slices.Insert(j.lines, i, line)
	}
	old, _ := j.at(keep.Oldest(e.ID))
	j.lines = slices.Delete(j.lines, 0, min(old, store.JournalTrim))
	if many := len(j.lines) - keep.Most; keep.Most > 0 && many > 0 {
		j.lines = slices.Delete(j.lines, 0, min(many, store.JournalTrim))
	}
	return nil
}

// Journal returns a page of the journal.
func (s *Store) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	if err := s.enter(ctx); err != nil {
		return store.JournalPage{}, err
	}
	return paging.Journal(&q, func(low, high string, n int) ([]store.JournalLine, error) {
		j := &s.journal
		j.mu.Lock()
		defer j.mu.Unlock()
		first, _ := j.at(low)
		end := len(j.lines)
		if high != "" {
			end, _ = j.at(high)
		}
		found := slices.Clone(j.lines[max(first, end-n):max(first, end)])
		slices.Reverse(found)
		return found, nil
	})
}

// kept returns all lines.
func (j *journal) kept() []store.JournalLine {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}
