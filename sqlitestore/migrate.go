package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/store"
)

// Migrate brings a file that an older release has written up to the present format, in one transaction: whoever
// stops it leaves the file as it was. A million runs take it some seconds and, until then, about half of the file
// once more in the write-ahead log. A file that has the present format stays as it is, and one that does not exist is
// a *store.MissingError. No process of the older release writes to the file afterwards, even if it has it open: its operations fail.
// Stop them nevertheless, or what their workers have begun waits until their leases have ended.
func Migrate(ctx context.Context, path string) error {
	if err := migrate(ctx, path); err != nil {
		return fmt.Errorf("migrate sqlite store: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, path string) error {
	path, err := checkPath(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &store.MissingError{What: path}
	}
	s := &Store{path: path} // which explains errors
	c, err := connect(ctx, path, sqlite.OpenReadWrite, `cache_size = -65536`)
	if err != nil {
		return s.explain(err)
	}
	return errors.Join(s.explain(c.migrate(ctx, path)), c.Close())
}

func (c *conn) migrate(ctx context.Context, path string) error {
	return c.immediate(ctx, func() error {
		version, err := inspectFile(c, path)
		if err != nil {
			return err
		}
		return c.execAll(migrations(version))
	})
}

// migrations returns the statements that bring a file of a version up to date. An empty file, which Open makes a store,
// needs none.
func migrations(version int) []string {
	steps := [][]string{1: toVersion2, 2: toVersion3, 3: toVersion4, 4: toVersion5, 5: toVersion6, 6: toVersion7}
	if version == 0 || version >= len(steps) {
		return nil
	}
	return slices.Concat(append(steps[version:], standSchema)...)
}

// toVersion2 has what version 2 adds to version 1. place is 7 of a ready run that waits for
// permits; ord is its place among those who do. A line is the runs of one route that wait for
// the same permits; it has the turn of its first run, in line_parts for each of its limits.
var toVersion2 = []string{
	`ALTER TABLE runs ADD COLUMN uses TEXT`,
	`ALTER TABLE runs ADD COLUMN line INTEGER`,
	`ALTER TABLE runs ADD COLUMN waits INTEGER`, // since when: see protocol.Run.WaitsSince
	`CREATE INDEX runs_waiting ON runs (line, priority DESC, ord) WHERE place = 7`,
	// What is counted of a part of a limit; without a row nothing is.
	`CREATE TABLE limits (
		name  TEXT NOT NULL,
		key   TEXT NOT NULL,
		held  INTEGER NOT NULL,
		waits INTEGER NOT NULL,
		tat   INTEGER NOT NULL,
		PRIMARY KEY (name, key)
	) STRICT, WITHOUT ROWID`,
	// The configurations as JSON: that of the code, and that which was set.
	`CREATE TABLE limit_configs (
		name TEXT NOT NULL,
		key  TEXT NOT NULL,
		code TEXT,
		said TEXT,
		PRIMARY KEY (name, key)
	) STRICT, WITHOUT ROWID`,
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
	`PRAGMA user_version = 2`,
}

// toVersion3 has what version 3 adds to version 2, for gathered starts and for shares. gather is the key of which a run gathers the
// starts; once it has been claimed it says nothing. at is when a start has joined a run.
var toVersion3 = []string{
	`ALTER TABLE runs ADD COLUMN gather TEXT`,
	`CREATE INDEX runs_gather ON runs (gather) WHERE gather IS NOT NULL`,
	`CREATE TABLE joined (
		start ANY NOT NULL PRIMARY KEY,
		run   ANY NOT NULL,
		at    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX joined_at ON joined (at)`,
	// A flow is the ready runs of a route and a priority that have fair keys, whose ord is a
	// place; see package protocol. passes has what is known of its keys; a key without a row
	// begins at the pass of the flow.
	`ALTER TABLE runs ADD COLUMN fair TEXT`,
	`ALTER TABLE runs ADD COLUMN share INTEGER`,
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
	`PRAGMA user_version = 3`,
}

// toVersion4 has what version 4 adds to version 3, for lists and counts: the indexes by which runs are found have
// them in the order of lists. A tally is how many runs that were not deleted a route has with a status with
// which runs end, with a parent or without; those of the other statuses are counted when it is asked for them.
//
// The columns that it renames are in all transactions of the releases before it: a process of one of them that has
// the file open knew nothing of tallies, and now fails instead of writing. See TestMigrate_NoOperationOfAnOlderReleaseWritesAnyMore.
var toVersion4 = []string{
	`ALTER TABLE runs RENAME COLUMN birth TO created_by`,
	`ALTER TABLE sessions RENAME COLUMN up TO renewed`,
	`ALTER TABLE limit_configs RENAME COLUMN said TO given`,
	`DROP INDEX runs_status`,
	`ALTER TABLE runs ADD COLUMN child INTEGER NOT NULL DEFAULT 0`, // has a parent; of a generated column no index is enough
	`UPDATE runs SET child = 1 WHERE parent IS NOT NULL`,
	`CREATE INDEX runs_class ON runs (class, child, status, created) WHERE hidden = 0`,
	`DROP INDEX runs_wid`,
	`CREATE INDEX runs_wid ON runs (wid, created) WHERE wid IS NOT NULL`,
	`ALTER TABLE tags ADD COLUMN created INTEGER NOT NULL DEFAULT 0`,
	`UPDATE tags SET created = (SELECT created FROM runs WHERE key = tags.run)`,
	`DROP INDEX tags_value`,
	`CREATE INDEX tags_value ON tags (name, value, created)`,
	`CREATE TABLE tallies (
		class  INTEGER NOT NULL,
		child  INTEGER NOT NULL,
		status TEXT NOT NULL,
		n      INTEGER NOT NULL,
		PRIMARY KEY (class, child, status)
	) STRICT, WITHOUT ROWID`,
	countTallies,
	`PRAGMA user_version = 4`,
}

// toVersion5 has what version 5 adds to version 4, for groups of trouble. trouble is the
// group of a run; the indexes have the runs of a group, and of all groups, in the order of
// lists. A group without runs stays for a while: see package protocol.
//
// As in version 4, columns that all transactions of older releases need get other names: such a process knows of no labels, and
// would let runs keep theirs that have ended well.
var toVersion5 = []string{
	`ALTER TABLE runs RENAME COLUMN closing TO marks`,
	`ALTER TABLE sessions RENAME COLUMN code TO fingerprint`,
	`ALTER TABLE limit_configs RENAME COLUMN code TO declared`,
	`ALTER TABLE runs ADD COLUMN trouble TEXT`,
	`CREATE INDEX runs_trouble ON runs (trouble, created) WHERE trouble IS NOT NULL`,
	`CREATE INDEX runs_troubled ON runs (created) WHERE trouble IS NOT NULL`,
	`CREATE TABLE troubles (
		name     TEXT NOT NULL PRIMARY KEY,
		kind     TEXT NOT NULL,
		workflow TEXT NOT NULL,
		step     TEXT NOT NULL,
		text     TEXT NOT NULL,
		first    INTEGER NOT NULL,
		last     INTEGER NOT NULL,
		total    INTEGER NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE INDEX troubles_last ON troubles (last)`,
	`PRAGMA user_version = 5`,
}

// toVersion6 has what version 6 adds to version 5: the journal of operators, whose entries sort by their ids,
// and the catalogue of workflows.
//
// As in version 4, columns that all transactions of older releases need get other names: such a process would go on
// without what this version has beside the runs.
var toVersion6 = []string{
	`ALTER TABLE runs RENAME COLUMN marks TO flags`,
	`ALTER TABLE sessions RENAME COLUMN fingerprint TO build`,
	`ALTER TABLE limit_configs RENAME COLUMN declared TO from_code`,
	`CREATE TABLE journal (
		id   TEXT NOT NULL PRIMARY KEY,
		body BLOB NOT NULL
	) STRICT, WITHOUT ROWID`,
	`CREATE TABLE catalog (
		workflow TEXT NOT NULL PRIMARY KEY,
		body     BLOB NOT NULL
	) STRICT, WITHOUT ROWID`,
	`PRAGMA user_version = 6`,
}

// olderViews makes the table of views as the releases with version 6 did, if one of them has not done so.
const olderViews = `CREATE TABLE IF NOT EXISTS views (
		name TEXT NOT NULL PRIMARY KEY,
		body BLOB NOT NULL
	) STRICT, WITHOUT ROWID`

// toVersion7 leads to version 7, in which routes no longer count their runs. To count them wrote a page for
// each run that was created. Whether a route has none is looked for in two indexes when one of its runs is purged.
//
// Views have a table from the beginning; until then it was made with the first one.
//
// As in version 4, what all transactions of older releases need gets other names: such a process would forget routes
// that have runs.
var toVersion7 = []string{
	`ALTER TABLE runs RENAME COLUMN flags TO bits`,
	`ALTER TABLE sessions RENAME COLUMN build TO program`,
	`ALTER TABLE limit_configs RENAME COLUMN from_code TO by_code`,
	`ALTER TABLE journal RENAME COLUMN body TO entry`,
	`ALTER TABLE catalog RENAME COLUMN body TO entry`,
	`ALTER TABLE classes DROP COLUMN runs`,
	olderViews,
	`ALTER TABLE views RENAME TO saved_views`,
	`CREATE INDEX runs_hidden ON runs (class) WHERE hidden = 1`,
	`PRAGMA user_version = 7`,
}
