package paging

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// journalRead bounds how many lines of a journal are read at once.
const journalRead = 1000

// Journal returns a page of a journal. read returns up to n lines whose ids are low or more and
// below high (an empty string means no bound), those with the highest ids first; fewer only if
// there are no more. A line that cannot be decoded is left out; package fsck finds it.
func Journal(q *store.JournalQuery, read func(low, high string, n int) ([]store.JournalLine, error)) (store.JournalPage, error) {
	var page store.JournalPage
	low, high, err := q.Range()
	if err != nil {
		return page, err
	}
	limit, budget := q.Limit, q.Budget
	if limit <= 0 {
		limit = 100
	}
	if budget <= 0 {
		budget = store.DefaultBudget
	}
	for {
		n := min(budget+1, limit+1, journalRead) // one more, to find out whether there are more
		lines, err := read(low, high, n)
		if err != nil {
			return store.JournalPage{}, fmt.Errorf("read journal: %w", err)
		}
		for _, line := range lines {
			if budget == 0 {
				page.Cursor, page.Partial = high, true
				return page, nil
			}
			e, err := store.UnpackJournal(line.ID, line.Body)
			if err == nil && q.Matches(&e) {
				if len(page.Entries) == limit {
					page.Cursor = page.Entries[limit-1].ID
					return page, nil
				}
				page.Entries = append(page.Entries, e)
			}
			budget--
			high = line.ID
		}
		if len(lines) < n {
			return page, nil
		}
	}
}
