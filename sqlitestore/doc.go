// Package sqlitestore stores runs in one SQLite file: durable, on one machine, without a server.
// It is pure Go; no C compiler is needed.
//
//	st, err := sqlitestore.Open("orders.db")
//	if err != nil {
//		return err
//	}
//	defer st.Close()
//
// # Durability
//
// Operations that arrive while a transaction is being written are executed together in the next
// transaction. They complete when that transaction is in the file. Each operation is atomic by
// itself, and a failing operation does not undo the others. With [Normal], the default,
// completed operations survive any end of the process. With [Full] they also survive a loss of
// power. Neither mode can damage the file. If the context of an operation ends before the
// operation is executed, it is not executed later. If it was being executed, either it returns its
// result, or the caller cannot determine whether it took effect.
//
// # Several processes
//
// Any number of processes on one machine may use the same file. If another process holds the
// write lock, an operation retries until its context is done; callers never receive SQLITE_BUSY.
// Within a process waiting calls are notified at once. Changes of other processes are detected
// by polling: one goroutine per store checks every 10 ms whether another process has written
// (PRAGMA data_version, 2 µs). It polls only while a call waits. So an idle process claims a new
// run after 5 ms on average. A waiting process uses about 1 % of one core, nearly all of it for
// wake-ups.
//
// The file must not be shared over a network: SQLite's write-ahead log needs a single kernel.
//
// # The end of a process
//
// A process with an open session holds a lock on a separate file beside the database
// (orders.db-worker-….lock). The kernel releases the lock when the process ends in any way. The
// next Claim of another process finds the lock free, and recovers the runs of the process
// without waiting for the lease. The audit trail then contains store.ReasonProcessEnded. Idle
// workers are notified within about a quarter of a second. A process that is stopped or stuck,
// but not dead, holds its lock, and loses its runs only when its lease expires. On some systems
// the end of a process cannot be proven: on systems other than Linux and macOS, on remote or
// unknown file systems, and if the lock file was deleted. Then only the lease decides.
// internal/db/lock.go explains why a live session is never considered dead. Closing a store ends
// its open sessions.
//
// # Files
//
// While the store is open, orders.db-wal, orders.db-shm and the lock files are beside orders.db.
// Close leaves one file. Lock files of killed processes are removed by the process that recovers
// their runs, or by the next process that opens the store. Do not copy the file of an open
// store. While a process has the store open, do not open and close the file in that process by
// other means than SQLite: closing it drops the locks that SQLite holds.
//
// Purged runs leave free pages, which new runs use. If more than a quarter of the file is free,
// Purge returns free pages to the file system, a few megabytes per call (SQLite's incremental
// vacuum). So the file is at most a third larger than its contents, once purging has caught up.
//
// A file that is not a store is refused with store.ErrForeign and not changed.
//
// # Reading order
//
// schema.go contains the tables, open.go the Store. Package internal/db contains the parts that
// do not depend on runs: connections with their statements, and the locks that prove the end of
// a process. writer.go executes all write operations, and wal.go syncs the log and limits its
// size. tx.go contains their transaction, and row.go the row of a run. conn.go contains the
// connections that execute the reads. protocol.go implements the protocol on a transaction. wait.go notifies
// waiting calls and detects changes of other processes. Each other file has one subject, with
// the same name as in the other stores: create.go, session.go, claim.go, commit.go, outbox.go,
// load.go, stream.go, list.go, limit.go, fleet.go, purge.go, inspect.go, stepdata.go. state.go,
// rebuild.go and the files with defect in their names implement what package fsck needs.
// damage.go limits the effect of a damaged page to the runs on it, and explains errors of
// SQLite.
package sqlitestore
