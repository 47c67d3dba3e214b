package store

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Lists are in the order of creation, as the stores that made the runs recorded it, and
// never in the order of ids: the id of a child carries the time of its parent (see
// event.DerivedRunID), and the clocks that other ids are from are those of clients. A run
// has its place for as long as it exists, whatever becomes of it, so a cursor needs no
// run that still exists, and the pages that follow it neither skip nor repeat one.

// NewestFirst compares runs as lists order them: by falling time of creation, those of
// one millisecond by falling id.
func NewestFirst(a, b *Record) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Run, a.Run))
}

// CursorAfter returns the cursor of a page that ends with r.
func CursorAfter(r *Record) string {
	return strconv.FormatInt(r.CreatedAt.UnixMilli(), 10) + "." + string(r.Run)
}

// After returns the last run of the page before, and when it was created; no run: the
// query begins with the newest.
func (q *Query) After() (created time.Time, run event.RunID, err error) {
	if q.Cursor == "" {
		return time.Time{}, "", nil
	}
	at, id, _ := strings.Cut(q.Cursor, ".")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		run, err = event.ParseRunID(id)
	}
	if err != nil {
		return time.Time{}, "", fmt.Errorf("read cursor: %w", err)
	}
	return time.UnixMilli(ms).UTC(), run, nil
}
