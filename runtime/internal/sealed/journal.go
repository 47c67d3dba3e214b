package sealed

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// CountJournal returns the number of reasons in the journal by the ID of their key, in their stored
// form. The ID of reasons that are not encrypted is empty. It returns nil if s keeps no entries.
func CountJournal(ctx context.Context, s store.Store) (map[string]int, error) {
	uses := map[string]int{}
	err := eachEntry(ctx, Raw(s), func(e *store.Entry) error {
		_, err := convertReason(e.Value, func(text string) (string, error) {
			key := ""
			if data, is := event.SealedText(text); is {
				s, err := event.ReadSealed(data)
				if err != nil {
					return "", fmt.Errorf("journal entry %s: %w", e.Key, err)
				}
				key = s.Key
			}
			uses[key]++
			return text, nil
		})
		return err
	})
	return uses, err
}

// ResealJournal seals the reasons in the journal with the active key of the codec. It returns the
// number of entries whose reason had another key or none.
func (s *Store) ResealJournal(ctx context.Context) (changed int, err error) {
	err = eachEntry(ctx, s.Store, func(e *store.Entry) error {
		value, err := convertReason(e.Value, func(text string) (string, error) {
			plain, err := s.openReason(ctx, e.Key, text)
			if err != nil {
				return "", err
			}
			return s.sealReason(ctx, e.Key, plain)
		})
		if err != nil {
			return fmt.Errorf("journal entry %s: %w", e.Key, err)
		}
		if bytes.Equal(value, e.Value) {
			return nil
		}
		entries, _ := store.As[store.Entries](s.Store)
		err = entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: e.Space, Key: e.Key, Value: value}, Match: true, Old: e.Value})
		if errors.Is(err, store.ErrEntryChanged) {
			return nil // its outcome was written with the active key, or its time was over
		}
		if err == nil {
			changed++
		}
		return err
	})
	return changed, err
}

// journalPage is the number of entries that a request reads.
const journalPage = 1000

// eachEntry calls f with all entries of the journal, the newest first.
func eachEntry(ctx context.Context, s store.Store, f func(*store.Entry) error) error {
	entries, ok := store.As[store.Entries](s)
	if !ok {
		return nil
	}
	for q := (store.EntryQuery{Space: store.JournalSpace, Newest: true, Limit: journalPage}); ; {
		page, err := entries.Entries(ctx, q)
		for i := 0; err == nil && i < len(page); i++ {
			err = f(&page[i])
		}
		if err != nil || len(page) < journalPage {
			return err
		}
		q.Below = page[len(page)-1].Key
	}
}
