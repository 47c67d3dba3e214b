package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

const (
	// applicationID marks a database file of this package. It is the text "flow".
	applicationID = 0x666c6f77
	// schemaVersion is the user_version of the files that this release writes.
	// docs/internals/formats.md describes how to change it.
	schemaVersion = 1
)

// schema is the complete schema of a database. Runs, routes, workflow IDs and sessions have numbers
// that are local to the file. Times are milliseconds since 1970. A run ID that contains a ULID is
// stored as the 16 bytes of the ULID.
var schema = slices.Concat(runSchema, fleetSchema, limitSchema, countSchema, []string{
	fmt.Sprintf(`PRAGMA user_version = %d`, schemaVersion),
	fmt.Sprintf(`PRAGMA application_id = %d`, applicationID),
})

// runSchema contains the runs, their logs, and the data between runs.
//
// place is the number of a store.QueueState. The literals 1, 4 and 5 in the partial indexes mean
// ready, blocked and queued; 7 is a ready run that waits for permits. An index on the runs of one
// queue state costs nothing for runs in other states. So a commit that does not change the queue
// state writes the row of the run and the new frame, but no index.
var runSchema = []string{
	// The columns of runs:
	//
	// next is the continuation of the run. If the run ended otherwise, next is its last rerun.
	//
	// chain is null for the first run of a chain. tip is the last run of the chain, in the row of
	// the first run; it is null if the chain has one run.
	//
	// misfits contains the sessions that have blocked the run.
	//
	// ord is the position among ready runs of the same priority, among queued runs, or among runs
	// that wait for permits.
	//
	// inbox is the number of unread items.
	//
	// retention is in nanoseconds. purge is the time from which the run may be purged; it is set
	// once the run has ended and satisfies unneeded.
	//
	// hidden is set for a deleted run. Only operations that must not be repeated find such a run.
	//
	// waits is the time since which the run waits for permits; see protocol.Run.WaitsSince.
	//
	// collects is the key whose starts the run collects. It has no meaning after a claim.
	//
	// child is set if the run has a parent. An index on a generated column does not suffice.
	//
	// failure_group is the failure group of the run.
	`CREATE TABLE runs (
		key        INTEGER PRIMARY KEY,
		id         ANY NOT NULL UNIQUE,
		chain      ANY,
		next       ANY,
		tip        ANY,
		created_by TEXT,
		wid        INTEGER,
		class      INTEGER NOT NULL,
		priority   INTEGER NOT NULL,
		place      INTEGER NOT NULL,
		status     TEXT NOT NULL,
		n          INTEGER NOT NULL,
		seq        INTEGER NOT NULL,
		last       BLOB NOT NULL,
		epoch      INTEGER NOT NULL,
		token      BLOB,
		owner      INTEGER,
		ord        INTEGER,
		due        INTEGER,
		recoveries INTEGER NOT NULL,
		misfits    TEXT NOT NULL DEFAULT '',
		bits       INTEGER NOT NULL,
		inbox      INTEGER NOT NULL,
		created    INTEGER NOT NULL,
		ended      INTEGER,
		retention  INTEGER NOT NULL,
		purge      INTEGER,
		hidden     INTEGER NOT NULL,
		parent     ANY,
		root       ANY,
		tags       TEXT,
		uses       TEXT,
		line       INTEGER,
		waits      INTEGER,
		collects     TEXT,
		fair       TEXT,
		share      INTEGER,
		child      INTEGER NOT NULL DEFAULT 0,
		failure_group    TEXT
	) STRICT`,
	`CREATE INDEX runs_ready ON runs (class, priority DESC, ord) WHERE place = 1`,
	`CREATE INDEX runs_blocked ON runs (class, misfits) WHERE place = 4`,
	`CREATE INDEX runs_lined ON runs (wid, ord) WHERE place = 5`,
	`CREATE INDEX runs_waiting ON runs (line, priority DESC, ord) WHERE place = 7`,
	`CREATE INDEX runs_due ON runs (due, id) WHERE due IS NOT NULL`,
	`CREATE INDEX runs_owned ON runs (owner) WHERE owner IS NOT NULL`,
	`CREATE INDEX runs_mail ON runs (owner) WHERE owner IS NOT NULL AND inbox > 0`,
	`CREATE INDEX runs_collects ON runs (collects) WHERE collects IS NOT NULL`,
	`CREATE INDEX runs_purge ON runs (purge) WHERE purge IS NOT NULL`,
	`CREATE INDEX runs_chain ON runs (chain) WHERE chain IS NOT NULL`,
	// The indexes for lists are in the order of lists.
	`CREATE INDEX runs_created ON runs (created) WHERE hidden = 0`,
	`CREATE INDEX runs_class ON runs (class, child, status, created) WHERE hidden = 0`,
	`CREATE INDEX runs_hidden ON runs (class) WHERE hidden = 1`,
	`CREATE INDEX runs_wid ON runs (wid, created) WHERE wid IS NOT NULL`,
	`CREATE INDEX runs_parent ON runs (parent, created) WHERE parent IS NOT NULL`,
	`CREATE INDEX runs_root ON runs (root, created) WHERE root IS NOT NULL`,
	`CREATE INDEX runs_failure_group ON runs (failure_group, created) WHERE failure_group IS NOT NULL`,
	`CREATE INDEX runs_failing ON runs (created) WHERE failure_group IS NOT NULL`,

	`CREATE TABLE tags (
		name    TEXT NOT NULL,
		value   TEXT NOT NULL,
		run     INTEGER NOT NULL,
		created INTEGER NOT NULL DEFAULT 0,
		PRIMARY KEY (run, name)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX tags_value ON tags (name, value, created)`,

	`CREATE TABLE frames (
		run  INTEGER NOT NULL,
		n    INTEGER NOT NULL,
		data BLOB NOT NULL,
		PRIMARY KEY (run, n)
	) STRICT, WITHOUT ROWID`,

	// active and last are keys of runs. The queue of the ID is an index of runs. last is null if
	// the last run was deleted or purged. A workflow ID is kept as long as it has a run.
	`CREATE TABLE workflow_ids (
		id     INTEGER PRIMARY KEY,
		name   TEXT NOT NULL UNIQUE,
		active INTEGER,
		last   INTEGER
	) STRICT`,

	`CREATE TABLE inbox (
		run   INTEGER NOT NULL,
		seq   INTEGER NOT NULL,
		id    TEXT NOT NULL,
		scope INTEGER NOT NULL,
		body  BLOB,
		PRIMARY KEY (run, seq)
	) STRICT, WITHOUT ROWID`,

	// Entries with keep set are kept until they are confirmed, and the others for a day.
	`CREATE TABLE seen (
		chain ANY NOT NULL,
		id    TEXT NOT NULL,
		at    INTEGER NOT NULL,
		keep  INTEGER NOT NULL,
		PRIMARY KEY (chain, id)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX seen_age ON seen (chain, at) WHERE keep = 0`,

	// at is the time at which the start has joined the collecting run.
	`CREATE TABLE joined (
		start ANY NOT NULL PRIMARY KEY,
		run   ANY NOT NULL,
		at    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX joined_at ON joined (at)`,

	// phase is the number of a store.Phase. seq is the order in which the records were written. due
	// is the due time of the record; 0, at once, while the record is fresh. due never decreases
	// along the answered records of one sender and receiver.
	`CREATE TABLE outbox (
		seq      INTEGER PRIMARY KEY,
		sender   INTEGER NOT NULL,
		id       TEXT NOT NULL,
		receiver ANY NOT NULL,
		phase    INTEGER NOT NULL,
		since    INTEGER NOT NULL,
		due      INTEGER NOT NULL,
		body     BLOB,
		UNIQUE (sender, id)
	) STRICT`,
	`CREATE INDEX outbox_due ON outbox (due)`,
	`CREATE INDEX outbox_pair ON outbox (sender, receiver, phase)`,

	// The chunks from first to last exist. A chain has the ID of its first run. A name may contain
	// any bytes.
	`CREATE TABLE streams (
		id     INTEGER PRIMARY KEY,
		chain  ANY NOT NULL,
		name   BLOB NOT NULL,
		first  INTEGER NOT NULL,
		last   INTEGER NOT NULL,
		closed INTEGER NOT NULL,
		UNIQUE (chain, name)
	) STRICT`,
	`CREATE TABLE chunks (
		stream INTEGER NOT NULL,
		n      INTEGER NOT NULL,
		data   BLOB NOT NULL,
		PRIMARY KEY (stream, n)
	) STRICT, WITHOUT ROWID`,
	// nth is the number of the last chunk that the writer has written.
	`CREATE TABLE writers (
		stream INTEGER NOT NULL,
		writer BLOB NOT NULL,
		nth    INTEGER NOT NULL,
		PRIMARY KEY (stream, writer)
	) STRICT, WITHOUT ROWID`,

	`CREATE TABLE notes (
		run  INTEGER NOT NULL,
		key  TEXT NOT NULL,
		body BLOB,
		PRIMARY KEY (run, key)
	) STRICT, WITHOUT ROWID`,

	`CREATE TABLE audit (
		id     INTEGER PRIMARY KEY,
		at     INTEGER NOT NULL,
		run    INTEGER NOT NULL,
		reason TEXT NOT NULL,
		by     TEXT NOT NULL,
		owner  TEXT NOT NULL,
		place  INTEGER NOT NULL,
		status TEXT NOT NULL,
		epoch  INTEGER NOT NULL
	) STRICT`,
	`CREATE INDEX audit_run ON audit (run)`,
}

// fleetSchema contains the sessions, and the routes that have runs.
var fleetSchema = []string{
	// seq is the last number assigned to a ready run or an item; the numbers determine their order.
	// up is the total time during which any session renewed its lease, and heard is the time of the
	// last renewal. Package store describes how a session is found dead.
	`CREATE TABLE counters (
		id    INTEGER PRIMARY KEY CHECK (id = 1),
		seq   INTEGER NOT NULL,
		up    INTEGER NOT NULL,
		heard INTEGER NOT NULL
	) STRICT`,
	`INSERT INTO counters VALUES (1, 0, 0, 0)`,

	// A route without runs is removed. blocks counts the blocks of runs of the route; other
	// processes poll it.
	`CREATE TABLE classes (
		id       INTEGER PRIMARY KEY,
		queue    TEXT NOT NULL,
		workflow TEXT NOT NULL,
		wake     INTEGER NOT NULL,
		blocks   INTEGER NOT NULL,
		UNIQUE (queue, workflow)
	) STRICT`,
	`CREATE INDEX classes_wake ON classes (id) WHERE wake = 1`,
	`CREATE INDEX classes_blocks ON classes (id) WHERE blocks > 0`,

	// IDs of sessions are never reused. reason is set while the session is being recovered. program
	// is the fingerprint of its code. renewed is the value of counters.up when the lease was
	// renewed. lock identifies the lock that proves the end of the process; see internal/db.
	`CREATE TABLE sessions (
		id      INTEGER PRIMARY KEY AUTOINCREMENT,
		name    TEXT NOT NULL UNIQUE,
		worker  TEXT NOT NULL,
		program TEXT NOT NULL,
		expires INTEGER NOT NULL,
		ttl     INTEGER NOT NULL,
		renewed INTEGER NOT NULL,
		reason  TEXT,
		lock    TEXT
	) STRICT`,

	// serves contains the routes that a session serves. They are removed with the session.
	`CREATE TABLE serves (
		queue    TEXT NOT NULL,
		workflow TEXT NOT NULL,
		session  INTEGER NOT NULL,
		PRIMARY KEY (queue, workflow, session)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX serves_session ON serves (session)`,

	createSessionData,
}

// session_data contains the data of sessions for operators. Releases that do not know the table
// leave the rows of ended sessions, which the next write removes: see setSessionData. The table is
// added to files of these releases.
const createSessionData = `CREATE TABLE IF NOT EXISTS session_data (
	session INTEGER PRIMARY KEY,
	body    BLOB NOT NULL
) STRICT`

// limitSchema contains the limits, their limiter queues, and the shares of fairness keys.
var limitSchema = []string{
	// limits contains the counts of a limit or key. Without a row they are zero.
	`CREATE TABLE limits (
		name  TEXT NOT NULL,
		key   TEXT NOT NULL,
		held  INTEGER NOT NULL,
		waits INTEGER NOT NULL,
		tat   INTEGER NOT NULL,
		PRIMARY KEY (name, key)
	) STRICT, WITHOUT ROWID`,
	// limit_configs contains configurations as JSON: the one in the code, and the one set at run
	// time.
	`CREATE TABLE limit_configs (
		name    TEXT NOT NULL,
		key     TEXT NOT NULL,
		by_code TEXT,
		given   TEXT,
		PRIMARY KEY (name, key)
	) STRICT, WITHOUT ROWID`,
	// A limiter queue contains the runs of one route that wait for the same permits. Its position
	// is the position of its first run. line_parts contains the position for each limit of the
	// queue.
	`CREATE TABLE lines (
		id       INTEGER PRIMARY KEY,
		class    INTEGER NOT NULL,
		uses     TEXT NOT NULL,
		mode     INTEGER NOT NULL,
		until    INTEGER,
		first    INTEGER NOT NULL,
		priority INTEGER NOT NULL,
		place    INTEGER NOT NULL,
		UNIQUE (class, uses)
	) STRICT`,
	`CREATE INDEX lines_open ON lines (class, priority DESC, place) WHERE mode <> 1`,
	`CREATE INDEX lines_until ON lines (until) WHERE until IS NOT NULL`,
	`CREATE TABLE line_parts (
		line     INTEGER NOT NULL,
		name     TEXT NOT NULL,
		key      TEXT NOT NULL,
		mode     INTEGER NOT NULL,
		priority INTEGER NOT NULL,
		place    INTEGER NOT NULL,
		PRIMARY KEY (line, name, key)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX line_turns ON line_parts (name, key, mode, priority DESC, place)`,
	// line_counts contains the number of runs in a limiter queue with several limits, and whether
	// the queue is owed; see protocol.LimiterQueue. If a queue has no row, its runs are counted
	// when the number is needed.
	`CREATE TABLE line_counts (
		line INTEGER PRIMARY KEY,
		runs INTEGER NOT NULL,
		owed INTEGER NOT NULL
	) STRICT`,
	// limit_aways contains the weights of the runs in queues that do not count at a limit. Without
	// a row they are zero.
	`CREATE TABLE limit_aways (
		name    TEXT NOT NULL,
		key     TEXT NOT NULL,
		weights INTEGER NOT NULL,
		PRIMARY KEY (name, key)
	) STRICT, WITHOUT ROWID`,

	// A flow contains the ready runs of a route and a priority with fairness keys. Their ord is a
	// position; see package protocol. passes contains the passes of the keys. A key without a row
	// begins at the pass of the flow.
	`CREATE TABLE flows (
		class    INTEGER NOT NULL,
		priority INTEGER NOT NULL,
		waits    INTEGER NOT NULL,
		pass     INTEGER NOT NULL,
		last     INTEGER NOT NULL,
		PRIMARY KEY (class, priority)
	) STRICT, WITHOUT ROWID`,
	`CREATE TABLE passes (
		class    INTEGER NOT NULL,
		priority INTEGER NOT NULL,
		key      TEXT NOT NULL,
		pass     INTEGER NOT NULL,
		PRIMARY KEY (class, priority, key)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX passes_over ON passes (class, priority, pass)`,
}

// countSchema contains data for operators.
var countSchema = []string{
	// A tally is the number of runs of a route with a final status, with or without a parent.
	// Deleted runs are excluded. Runs with other statuses are counted on request.
	`CREATE TABLE tallies (
		class  INTEGER NOT NULL,
		child  INTEGER NOT NULL,
		status TEXT NOT NULL,
		n      INTEGER NOT NULL,
		PRIMARY KEY (class, child, status)
	) STRICT, WITHOUT ROWID`,
	// A failure group without runs is kept for a while; see package protocol.
	`CREATE TABLE failure_groups (
		name     TEXT NOT NULL PRIMARY KEY,
		kind     TEXT NOT NULL,
		workflow TEXT NOT NULL,
		step     TEXT NOT NULL,
		text     TEXT NOT NULL,
		first    INTEGER NOT NULL,
		last     INTEGER NOT NULL,
		total    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX failure_groups_last ON failure_groups (last)`,
	// entries contains the entries of all spaces, such as the journal and the views; see
	// store.Entries.
	`CREATE TABLE entries (
		space TEXT NOT NULL,
		key   TEXT NOT NULL,
		value BLOB NOT NULL,
		PRIMARY KEY (space, key)
	) STRICT, WITHOUT ROWID`,
}

// prepareFile makes an empty file a store, and accepts an existing store. It inspects the file
// before the first write, and does not change a file of another program or of another format
// version. Any number of processes may call prepareFile concurrently on the same file.
func prepareFile(ctx context.Context, c *conn, path string) error {
	var version int
	err := db.Retry(ctx, func() error {
		return c.snapshot(func(c *conn) (err error) {
			version, err = inspectFile(c, path)
			return err
		})
	})
	if err != nil {
		return errors.Join(err, c.Rollback())
	}
	if version == 0 {
		// Incremental vacuum can return the pages of purged runs. It costs about one page in 800
		// for references between pages, and can only be enabled in an empty file. Full mode is
		// worse: each commit would move pages to shorten the file, and the next commit would extend
		// it again. See vacuum.
		if err := c.Configure(ctx, "auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	// The mode is a property of the file. Setting the mode again changes nothing.
	if err := enableWAL(ctx, c, path); err != nil {
		return err
	}
	if version == schemaVersion {
		return addSessionData(ctx, c)
	}
	return c.Immediate(ctx, func() error {
		version, err := inspectFile(c, path)
		if err != nil || version != 0 { // an error, or another process has made the file a store
			return err
		}
		return c.execAll(schema)
	})
}

// addSessionData adds the table of session data to a file that does not have it.
func addSessionData(ctx context.Context, c *conn) error {
	var n int64
	err := db.Retry(ctx, func() (err error) {
		n, err = c.number(`SELECT count(*) FROM sqlite_schema WHERE name = 'session_data'`)
		return err
	})
	if err != nil || n > 0 {
		return err
	}
	return c.Immediate(ctx, func() error { return c.ExecOnce(createSessionData) })
}

// execAll executes statements without caching them.
func (c *conn) execAll(statements []string) error {
	for _, statement := range statements {
		if err := c.ExecOnce(statement); err != nil {
			return err
		}
	}
	return nil
}

// inspectFile returns the version of the file, or 0 if the file is empty. It returns an error if
// the file is not a store or has another version. It reads a snapshot of the file, because another
// process may be creating the store.
func inspectFile(c *conn, path string) (int, error) {
	var application, version, tables int64
	var err error
	for query, into := range map[string]*int64{
		`PRAGMA application_id`:              &application,
		`PRAGMA user_version`:                &version,
		`SELECT count(*) FROM sqlite_schema`: &tables,
	} {
		if *into, err = c.number(query); err != nil {
			return 0, err
		}
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, fmt.Errorf("%w: %s is a database of another program (application id %#x): choose another path", store.ErrForeign, path, uint32(application))
	case version < 1:
		return 0, fmt.Errorf("%w: %s has no format version: choose another path, or restore the file from a backup", store.ErrForeign, path)
	case version != schemaVersion:
		return 0, &store.VersionError{What: path, Got: int(version), Known: schemaVersion}
	}
	return int(version), nil
}

func enableWAL(ctx context.Context, c *conn, path string) error {
	mode := ""
	err := db.Retry(ctx, func() error {
		return c.query(`PRAGMA journal_mode = WAL`, func(r row) error { mode = r.ColumnText(0); return nil })
	})
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%s cannot have a write-ahead log (journal mode %s): put it on a local file system", path, mode)
	}
	return nil
}
