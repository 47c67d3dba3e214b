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
// fails. After such an error SQLite refuses further writes in the transaction, so the rows cannot
// be skipped within it. Instead the operation fails, the damaged rows are determined, and the
// operation is executed again without them. This has no cost as long as there is no damage.
//
// A row may be unreadable or stuck. A stuck row can be read but not written, usually because its
// page is full and SQLite would have to balance it with a damaged neighbor. A stuck row is moved to
// another page. If that fails, operations that would write the row omit it for a while.
//
// Queries on many runs contain marks for omitted rows. "/*readable r.key*/" is replaced by " AND
// r.key NOT IN (...)" with the keys of unreadable rows. "/*workable r.key*/" also includes the keys
// of stuck rows. "/*lines until*/" is replaced by " AND 0" while limiter queues cannot be read.
// SQLite evaluates the condition with the index that leads to the row, before it reads the row.
// Without damage a mark is a comment.
type damages struct {
	store.Damages
	clock store.Clock

	lost, stuck atomic.Pointer[keySet]
	lines       atomic.Pointer[keySet] // not nil while the limiter queues are omitted; the set has no keys
	front       atomic.Bool            // insert new rows before all others, because the end of the table is damaged

	mu     sync.Mutex // held while a goroutine searches for damage
	moved  map[event.RunID]time.Time
	rested time.Time // the next search begins no earlier than this
}

const (
	// lostFor and stuckFor are the times for which unreadable and stuck rows are omitted. Then
	// operations try them again.
	lostFor  = time.Hour
	stuckFor = time.Minute
	// mostSetAside is the maximum number of omitted rows. The statements contain the keys of all of
	// them.
	mostSetAside = 5000
)

// keySet is an immutable set of rows of the table runs.
type keySet struct {
	keys  map[int64]bool
	list  string // " NOT IN (...)" with the keys
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

// writing returns err with the run added. Operations that write several runs use it for each of
// them.
func writing(r *run, err error) error {
	if r == nil || !isDamage(err) {
		return err
	}
	return &stuckError{r.key, r.id, err}
}

// asideOf executes an operation on many runs. If the operation fails because of damage, asideOf
// executes it again without the damaged runs.
func asideOf[T any](ctx context.Context, s *Store, do func() (T, error)) (T, error) {
	for {
		lost := s.damages.lost.Load()
		answer, err := do()
		if !isDamage(err) || !s.setAside(ctx, lost, err) {
			return answer, err
		}
	}
}

// readAside is like read, but omits damaged runs.
func (s *Store) readAside(ctx context.Context, f func(c *conn) error) error {
	_, err := asideOf(ctx, s, func() (struct{}, error) { return struct{}{}, s.read(ctx, f) })
	return err
}

// performAside is like perform, but omits damaged runs.
func performAside[T any](ctx context.Context, s *Store, do func(t *tx) (T, error)) (T, error) {
	return asideOf(ctx, s, func() (T, error) { return perform(ctx, s, do) })
}

// performOn is like perform for one run, and adds the run to errors. If necessary it moves the run
// to another page, and omits other damaged runs that the operation visits.
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

// isDamage reports whether err was caused by damage.
func isDamage(err error) bool {
	return err != nil && (errors.Is(err, errDamaged) || sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCorrupt)
}

// ofRun adds the run to an error that concerns only this run. The caller then does not wait for the
// end of an outage.
func ofRun(run event.RunID, bytes int, err error) error {
	if err == nil || !ofOneRun(err) {
		return err
	}
	return aboutRun(run, bytes, err)
}

// setAside searches for damage after an operation has failed because of it. It reports whether the
// operation may succeed if it is repeated. seen contains the rows that were known to be unreadable
// before the operation.
func (s *Store) setAside(ctx context.Context, seen *keySet, err error) bool {
	if !s.careful.Swap(true) {
		return true // the claim may have failed at a frame that it does not need
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
		return true // another goroutine has searched in the meantime
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

// leaveStuck omits a run that cannot be written. It reports false if the run was already omitted.
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

// everyKey reads the keys of all runs from the index of their IDs. It does not read the table.
const everyKey = `SELECT key, id FROM runs INDEXED BY sqlite_autoindex_runs_1`

// unreadable returns the IDs of the runs whose rows cannot be read, by key.
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

// moveToOtherPages moves a run that could not be written to other pages. It reports whether it
// succeeded. The key of the run changes, which is safe because keys are used only within a
// transaction. If the run still cannot be written, it is not moved again for a while.
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

// orInFront executes an operation that inserts a row. If the operation fails because of damage at
// the end of the table, orInFront repeats it with rows inserted before all others. Later operations
// also insert rows there.
func orInFront[T any](s *Store, do func() (T, error)) (T, error) {
	answer, err := do()
	if isDamage(err) && !s.damages.front.Swap(true) {
		answer, err = do()
	}
	return answer, err
}

// newKey returns the key of a new row: after all others, or before all others if the end of the
// table is damaged.
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

// spareBytes is the number of free bytes on the new page of a moved run. A row grows by about 50
// bytes until its run ends.
const spareBytes = 1500

// moveRun gives a run a new key, usually after all others. Its row is then at the end of the table,
// where SQLite starts a new page and does not balance it with neighbors. moveRun inserts the row
// with padding and then removes the padding, so that the rows on the page can grow.
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

// inHalves executes requests in one transaction. If the transaction fails because a request meets
// damage or is too large, inHalves executes each half of the requests separately, until the failing
// request is alone.
func inHalves[Q, A any](ctx context.Context, s *Store, requests []Q, one func(*tx, *Q) (A, error), alone func(*Q) (A, error)) ([]A, error) {
	answers, err := performMany(ctx, s, len(requests), func(t *tx) ([]A, error) {
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

// Damage returns the runs that were found damaged since the last call.
func (s *Store) Damage() []*store.DamagedError { return s.damages.Damage() }

var _ store.DamageTeller = (*Store)(nil)

// errDamaged reports that rows of the database contradict each other.
var errDamaged = errors.New("the database is damaged")

// explain adds the path of the file and a fix to an error of SQLite, unless the error already
// contains them.
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
		hint = "another process keeps it locked: "
	}
	return fmt.Errorf("%s: %s%w", s.path, hint, err)
}

// ofOneRun reports whether an error may concern a single run. If so, the caller can continue with
// other runs.
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

// aboutRun adds the run to an error that may concern a single run.
func aboutRun(run event.RunID, bytes int, err error) error {
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultTooBig {
		return &store.TooLargeError{Run: run, Bytes: bytes, Err: err}
	}
	return &store.DamagedError{Run: run, Err: err}
}

// heard reports the error of an operation to the waiting call of the session, if the error shows
// that the session has ended.
func (n *notifier) heard(session store.SessionID, err error) {
	if errors.Is(err, store.ErrExpired) {
		n.waiters.CloseSession(session)
	}
}
