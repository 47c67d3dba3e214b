// Package fsck checks the invariants of a store over a snapshot of its entire contents, and repairs
// violations.
//
// The log of a run is the source of truth. The checks decode every frame, replay the log, and
// compare the result with the derived data in the store. Each violation is a [Finding] that
// describes the problem and its consequence. [Check] finds the violations in a snapshot and changes
// nothing.
//
// # Repair
//
// [Repair] checks and repairs a whole store that implements [store.Rebuilder]. All kinds of
// violations of a run have the same repair. It reads the log, computes the derived data, and lets
// the store replace the data of the run in one action. The action adds an entry with the reason to
// the audit trail. A run that has ended stays ended, and an intact parked run stays parked. Any
// other run becomes ready, so that a worker replays and parks it, which restores the remaining
// data. A log is never changed: a run whose log cannot be read to its end is blocked, with the
// finding as the reason.
//
// A rebuild acts only if the run has not changed since it was read, and it increases the epoch of
// the run. Therefore repairs may run concurrently with workers and with each other. If a worker
// commits first, the run has changed: the rebuild writes nothing, and the partition is read again.
// If a worker commits afterwards, the commit is refused because of its epoch, and the worker has
// lost the run, as if its lease had expired. The next worker that claims the run continues from the
// log. Nothing is lost, because nothing takes effect before it is in the log. A run without an
// owner holds no permits except those that it holds until its end. The limits are counted from
// these.
//
// # Data that are not in logs
//
// Some data of a run cannot be derived from its log. A rebuild keeps such data, or changes only the
// part that a finding names:
//
//   - Unread items. An accepted item is only in the inbox until a worker has read it. An item is
//     removed only if it cannot be read, is a duplicate, or is in a log.
//   - The delivery state of an outbox record. If a settled record were sent again, its receiver
//     might have forgotten it. A record that is missing or cannot be delivered is derived from the
//     log and written again with the same ID, so that it takes effect only once. Unsettled records
//     that were caused later are written after it. A record without a cause in the log is removed.
//     So is a record whose action is known neither from its body nor from the log.
//   - The IDs of items that a chain has accepted. Missing ones are added.
//   - Step data, the audit trail, the planned start time of a run, the position of a run in the
//     queue of its workflow ID, pending deletions, and chunks of streams.
//   - Data shared by all runs of a partition: counts, limits and their queues, sessions, routes,
//     the journal and others. A store reports damage of these as a [store.Defect]. It recomputes
//     them from the runs, or removes data that cannot be read. Defects that it cannot repair remain
//     reported.
//
// Relations between runs of different partitions are checked last. A lost child is created again. A
// parent is notified of an end if it was not. The trace of a lost record, that is the data that it
// has left at its receiver, is removed.
//
// Lost data that existed only outside of the logs cannot be restored. A run without a log can be
// restored only from a backup. Its fresh records are kept, because they may not have arrived. The
// IDs of items that a chain accepted from an outbox are restored for a day, and not until they are
// confirmed. Of a damaged stream the chunks after the last gap are kept. Lost data about the
// writers of step chunks are not restored.
//
// # Reading order
//
// fsck.go contains Check. The invariants are in log.go, run.go, session.go, name.go, chain.go,
// outbox.go, orphan.go, stream.go, limit.go, failuregroup.go and entry.go. repair.go contains
// Repair. decide.go chooses the repair of each finding, rebuild.go derives a record from a log, and
// lead.go determines the runs of workflow IDs. resend.go repairs outboxes, links.go relations
// between partitions, and blobs.go compares the store with its blob store.
//
// The numbers of the invariants are stable. [Check] does not interpret operations of workflow code,
// so only [Repair] checks number 13. It also checks number 26, if there is a blob store.
//
//	 1  frames are complete, decode, and are consecutive
//	 2  the fences in a log are those of consecutive writers
//	 3  only legal transitions; nothing is received twice in a chain
//	 4  the derived data of a run equal those computed from its log
//	 5  a run is in exactly one queue state, with an owner only if it is owned
//	 6  an owned run and its unread items belong to a session with a lease
//	 7  a parked run has read its inbox, or has not begun, and is woken at the right time
//	 8  of a run that has ended only its log is left, until it is purged
//	 9  one active run per workflow ID; all others wait in its queue
//	10  each item in an inbox was accepted once and has not been read
//	11  a run has continued if its log contains that, as a run of its chain; a chain has at
//	    most one run that has not continued, and its first run is kept as long as a later one
//	12  each record of an outbox has a sender whose log contains its cause; each cause has
//	    its record
//	13  a child that a run waits for exists, or a record will create it; its parent has been
//	    notified of its end, or a record will notify it
//	14  the trace of a record at its receiver exists as long as the record
//	15  ready runs are announced
//	16  there are no data of runs that do not exist
//	17  recoveries are those of the audit trail
//	18  the chunks of a stream are consecutive up to its last one
//	19  only the owner of a run holds its permits, except for a run that holds them until its
//	    end; a limit counts the permits of its runs, and a fairness key its runs
//	20  a run that waits for permits is in one limiter queue; claims omit no queue that may be
//	    admitted
//	21  a start with a collecting key finds the run that collects it, and no other one
//	22  counters and sorted indexes of runs are correct
//	23  a run is in the failure group that its record names; a run that was deleted, has
//	    ended without a failure, or was retried is in none; a retried run refers to its rerun
//	24  the entries of the store can be read, and are in order
//	25  a run is found by its workflow ID and its tags, and by no others; a deleted run by
//	    none
//	26  all data that are kept in the blob store are there; a blob without a reference is less
//	    than two days old
package fsck
