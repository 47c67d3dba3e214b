package sqlitestore

import (
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// columns is a set of groups of columns of a run; the columns of a group change together. A
// statement that sets a column checks each index that contains the column, and rewrites the entries
// of indexes whose condition contains it. Therefore only the changed groups are saved.
type columns uint8

const (
	logColumns columns = 1 << iota // columns that are in no index, and are always written
	inboxColumn
	placeColumns
	dueColumn
	endColumns
	rareColumns
	hiddenColumn
	allColumns = 1<<iota - 1
)

var columnNames = []string{
	"n, seq, last, recoveries, bits",
	"inbox",
	"place, epoch, token, owner, ord",
	"due",
	"status, ended, purge",
	"misfits, created_by, line, waits, collects, failure_group",
	"hidden",
}

// names returns the names of the columns, in the order in which bindColumns binds their values.
func (c columns) names() (names []string) {
	for i, group := range columnNames {
		if c&(1<<i) != 0 {
			names = append(names, strings.Split(group, ", ")...)
		}
	}
	return names
}

// bindColumns binds the values of columns of a run.
func (b *binder) bindColumns(r *run, c columns) {
	if c&logColumns != 0 {
		b.uint(r.n)
		b.uint(r.seq)
		b.bytes(r.last[:])
		b.int(int64(r.recoveries))
		b.int(int64(r.marks()))
	}
	if c&inboxColumn != 0 {
		b.int(int64(r.inbox))
	}
	if c&placeColumns != 0 {
		b.int(int64(r.storedPlace()))
		b.uint(r.epoch)
		if r.owner != 0 {
			b.bytes(r.token[:])
		} else {
			b.null()
		}
		b.nonZero(r.owner)
		b.nonZero(r.ord)
	}
	if c&dueColumn != 0 {
		b.nonZero(r.due)
	}
	if c&endColumns != 0 {
		b.text(string(r.status))
		b.nonZero(r.ended)
		b.nonZero(r.purge)
	}
	if c&rareColumns != 0 {
		b.text(string(r.incompatible))
		b.nonEmpty(string(r.createdBy))
		b.nonZero(r.line)
		b.nonZero(r.waitsSince)
		b.nonEmpty(r.collect)
		b.nonEmpty(r.failureGroup)
	}
	if c&hiddenColumn != 0 {
		b.bool(r.hidden)
	}
}

// storedPlace returns the value of the column place.
func (r *run) storedPlace() store.QueueState {
	if r.line != 0 {
		return waits
	}
	return r.queueState
}

// newRow contains the columns of a new run that never change.
type newRow struct {
	later        event.RunID // first run of the chain if that is another run
	parent, root event.RunID
	tags         string
}

var newColumns = append([]string{"key", "id", "chain", "wid", "class", "priority", "created", "retention", "parent", "child", "root", "tags", "uses", "fair", "share"},
	columns(allColumns).names()...)

var insertRun = `INSERT INTO runs (` + strings.Join(newColumns, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(newColumns)-1) + `)`

// insertRow writes the row of a new run if it is not written. The row is inserted when the run is
// first saved, which saves a statement per created run. A caller must call insertRow before it
// searches the table for the run.
func (t *tx) insertRow(r *run) error {
	if r == nil || t.unwritten != r {
		return nil
	}
	row := r.row
	t.unwritten, r.row = nil, nil
	return t.execBinding(insertRun, func(b *binder) {
		b.int(r.key)
		b.run(r.id)
		b.run(row.later)
		b.nonZero(r.wid)
		b.int(r.route)
		b.int(int64(r.priority))
		b.int(r.created)
		b.int(int64(r.retention))
		b.run(row.parent)
		b.bool(r.child)
		b.run(row.root)
		b.nonEmpty(row.tags)
		b.nonEmpty(r.uses)
		b.nonEmpty(r.fair)
		b.nonZero(int64(r.share))
		b.bindColumns(r, allColumns)
	})
}

// save stores all columns of a run that can change, except hidden.
func (t *tx) save(r *run) error { return t.saveColumns(r, allColumns&^hiddenColumn) }

// saveColumns stores the given columns of a run.
func (t *tx) saveColumns(r *run, c columns) error {
	if t.unwritten == r {
		return t.insertRow(r)
	}
	if c&rareColumns != 0 {
		r.misfits = r.incompatible
	}
	return t.execBinding(t.updateOf(c), func(b *binder) {
		b.bindColumns(r, c)
		b.int(r.key)
	})
}

// updateOf returns the statement that stores the given columns.
func (c *conn) updateOf(which columns) string {
	statement := &c.updates[which]
	if *statement == "" {
		*statement = `UPDATE runs SET ` + strings.Join(which.names(), " = ?, ") + ` = ? WHERE key = +?`
	}
	return *statement
}

// binder binds the parameters of a statement in order, without heap allocations.
type binder struct {
	s *sqlite.Stmt
	n int
}

func (b *binder) next() int {
	b.n++
	return b.n
}

func (b *binder) null()             { b.s.BindNull(b.next()) }
func (b *binder) bool(v bool)       { b.s.BindBool(b.next(), v) }
func (b *binder) int(v int64)       { b.s.BindInt64(b.next(), v) }
func (b *binder) uint(v uint64)     { b.int(int64(v)) }
func (b *binder) text(v string)     { b.s.BindText(b.next(), v) }
func (b *binder) bytes(v []byte)    { b.s.BindBytes(b.next(), v) }
func (b *binder) run(v event.RunID) { db.BindRun(b.s, b.next(), v) }

// nonZero binds v, or null if v is 0.
func (b *binder) nonZero(v int64) {
	if v == 0 {
		b.null()
		return
	}
	b.int(v)
}

// nonEmpty binds v, or null if v is empty.
func (b *binder) nonEmpty(v string) {
	if v == "" {
		b.null()
		return
	}
	b.text(v)
}

// tally identifies a count of runs: those of a route with a status, with or without a parent.
type tally struct {
	class  int64
	child  bool
	status event.Status
}

// terminal is the list of final statuses in SQL.
const terminal = `('` + string(event.StatusCompleted) + `', '` + string(event.StatusFailed) + `', '` +
	string(event.StatusCanceled) + `', '` + string(event.StatusContinued) + `')`

// countTallies computes all tallies from the runs.
const countTallies = `INSERT INTO tallies SELECT class, child, status, count(*) FROM runs
	WHERE hidden = 0 AND status IN ` + terminal + ` GROUP BY 1, 2, 3`

// tally adds more to the count of the runs with the route, the final status and the parent flag of
// r.
func (t *tx) tally(r *run, more int) {
	if r.hidden || !r.status.Terminal() {
		return
	}
	t.tallies[tally{r.route, r.child, r.status}] += more
}

// saveTallies stores the changes of tallies by all operations of the transaction. It executes one
// statement for each tally, however many runs have ended.
func (t *tx) saveTallies() error {
	for of, more := range t.tallies {
		if more == 0 {
			continue
		}
		err := t.exec(`INSERT INTO tallies VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`, of.class, of.child, string(of.status), more)
		if err == nil && more < 0 {
			err = t.exec(`DELETE FROM tallies WHERE class = +? AND child = +? AND status = +? AND n = 0`, of.class, of.child, string(of.status))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rebuildTallies replaces all tallies by counts of the runs.
func (t *tx) rebuildTallies() error {
	if err := t.exec(`DELETE FROM tallies`); err != nil {
		return err
	}
	return t.exec(countTallies)
}

func millis(t time.Time) int64 { return protocol.Millis(t) }

func timeOf(ms int64) time.Time { return protocol.Time(ms) }

// nonZero returns v, or nil if v is 0. The column stores 0 as null.
func nonZero(v int64) any {
	if v == 0 {
		return nil
	}
	return v
}

// nonEmpty returns s, or nil if s is empty. The column stores "" as null.
func nonEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blob returns a copy of a column. It returns nil for null.
func blob(r row, col int) []byte {
	n := r.ColumnLen(col)
	if n == 0 && r.ColumnIsNull(col) {
		return nil
	}
	b := make([]byte, n)
	r.ColumnBytes(col, b)
	return b
}
