// Package fsck checks the invariants of a store over a snapshot of everything
// that it holds, and repairs what is broken.
//
// The log of a run is the truth: the checks decode every frame, follow the log,
// and compare what the store keeps beside it. Each broken invariant is a
// [Finding] that says what is wrong and why it matters. [Check] finds them in a
// snapshot and changes nothing.
//
// # Repair
//
// [Repair] does so for a whole store that is a [store.Rebuilder], and repairs it. There is one repair of a run, whatever is
// wrong with it: it reads the log, works out what must be kept beside it, and has the store delete what it keeps of the run
// and write it again, in one action, with an entry in the audit trail that names the reason. A run that has ended is
// ended; one that waits undisturbed goes on waiting; any other one is made ready, and a worker replays it and parks
// it again, which restores whatever else it needs. A log is never changed: a run whose log cannot be read
// to its end is blocked, with the finding as the explanation.
//
// A rebuild acts only if the run is as it was seen, and the epoch of the run rises with it. So repairs may run while
// workers work, and any number of them at once. A worker that commits first changes the run: the rebuild writes nothing, and
// the partition is read again. A worker that commits after it is refused by the epoch and has lost the run, as if
// its lease had ended: the next one that claims the run goes on from what is in the log, and nothing of that is lost, since
// nothing takes effect before it is in the log. A run without an owner has no permits but those of a whole run, which the
// limits are counted from.
//
// # What is not in logs
//
// Some of what is kept beside a log does not follow from it. Deleted and derived again it would be lost, so a rebuild leaves it
// as it is, or changes just the part that a finding names:
//
//   - Unread items. What was accepted is in the inbox alone until a worker has read it. An item is removed only if it cannot be
//     read, stands there twice, or is in a log.
//   - How far a record of an outbox was delivered. A settled record that was sent again might find that its receiver
//     has forgotten it. A record that is missing, or cannot be delivered, is derived from the log and written again with
//     the same id, so that it has no effect twice; the unsettled records that were caused after it are
//     written after it. A record that nothing has caused is removed, and so is one of which neither its
//     body nor the log says any more what it was to do.
//   - The ids of items that a chain has accepted: those that are missing are added.
//   - Step data, the audit trail, the time at which a run was to start, the place of a run in the line of its workflow id, who was
//     deleted before the deletion was carried out, and chunks of streams.
//   - What all runs of a partition share: counts, limits and their lines, sessions, routes, the journal and the like. A store
//     finds that as a [store.Defect], counts it again from the runs or removes what cannot be read, and has nothing
//     else to derive it from. What it cannot repair stays reported.
//
// What is between runs of several partitions is checked last: a child that was lost is begun again, a parent that was
// not told of an end is told, and what a lost record has left is forgotten.
//
// What only stood outside of the logs and is lost cannot be made again. A run without
// any of its log has no repair but a backup, and its fresh records stay: nobody knows
// whether they have arrived. What a chain had accepted from an outbox, and has
// forgotten, is remembered again for a day, and not until it is confirmed. Of a stream
// what can still be read without a gap is left: the chunks behind the last gap. Who has
// written the chunks of steps is lost with what was kept of that.
//
// # Reading order
//
// fsck.go has Check; log.go, run.go, session.go, name.go, chain.go, outbox.go,
// orphan.go, stream.go, limit.go, trouble.go, label.go, journal.go and catalog.go the invariants. repair.go has Repair, decide.go what
// to do about each finding, rebuild.go makes a record from a log, lead.go decides what
// workflow ids lead to, resend.go about outboxes, and links.go about what is between partitions.
//
// The numbers of the invariants are stable. [Check] knows no operation of workflow
// code: number 13 is checked by [Repair] alone.
//
//	 1  frames are complete, decode, and follow one another
//	 2  the fences in a log are those of one writer after the other
//	 3  only legal transitions; nothing is received twice in a chain
//	 4  what is kept of a run beside its log equals what the log says
//	 5  a run is in exactly one queue state, with an owner only if it is owned
//	 6  what is owned, and its unread items, belongs to a session that has a lease
//	 7  a parked run has read its inbox, or not yet begun, and is woken at the right time
//	 8  of a run that has ended nothing but its log is left, until it is purged
//	 9  one active run per workflow id; all others wait in its line
//	10  what is in an inbox was accepted once and has not been read
//	11  a run has continued if its log says so, as a run of its chain; a chain goes on
//	    in at most one run, and its first run is kept for as long as a later one
//	12  each record of an outbox has a sender, in whose log its cause is; no cause is
//	    without its record
//	13  a child that a run waits for exists, or a record will create it; that it has
//	    ended its parent knows, or a record will tell
//	14  what a record has left with its receiver is there for as long as the record
//	15  ready runs are announced
//	16  nothing is kept of a run that does not exist
//	17  recoveries are those of the audit trail
//	18  the chunks of a stream follow one another up to its last one
//	19  who owns a run has its permits, and nobody else but a run that keeps them to its
//	    end; a limit counts what its runs have, and a flow its runs
//	20  what waits for permits is in one line; no line is left out that may go
//	21  the starts of a key find the run that gathers them, and no other one
//	22  what counts runs, and finds them in order, is as they are
//	23  a run is found in the group of trouble that it says it is in; one that was deleted,
//	    or has ended otherwise than by failing, or was tried again, is in none; one that was
//	    tried again says so
//	24  what the journal of operators has can be read, in order
//	25  what the catalogue has of workflows can be read
//	26  a run is found by its workflow id and its tags, and by no others; one that was deleted
//	    by none
//	27  the views that operators share can be read
package fsck
