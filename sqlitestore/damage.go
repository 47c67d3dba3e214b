package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// damages contains the rows of the table runs that are omitted because of damage.
//
// A damaged page of the table contains a few dozen runs, and a statement that reaches one of them
// fails. After an error because of damage, SQLite writes nothing more in the transaction, so that
// the rows cannot be skipped within it. Instead the operation fails, the damaged rows are
// determined, and the operation is executed again without them. This costs nothing as long as there
// is no damage.
//
// A row may be unreadable, or stuck: it can be read but not written, usually because its page is
// full and SQLite would have to balance it with a damaged neighbor. A stuck row is moved to another
// page; if that fails, operations that would write it omit it for a while.
//
// Queries on many runs contain marks for omitted rows: "/*readable r.key*/" stands for " AND r.key
// NOT IN (...)" with the keys of unreadable rows, "/*workable r.key*/" also with those of stuck
// rows; "/*lines until*/" stands for " AND 0" while limiter queues cannot be read. SQLite evaluates
// the condition with the index that leads to the row, before it reads the row. Without damage a
// mark is a comment.
type damages struct {
	store.Damages
	clock store.Clock

	lost, stuck atomic.Pointer[keySet]
	lines       atomic.Pointer[keySet] // not nil while the limiter queues are omitted; it has no keys
	front       atomic.Bool            // new rows are inserted before all others, because of damage at the end

	mu     sync.Mutex // held during the search for damage
	moved  map[event.RunID]time.Time
	rested time.Time // the table is not searched again before this time
}

const (
	// lostFor and stuckFor are the times for which rows are omitted before they are tried again.
	lostFor  = time.Hour
	stuckFor = time.Minute
	// mostSetAside is the maximum number of omitted rows, since the statements contain all of their
	// keys.
	mostSetAside = 5000
)

// keySet is an immutable set of rows of the table runs.
type keySet struct {
	keys  map[int64]bool
	list  string // " NOT IN (...)"
	until time.Time
}

func newKeySet(keys map[int64]bool, until time.Time) *keySet {
	var list strings.Builder
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprint(&list, key)
	}
	return &keySet{keys: keys, list: " NOT IN (" + list.String() + ")", until: until}
}

var mark = regexp.MustCompile(`/\*(readable|workable|lines) ([a-z.]+)\*/`)

// expand replaces the marks of a query.
func (d *damages) expand(query string) string {
	if d == nil || d.lost.Load() == nil && d.stuck.Load() == nil && d.lines.Load() == nil {
		return query
	}
	lost, stuck, lines := d.current(&d.lost), d.current(&d.stuck), d.current(&d.lines)
	return mark.ReplaceAllStringFunc(query, func(found string) string {
		parts := mark.FindStringSubmatch(found)
		without := ""
		if parts[1] == "lines" {
			if lines != nil {
				without = " AND 0"
			}
			return without
		}
		if lost != nil {
			without += " AND " + parts[2] + lost.list
		}
		if stuck != nil && parts[1] == "workable" {
			without += " AND " + parts[2] + stuck.list
		}
		return without
	})
}

// current returns a set, or nil after it has expired.
func (d *damages) current(set *atomic.Pointer[keySet]) *keySet {
	known := set.Load()
	if known != nil && d.clock.Now().After(known.until) {
		set.CompareAndSwap(known, nil)
		return nil
	}
	return known
}

// stuckError reports a run that could not be written.
type stuckError struct {
	key int64
	run event.RunID
	err error
}

func (e *stuckError) Error() string { return fmt.Sprintf("run %s: %v", e.run, e.err) }

func (e *stuckError) Unwrap() error { return e.err }

// writing adds the run to an error of an operation that writes several runs one after the other.
func writing(r *run, err error) error {
	if r == nil || !isDamage(err) {
		return err
	}
	return &stuckError{r.key, r.id, err}
}

// asideOf executes an operation on many runs. If it fails because of damage, it is executed again
// without the damaged runs.
func asideOf[T any](ctx context.Context, s *Store, do func() (T, error)) (T, error) {
	for {
		lost := s.damages.lost.Load()
		answer, err := do()
		if !isDamage(err) || !s.setAside(ctx, lost, err) {
			return answer, err
		}
	}
}

// readAside is read for many runs.
func (s *Store) readAside(ctx context.Context, f func(c *conn) error) error {
	_, err := asideOf(ctx, s, func() (struct{}, error) { return struct{}{}, s.read(ctx, f) })
	return err
}

// performAside is perform for many runs.
func performAside[T any](ctx context.Context, s *Store, do func(t *tx) (T, error)) (T, error) {
	return asideOf(ctx, s, func() (T, error) { return perform(ctx, s, do) })
}

// performOn is perform for one run, which is added to errors. If necessary the run is moved, and
// other damaged runs that the operation visits are omitted.
func performOn[T any](ctx context.Context, s *Store, run event.RunID, bytes int, do func(t *tx) (T, error)) (T, error) {
	answer, err := asideOf(ctx, s, func() (T, error) {
		answer, err := perform(ctx, s, do)
		if isDamage(err) && s.moveToOtherPages(ctx, run) {
			answer, err = perform(ctx, s, do)
		}
		return answer, err
	})
	return answer, ofRun(run, bytes, err)
}

// isDamage reports whether an operation failed because of damage.
func isDamage(err error) bool {
	return err != nil && (errors.Is(err, errDamaged) || sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCorrupt)
}

// ofRun adds the run to an error that concerns only this run, so that callers do not wait for the
// end of an outage.
func ofRun(run event.RunID, bytes int, err error) error {
	if err == nil || !ofOneRun(err) {
		return err
	}
	return aboutRun(run, bytes, err)
}

// setAside searches for damage after an operation has failed because of it, and reports whether the
// operation may succeed now. seen contains the rows that were known to be unreadable before.
func (s *Store) setAside(ctx context.Context, seen *keySet, err error) bool {
	if !s.careful.Swap(true) {
		return true // it may have been a frame that the claim did not need
	}
	if of, ok := errors.AsType[*stuckError](err); ok {
		return s.moveToOtherPages(ctx, of.run) || s.leaveStuck(of, err)
	}
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
		return false
	}
	d := s.damages
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.lost.Load(); now != nil && now != seen {
		return true // another goroutine has searched meanwhile
	}
	start := time.Now()
	if start.Before(d.rested) {
		return false
	}
	found, scanned := s.unreadable(ctx)
	d.rested = time.Now().Add(10 * time.Since(start))
	if scanned != nil || len(found) > mostSetAside {
		return false
	}
	if len(found) == 0 {
		fresh := false
		looked := s.read(ctx, func(c *conn) error { fresh = d.setQueuesAside(c, err); return nil })
		return looked == nil && fresh
	}
	before := d.current(&d.lost)
	keys, fresh := map[int64]bool{}, false
	for key, run := range found {
		keys[key] = true
		fresh = fresh || before == nil || !before.keys[key]
		d.Note("row "+string(run), &store.DamagedError{Run: run, Err: fmt.Errorf("its row in the table runs cannot be read: %w", err)})
	}
	if fresh {
		d.lost.Store(newKeySet(keys, d.clock.Now().Add(lostFor)))
	}
	return fresh
}

// leaveStuck omits a run that cannot be written. It reports whether the run was not omitted before.
func (s *Store) leaveStuck(of *stuckError, err error) bool {
	d := s.damages
	d.mu.Lock()
	defer d.mu.Unlock()
	keys, until := map[int64]bool{of.key: true}, d.clock.Now().Add(stuckFor)
	if known := d.current(&d.stuck); known != nil {
		if known.keys[of.key] || len(known.keys) >= mostSetAside {
			return false
		}
		maps.Copy(keys, known.keys)
		until = known.until
	}
	d.stuck.Store(newKeySet(keys, until))
	d.Note("stuck "+string(of.run), &store.DamagedError{Run: of.run, Err: fmt.Errorf("it cannot be written: %w", err)})
	return true
}

// everyKey reads the keys of all runs from the index of their IDs, without reading the table.
const everyKey = `SELECT key, id FROM runs INDEXED BY sqlite_autoindex_runs_1`

// unreadable returns the runs whose rows cannot be read, by their keys.
func (s *Store) unreadable(ctx context.Context) (map[int64]event.RunID, error) {
	var found map[int64]event.RunID
	err := s.read(ctx, func(c *conn) error {
		found = map[int64]event.RunID{}
		var keys []int64
		err := c.QueryOnce(everyKey, func(r row) error { keys = append(keys, r.ColumnInt64(0)); return nil })
		if err != nil {
			return err
		}
		for _, key := range keys {
			err := c.query(`SELECT * FROM runs WHERE key = +?`, nil, key) //nolint:unqueryvet // every column must be readable
			switch {
			case sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCorrupt:
				found[key] = ""
			case err != nil:
				return err
			}
		}
		if len(found) == 0 {
			return nil
		}
		return c.QueryOnce(everyKey, func(r row) error {
			if _, ok := found[r.ColumnInt64(0)]; ok {
				found[r.ColumnInt64(0)] = db.UnpackRun(r, 1)
			}
			return nil
		})
	})
	return found, err
}

// moveToOtherPages moves a run that could not be written to other pages, and reports whether it
// succeeded. Keys of runs are used only within a transaction, so a key may change. A run that still
// cannot be written after a move is not moved again for a while.
func (s *Store) moveToOtherPages(ctx context.Context, run event.RunID) bool {
	d := s.damages
	d.mu.Lock()
	now := d.clock.Now()
	moved, ok := d.moved[run]
	if d.moved == nil || len(d.moved) >= mostSetAside {
		d.moved = map[event.RunID]time.Time{}
	}
	d.moved[run] = now
	d.mu.Unlock()
	if ok && now.Sub(moved) < stuckFor {
		return false
	}
	done, err := orInFront(s, func() (bool, error) {
		return perform(ctx, s, func(t *tx) (bool, error) { return t.moveRun(run) })
	})
	return err == nil && done
}

// orInFront executes an operation that inserts a row. If it fails because of damage at the end of
// the table, rows are inserted before all others from now on.
func orInFront[T any](s *Store, do func() (T, error)) (T, error) {
	answer, err := do()
	if isDamage(err) && !s.damages.front.Swap(true) {
		answer, err = do()
	}
	return answer, err
}

// newKey returns the key of a new row: after all others, or before them if there is damage at the
// end.
func (t *tx) newKey() (int64, error) {
	if t.s.damages.front.Load() {
		first, err := t.number(`SELECT min(key) FROM runs`)
		return min(first, 0) - 1, err
	}
	if t.names.lastKey == 0 {
		last, err := t.number(`SELECT max(key) FROM runs`)
		if err != nil {
			return 0, err
		}
		t.names.lastKey = max(last, 0)
	}
	t.names.lastKey++
	return t.names.lastKey, nil
}

// spareBytes is the number of free bytes on the new page of a moved run: a row grows by about 50
// bytes until its run ends.
const spareBytes = 1500

// moveRun gives a run a new key, usually after all others. Its row is then at the end of the table,
// where SQLite starts a new page without balancing it with its neighbors. The row is inserted with
// padding, which is then removed, so that the rows on the page can grow.
func (t *tx) moveRun(run event.RunID) (bool, error) {
	var key int64
	var token []byte
	err := t.query(`SELECT key, token FROM runs WHERE id = +?`, func(r row) error {
		key, token = r.ColumnInt64(0), blob(r, 1)
		return nil
	}, run)
	if err != nil || key == 0 {
		return false, err
	}
	free, err := t.newKey()
	if err != nil {
		return false, err
	}
	if err := t.exec(`UPDATE runs SET key = ?, token = zeroblob(?) WHERE key = +?`, free, spareBytes, key); err != nil {
		return false, err
	}
	if err := t.exec(`UPDATE runs SET token = ? WHERE key = +?`, token, free); err != nil {
		return false, err
	}
	for _, statement := range []string{
		`UPDATE frames SET run = ?1 WHERE run = +?2`,
		`UPDATE inbox SET run = ?1 WHERE run = +?2`,
		`UPDATE notes SET run = ?1 WHERE run = +?2`,
		`UPDATE tags SET run = ?1 WHERE run = +?2`,
		`UPDATE audit SET run = ?1 WHERE run = +?2`,
		`UPDATE outbox SET sender = ?1 WHERE sender = +?2`,
		`UPDATE workflow_ids SET active = ?1 WHERE active = +?2`,
		`UPDATE workflow_ids SET last = ?1 WHERE last = +?2`,
		`UPDATE lines SET first = ?1 WHERE id = (SELECT line FROM runs WHERE key = +?1) AND first = +?2`,
	} {
		if err := t.exec(statement, free, key); err != nil {
			return false, err
		}
	}
	return true, nil
}

// inHalves executes requests in one transaction. If one of them fails because of damage or because
// it is too large, the whole transaction fails. Then each half is executed separately, until the
// failing request is alone.
func inHalves[Q, A any](ctx context.Context, s *Store, requests []Q, one func(*tx, *Q) (A, error), alone func(*Q) (A, error)) ([]A, error) {
	answers, err := perform(ctx, s, func(t *tx) ([]A, error) {
		answers := make([]A, len(requests))
		for i := range requests {
			var err error
			if answers[i], err = one(t, &requests[i]); err != nil {
				return nil, err
			}
		}
		return answers, nil
	})
	if err == nil || !ofOneRun(err) {
		return answers, err
	}
	if len(requests) == 1 {
		answer, err := alone(&requests[0])
		return []A{answer}, err
	}
	half := len(requests) / 2
	first, err := inHalves(ctx, s, requests[:half], one, alone)
	if err != nil {
		return nil, err
	}
	second, err := inHalves(ctx, s, requests[half:], one, alone)
	return append(first, second...), err
}

// Damage returns the runs that were set aside since the last call.
func (s *Store) Damage() []*store.DamagedError { return s.damages.Damage() }

var _ store.DamageTeller = (*Store)(nil)

// errDamaged reports that rows of the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// explain adds the file and a fix to an error of SQLite, unless the error already contains them.
func (s *Store) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrForeign),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, new(*store.VersionError)), errors.As(err, new(*ReplacedError)):
		return err
	}
	hint := ""
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		hint = "no space left on the disk, nothing was written: "
	case sqlite.ResultNotADB:
		return fmt.Errorf("%w: %s is not an SQLite database: choose another path, or restore the file from a backup: %w", store.ErrForeign, s.path, err)
	case sqlite.ResultCorrupt:
		hint = "the file is damaged, restore it from a backup: "
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		hint = "the file or its directory cannot be written: "
	case sqlite.ResultCantOpen:
		hint = "the file, or its -wal or -shm file, cannot be opened: "
	case sqlite.ResultBusy, sqlite.ResultLocked:
		hint = "another process does not let go of it: "
	}
	return fmt.Errorf("%s: %s%w", s.path, hint, err)
}

// ofOneRun reports whether an error may concern a single run, so that other runs can be processed.
func ofOneRun(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultTooBig:
		return true
	}
	return false
}

// aboutRun adds the run to such an error.
func aboutRun(run event.RunID, bytes int, err error) error {
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultTooBig {
		return &store.TooLargeError{Run: run, Bytes: bytes, Err: err}
	}
	return &store.DamagedError{Run: run, Err: err}
}

// heard records the error of an operation on behalf of a session.
func (n *notifier) heard(session store.SessionID, err error) {
	if errors.Is(err, store.ErrExpired) {
		n.waiters.CloseSession(session)
	}
}
