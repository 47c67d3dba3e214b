// Package sqlitestore stores runs in one SQLite file: durable, on one machine, without a server. It
// is pure Go; no C compiler is needed.
//
//	st, err := sqlitestore.Open("orders.db")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//
// # Durability
//
// All operations that arrive while a transaction is being written are executed together in the next
// one, and complete when that is in the file. Each operation is still atomic by itself, and a
// failing one does not undo the others. With [Normal], the default, completed operations survive
// any end of the process; with [Full] they also survive a loss of power. Neither mode can damage
// the file. An operation whose context ends before it is executed is not executed later; if it was
// being executed, the caller cannot determine whether it took effect.
//
// # Several processes
//
// Any number of processes on one machine may use the same file. If another process holds the write
// lock, an operation retries until its context is done; SQLITE_BUSY is never returned to a caller.
// Within a process waiting calls are notified at once. Across processes one goroutine per store
// checks every 10 ms whether another process has written (PRAGMA data_version, 2 µs), but only
// while a call waits: an idle process claims a new run after 5 ms on average, and a waiting process
// uses about 1 % of one core, nearly all of it for wake-ups.
//
// The file must not be shared over a network: SQLite's write-ahead log needs a single kernel.
//
// # The end of a process
//
// A process with an open session holds a lock on a separate file beside the database
// (orders.db-worker-….lock), which the kernel releases when the process ends in any way. The next
// Claim of another process finds the lock free and recovers the runs of the process at once,
// without waiting for the lease; the audit trail contains store.ReasonProcessEnded. Idle workers
// are notified within about a quarter of a second. A process that is stopped or stuck, but not
// dead, still holds its lock, and loses its runs only when its lease expires. If it cannot be
// proven that a process has ended (not Linux or macOS, a remote or unknown file system, a deleted
// lock file), only the lease decides; internal/db/lock.go explains why a live session is never
// considered dead. Closing a store with open sessions ends these sessions.
//
// # Files
//
// While the store is open, there are orders.db-wal and orders.db-shm beside orders.db, and the lock
// files. Close leaves one file; lock files of killed processes are removed by the process that
// recovers their runs, or opens the store next. Do not copy the file of an open store, and do not
// open it by other means than SQLite in a process that has it open: closing it again would drop the
// locks that SQLite holds.
//
// Purged runs leave free pages, which new runs use. Purge returns free pages beyond a quarter of
// the file to the file system, a few megabytes per call (SQLite's incremental vacuum). So the file
// is at most a third larger than its contents, once purging has caught up.
//
// A file that is not a store is refused with store.ErrForeign and not changed.
//
// # Reading order
//
// schema.go contains the tables, open.go the Store. Package internal/db contains the parts that do
// not depend on runs: connections with their statements, and the locks that prove the end of a
// process. writer.go executes all write operations and limits the size of the log, tx.go contains
// their transaction, row.go the row of a run; conn.go contains the connections that execute the
// reads. protocol.go implements the protocol on a transaction, wait.go notifies waiting calls and
// detects changes of other processes. Each other file has one subject, with the same name as in the
// other stores: create.go, session.go, claim.go, commit.go, outbox.go, load.go, stream.go, list.go,
// limit.go, fleet.go, purge.go, inspect.go, stepdata.go. state.go, the files with defect in their
// names and rebuild.go serve package fsck. damage.go limits the effect of a damaged page to the
// runs on it, and explains errors of SQLite.
package sqlitestore
