package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// purgeFrames bounds how many frames and chunks one call of Purge removes, and by
	// that how long its transaction holds up others. One run is always removed whole.
	purgeFrames = 5000
	// vacuumPages is how many free pages of 4 KB one call of Purge gives back to
	// the file system at most. It is more than a call frees, as a rule, so that
	// the file gets smaller while much is purged.
	vacuumPages = 1024
	// spareShare is the part of the file, one in so many pages, that may be free:
	// what runs use next need not be taken from the file system again.
	spareShare = 4
)

// Purge removes runs whose retention is over, in one transaction, and gives
// pages that they have left free back to the file system. A call removes at most
// 1,000 runs, and stops earlier if their logs are long.
func (s *Store) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	type answer struct {
		purged int
		next   int64
	}
	var a answer
	err := s.enterPartition(ctx, partition)
	if err == nil {
		a, err = perform(ctx, s, func(t *tx) (a answer, err error) {
			if a.purged, err = t.purgeDue(min(max(limit, 0), chores)); err != nil {
				return a, err
			}
			if a.next, err = t.number(`SELECT purge FROM runs WHERE purge IS NOT NULL ORDER BY purge LIMIT 1`); err != nil {
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

// unneeded is the condition, beside its age, under which an ended run is purged:
// the record that created it is confirmed, nothing of it is in the outbox, and if
// it is the first of a chain, it is alone. Once it holds it goes on to: a run that
// has ended sends nothing, and continues as nothing.
const unneeded = `birth IS NULL AND NOT EXISTS (SELECT 1 FROM outbox WHERE sender = runs.key)
	AND (chain IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs later WHERE later.chain = runs.id))`

// setPurge sets the time of the purge to ?2, null if the run has not ended or is
// needed. So the index by that time holds only runs that can be purged.
const setPurge = `purge = CASE WHEN ?2 IS NOT NULL AND ` + unneeded + ` THEN ?2 END`

// release makes an ended run due for its purge if nothing needs it any more.
func (t *tx) release(r *run) error {
	if r == nil || r.place != store.PlaceEnded {
		return nil
	}
	return t.exec(`UPDATE runs SET `+setPurge+` WHERE key = +?1`, r.key, r.purgeTime())
}

const selectPurge = selectRun + `WHERE r.purge IS NOT NULL AND r.purge <= +? ORDER BY r.purge, r.key LIMIT 1`

// purgeDue removes up to limit runs, the longest over first, and returns how
// many. Each is looked for anew: a purge may release another run.
func (t *tx) purgeDue(limit int) (int, error) {
	frames := uint64(0)
	for n := range limit {
		r, err := first(t.runs(selectPurge, t.ms()))
		if err != nil || r == nil {
			return n, err
		}
		chunks, err := t.number(`SELECT coalesce(sum(last - first + 1), 0) FROM streams WHERE chain = +?`, packRun(r.id))
		if err != nil {
			return n, err
		}
		if frames += r.n + uint64(chunks); n > 0 && frames > purgeFrames {
			return n, nil
		}
		if err := t.purge(r); err != nil {
			return 0, fmt.Errorf("run %s: %w", r.id, err)
		}
	}
	return limit, nil
}

// purge removes every row of a run.
func (t *tx) purge(r *run) error {
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
	t.countRun(r.class, -1)
	t.news.frames = append(t.news.frames, r.id)
	t.news.ended(r.chain)
	if err := t.forgetName(r); err != nil {
		return err
	}
	if r.chain == r.id { // the last of its chain: see unneeded
		if err := t.dropStreams(r.id); err != nil {
			return err
		}
		return t.exec(`DELETE FROM seen WHERE chain = +?`, packRun(r.id))
	}
	head, err := t.anyRun(r.chain)
	if err != nil {
		return err
	}
	return t.release(head)
}

// forgetName makes the workflow id of an ended run forget that it was the last,
// and is forgotten with the last of its runs.
func (t *tx) forgetName(r *run) error {
	if r.wid == 0 {
		return nil
	}
	if err := t.exec(`UPDATE workflow_ids SET last = NULL WHERE id = +?1 AND last = +?2`, r.wid, r.key); err != nil {
		return err
	}
	return t.exec(`DELETE FROM workflow_ids WHERE id = +?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE wid = +?1)`, r.wid)
}

// vacuum gives free pages back, if there are more than the file should keep.
func (t *tx) vacuum() error {
	free, err := t.pragma("freelist_count")
	if err != nil || free == 0 {
		return err
	}
	pages, err := t.pragma("page_count")
	if err != nil {
		return err
	}
	// With n pages less, free-n of them are free: n is the least with which those
	// are no more than their share of pages-n.
	n := (spareShare*free - pages + spareShare - 2) / (spareShare - 1)
	if n <= 0 {
		return nil
	}
	return t.execOnce(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", min(n, vacuumPages)))
}

// Delete hides a run that has ended until it is purged.
func (s *Store) Delete(ctx context.Context, run event.RunID) error {
	_, err := perform(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.hide(run) })
	if err != nil {
		return fmt.Errorf("delete run %s: %w", run, err)
	}
	return nil
}

func (t *tx) hide(id event.RunID) error {
	r, err := t.anyRun(id)
	switch {
	case err != nil:
		return err
	case r == nil:
		return refuse(store.ErrRunNotFound)
	case r.place != store.PlaceEnded:
		return refuse(&store.NotEndedError{Run: id, Status: r.status})
	case r.hidden:
		return nil
	}
	r.hidden = true
	t.news.frames = append(t.news.frames, r.id)
	t.news.ended(r.chain)
	if err := t.exec(`UPDATE runs SET hidden = 1, `+setPurge+` WHERE key = +?1`, r.key, r.purgeTime()); err != nil {
		return err
	}
	return t.forgetName(r)
}

// purgeTime returns when a run that has ended may be purged.
func (r *run) purgeTime() int64 {
	keep := r.retention
	if r.hidden {
		keep = 0
	}
	return millis(store.PurgeTime(timeOf(r.created), timeOf(r.ended), keep))
}
