package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

const (
	// purgeFrames limits the number of frames and chunks that one call of Purge removes, and so the
	// time for which its transaction blocks others. A single run is always removed completely.
	purgeFrames = 5000
	// vacuumPages is the maximum number of free pages of 4 KB that one call of Purge returns to the
	// file system. It usually exceeds the number of pages that a call frees, so the file shrinks
	// while many runs are purged.
	vacuumPages = 1024
	// spareShare is the reciprocal of the fraction of the file that may be free. New runs use the
	// free pages before the file grows.
	spareShare = 4
)

// Purge removes, in one transaction, runs whose retention has expired, and returns free pages to
// the file system. A call removes at most 1,000 runs, and fewer if their logs are long.
func (s *Store) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	type answer struct {
		purged int
		next   int64
	}
	var a answer
	err := s.enterPartition(ctx, partition)
	if err == nil {
		a, err = performAside(ctx, s, func(t *tx) (a answer, err error) {
			if a.purged, err = t.op.Purge(min(max(limit, 0), chores), t.budget()); err != nil {
				return a, writing(t.purging, err)
			}
			if a.next, err = t.number(`SELECT purge FROM runs WHERE purge IS NOT NULL /*workable key*/ ORDER BY purge LIMIT 1`); err != nil {
				return a, err
			}
			return a, t.vacuum()
		})
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("purge runs: %w", err)
	}
	return a.purged, timeOf(a.next), nil
}

// unneeded is the condition for purging an ended run, besides its age. The record that created the
// run is confirmed, and its outbox is empty. No item ID is kept under its ID until Confirm. If it
// is the first run of a chain, it is the only one. A run that satisfies the condition satisfies it
// forever, because an ended run sends nothing and does not continue.
const unneeded = `created_by IS NULL AND NOT EXISTS (SELECT 1 FROM outbox WHERE sender = runs.key)
	AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.chain = runs.id AND keep = 1)
	AND (chain IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs later WHERE later.chain = runs.id))`

// budget returns a function that reports whether one call of Purge may also remove the given run.
func (t *tx) budget() func(*run) (bool, error) {
	frames := uint64(0)
	return func(r *run) (bool, error) {
		chunks, err := t.number(`SELECT coalesce(sum(last - first + 1), 0) FROM streams WHERE chain = +?`, r.id)
		frames += r.n + uint64(chunks)
		return frames <= purgeFrames, err
	}
}

// Held returns the reasons that keep a run from its purge.
func (t *tx) Held(r *run) (protocol.Held, error) {
	var h protocol.Held
	err := t.query(`SELECT EXISTS (SELECT 1 FROM outbox WHERE sender = ?1), EXISTS (SELECT 1 FROM runs WHERE chain = ?2),
		EXISTS (SELECT 1 FROM notes WHERE run = ?1), EXISTS (SELECT 1 FROM seen WHERE chain = ?2 AND keep = 1)`, func(row row) error {
		h = protocol.Held{Records: row.ColumnBool(0), Later: r.chain == r.id && row.ColumnBool(1), Kept: row.ColumnBool(3)}
		r.bare = !row.ColumnBool(2)
		return nil
	}, r.key, r.id)
	return h, err
}

// NextPurge returns the run that was due first for its purge, or nil if none is due.
func (t *tx) NextPurge(now int64) (r *run, err error) {
	t.purging = nil // an error of the query must not be attributed to that run
	t.purging, err = t.oneRun(selectPurge, now)
	return t.purging, err
}

// Remove removes all rows of a run. If it is the last run of its workflow ID, Remove also removes
// the ID.
func (t *tx) Remove(r *run) error {
	for _, statement := range []string{
		`DELETE FROM frames WHERE run = +?`,
		`DELETE FROM inbox WHERE run = +?`,
		`DELETE FROM notes WHERE run = +?`,
		`DELETE FROM tags WHERE run = +?`,
		`DELETE FROM audit WHERE run = +?`,
		`DELETE FROM runs WHERE key = +?`,
	} {
		if err := t.exec(statement, r.key); err != nil {
			return err
		}
	}
	t.emptied[r.route] = true
	t.tally(r, -1)
	if r.wid == 0 {
		return nil
	}
	t.named = namedID{}
	return t.exec(`DELETE FROM workflow_ids WHERE id = +?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE wid = +?1)`, r.wid)
}

// ForgetChain removes the accepted items and the streams of a chain.
func (t *tx) ForgetChain(chain event.RunID) error {
	if err := t.dropStreams(chain); err != nil {
		return err
	}
	return t.exec(`DELETE FROM seen WHERE chain = +?`, chain)
}

const selectPurge = selectRun + `WHERE r.purge IS NOT NULL AND r.purge <= +? /*workable r.key*/ ORDER BY r.purge, r.key LIMIT 1`

// vacuum returns free pages to the file system if more of the file is free than spareShare allows.
func (t *tx) vacuum() error {
	free, err := t.Pragma("freelist_count")
	if err != nil || free == 0 {
		return err
	}
	pages, err := t.Pragma("page_count")
	if err != nil {
		return err
	}
	// After n pages are returned, free-n of pages-n pages are free. n is the smallest number for
	// which that share is allowed.
	n := (spareShare*free - pages + spareShare - 2) / (spareShare - 1)
	if n <= 0 {
		return nil
	}
	return t.ExecOnce(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(n, vacuumPages)))
}

// Delete hides an ended run until it is purged.
func (s *Store) Delete(ctx context.Context, run event.RunID) error {
	_, err := performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) { return struct{}{}, t.op.Delete(run) })
	if err != nil {
		return fmt.Errorf("delete run %s: %w", run, err)
	}
	return nil
}
