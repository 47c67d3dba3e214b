package sqlitestore

// baseSchema is that of version 1, from which each migration went on.
var baseSchema = []string{
	// seq is the last number that was given to a ready run or an item; both
	// only ever need to know which of two came first.
	// up is for how long somebody was heard, and heard when that was last; see
	// package store on dead sessions.
	`CREATE TABLE counters (
		id    INTEGER PRIMARY KEY CHECK (id = 1),
		seq   INTEGER NOT NULL,
		up    INTEGER NOT NULL,
		heard INTEGER NOT NULL
	) STRICT`,
	`INSERT INTO counters VALUES (1, 0, 0, 0)`,

	// runs was the number of runs of the route, until version 7; without any it is forgotten. blocks
	// counts how often one was blocked, so that other processes notice.
	`CREATE TABLE classes (
		id       INTEGER PRIMARY KEY,
		queue    TEXT NOT NULL,
		workflow TEXT NOT NULL,
		wake     INTEGER NOT NULL,
		blocks   INTEGER NOT NULL,
		runs     INTEGER NOT NULL,
		UNIQUE (queue, workflow)
	) STRICT`,
	`CREATE INDEX classes_wake ON classes (id) WHERE wake = 1`,
	`CREATE INDEX classes_blocks ON classes (id) WHERE blocks > 0`,

	// active and last are keys of runs; the line is an index of runs. last is
	// null if that run was deleted or purged. An id is kept as long as there is
	// any run of it.
	`CREATE TABLE workflow_ids (
		id     INTEGER PRIMARY KEY,
		name   TEXT NOT NULL UNIQUE,
		active INTEGER,
		last   INTEGER
	) STRICT`,

	// An id of a session is never used again, so that nothing can mean another
	// session by it. reason is set once the session is being recovered. code is the
	// fingerprint of what it runs, up that of the counters when the lease was
	// renewed. lock
	// says how to prove that the process behind it has ended; see lock.go.
	`CREATE TABLE sessions (
		id      INTEGER PRIMARY KEY AUTOINCREMENT,
		name    TEXT NOT NULL UNIQUE,
		worker  TEXT NOT NULL,
		code    TEXT NOT NULL,
		expires INTEGER NOT NULL,
		ttl     INTEGER NOT NULL,
		up      INTEGER NOT NULL,
		reason  TEXT,
		lock    TEXT
	) STRICT`,

	// The routes that a session serves. They go with it.
	`CREATE TABLE serves (
		queue    TEXT NOT NULL,
		workflow TEXT NOT NULL,
		session  INTEGER NOT NULL,
		PRIMARY KEY (queue, workflow, session)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX serves_session ON serves (session)`,

	// chain is null for the first run of a chain; tip is the last run, on the row
	// of the first, once there is another. The incompatible sessions are those the sessions that have blocked
	// the run; see incompatible. ord orders ready runs of one priority,
	// and queued runs. inbox is the number of items. retention is in nanoseconds;
	// purge is when the run may be purged, once it has ended and nothing needs it
	// any more: see unneeded. A hidden run was deleted: only what must not be done
	// twice still sees it.
	`CREATE TABLE runs (
		key        INTEGER PRIMARY KEY,
		id         ANY NOT NULL UNIQUE,
		chain      ANY,
		next       ANY,
		tip        ANY,
		birth      TEXT,
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
		closing    INTEGER NOT NULL,
		inbox      INTEGER NOT NULL,
		created    INTEGER NOT NULL,
		ended      INTEGER,
		retention  INTEGER NOT NULL,
		purge      INTEGER,
		hidden     INTEGER NOT NULL,
		parent     ANY,
		root       ANY,
		tags       TEXT
	) STRICT`,
	`CREATE INDEX runs_ready ON runs (class, priority DESC, ord) WHERE place = 1`,
	`CREATE INDEX runs_blocked ON runs (class, misfits) WHERE place = 4`,
	`CREATE INDEX runs_lined ON runs (wid, ord) WHERE place = 5`,
	`CREATE INDEX runs_due ON runs (due, id) WHERE due IS NOT NULL`,
	`CREATE INDEX runs_owned ON runs (owner) WHERE owner IS NOT NULL`,
	`CREATE INDEX runs_mail ON runs (owner) WHERE owner IS NOT NULL AND inbox > 0`,
	`CREATE INDEX runs_purge ON runs (purge) WHERE purge IS NOT NULL`,
	`CREATE INDEX runs_wid ON runs (wid) WHERE wid IS NOT NULL`,
	`CREATE INDEX runs_chain ON runs (chain) WHERE chain IS NOT NULL`,
	`CREATE INDEX runs_created ON runs (created) WHERE hidden = 0`,
	`CREATE INDEX runs_status ON runs (status, created, class) WHERE hidden = 0`,
	`CREATE INDEX runs_parent ON runs (parent, created) WHERE parent IS NOT NULL`,
	`CREATE INDEX runs_root ON runs (root, created) WHERE root IS NOT NULL`,

	`CREATE TABLE tags (
		name  TEXT NOT NULL,
		value TEXT NOT NULL,
		run   INTEGER NOT NULL,
		PRIMARY KEY (run, name)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX tags_value ON tags (name, value)`,

	`CREATE TABLE frames (
		run  INTEGER NOT NULL,
		n    INTEGER NOT NULL,
		data BLOB NOT NULL,
		PRIMARY KEY (run, n)
	) STRICT, WITHOUT ROWID`,

	`CREATE TABLE inbox (
		run   INTEGER NOT NULL,
		seq   INTEGER NOT NULL,
		id    TEXT NOT NULL,
		scope INTEGER NOT NULL,
		body  BLOB,
		PRIMARY KEY (run, seq)
	) STRICT, WITHOUT ROWID`,

	// What is kept is remembered until it is confirmed, the rest for a day.
	`CREATE TABLE seen (
		chain ANY NOT NULL,
		id    TEXT NOT NULL,
		at    INTEGER NOT NULL,
		keep  INTEGER NOT NULL,
		PRIMARY KEY (chain, id)
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX seen_age ON seen (chain, at) WHERE keep = 0`,

	// A phase is the number of a store.Phase; seq orders the records as they were
	// written. due is the due time of the record: 0, at once, while the record is
	// fresh. Along the answered records of one sender and receiver it never falls.
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

	// first is the first chunk that is kept: those from there on to last are there.
	// A chain has the id of its first run, a name is any bytes.
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
	// nth is the number of the last chunk of a writer.
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
