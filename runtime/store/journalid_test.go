package store_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

func TestNewJournalID_OrdersThoseOfAMillisecondBesideOtherTimes(t *testing.T) {
	now := time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)
	var last string
	for i := range 100_000 {
		id := store.NewJournalID(now)
		if id <= last {
			t.Fatalf("entry %d: got ID %s after %s, want a greater one", i, id, last)
		}
		last = id
		store.NewJournalID(now.Add(-time.Hour)) // an ID with the time of another store
		if i%1000 == 999 {
			now = now.Add(time.Millisecond)
		}
	}
}
