// Package sqlitestore keeps runs in one SQLite file: durable, on one machine,
// without a server. It is written in Go alone; no C compiler is needed.
//
//	st, err := sqlitestore.Open("orders.db")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//
// # What an answer means
//
// All operations that arrive while a transaction is being written are executed
// together in the next one, and answered when that is in the file. Each is still
// atomic by itself, and one that fails does not undo the others. With
// [Normal], the default, answered operations survive any end of the process; with
// [Full] a loss of power, too. Neither can leave a damaged file. An operation
// whose context ends before it is executed is not executed later; if it was being
// executed, the caller does not know whether it was.
//
// # Several processes
//
// Any number of processes of one machine may work on the same file. A process
// that finds another one writing tries again, as long as the context of the
// operation allows; SQLITE_BUSY never reaches a caller. Within a process waiting
// calls are notified at once. Across processes one goroutine per store asks every 10
// ms whether another process has written (PRAGMA data_version, 2 µs), but only
// while a call waits: a new run is claimed by an idle process after 5 ms on
// average, and a waiting process uses about 1 % of one core, nearly all of it for
// being woken so often.
//
// The file may not be shared over a network: SQLite's write-ahead log needs one
// kernel.
//
// # The end of a process
//
// A process that has opened a session holds a lock on a file of its own beside
// the database (orders.db-worker-….lock) which the kernel drops when the process
// ends, however that happens. The next Claim of another process finds the lock free
// and takes over the runs that the process owned, at once, without waiting for the
// lease; the audit names store.ReasonProcessEnded. Idle workers are notified within about
// a quarter of a second. A process that is stopped or stuck, but not dead, still has its
// lock, and loses its runs by its lease only. Where it cannot be proven that a
// process has ended (not Linux or macOS, a remote or unknown file system, a lock
// file that was deleted) the lease decides alone; package internal/db argues why a
// living session is never taken for dead. A store that is closed while it has
// open sessions counts as ended.
//
// # Files
//
// Beside orders.db there are orders.db-wal and orders.db-shm while the store is
// open, and the lock files. Close leaves one file; lock files of processes that
// were killed are removed by the process that takes over their runs, or opens the store
// next. Do not copy the file of an open store, and do not open it by other means
// than SQLite in a process that has it open: closing it again would drop the
// locks that SQLite holds.
//
// Runs that are purged leave free pages. New runs use them; free pages beyond
// a quarter of the file are given back to the file system by the calls of
// Purge, a few megabytes at a time (SQLite's incremental vacuum). So the file is
// at most a third larger than its contents, once purging has caught up.
//
// A file that is not a store is refused with store.ErrForeign and not changed.
//
// # Reading order
//
// schema.go has the tables, open.go the Store. Package internal/db has what knows no
// run: connections with their statements, and the locks that prove the end of a
// process. writer.go executes all writing operations and keeps the log short, tx.go
// has their transaction, row.go the row of a run; conn.go has the connections that
// execute the rest. protocol.go gives a transaction to the protocol, wait.go
// notifies waiting calls and notices other processes. Then one file per subject,
// named as in the other stores: create.go, session.go, claim.go, commit.go,
// outbox.go, load.go, stream.go, list.go, limit.go, fleet.go, purge.go, inspect.go,
// stepdata.go; state.go, the files with defect in their names and rebuild.go serve
// package fsck. damage.go keeps a damaged page from all runs but those on it, and
// explains errors of SQLite.
package sqlitestore
