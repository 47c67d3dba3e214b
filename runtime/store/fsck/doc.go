// Package fsck checks the invariants of a store over a snapshot of everything
// that it holds, and repairs what is broken.
//
// The log of a run is the truth: the checks decode every frame, fold the log,
// and compare what the store keeps beside it. Each broken invariant is a
// [Finding] that says what is wrong and why it matters. [Check] finds them in a
// snapshot and changes nothing.
//
// # Repair
//
// [Repair] does so for a whole store that is a [store.Repairer], and mends it: it
// works out from the log of a run what must be kept beside it, and has the store
// write that in one action, with an entry in the audit trail that names the
// reason. There is one mechanism for all kinds of damage. A run that has ended is
// ended; one that waits undisturbed goes on waiting; any other one is made ready
// under a new fence, and a worker replays it and parks it again, which restores
// whatever else it needs. A log is never changed: a run whose log cannot be read
// to its end is blocked, with the finding as the explanation.
//
// Each action is guarded by all that was seen of its subject. So repairs may run
// while workers work, and any number of them at once: whoever comes second finds
// another state and does nothing. A run whose owner is at work, and can go on, is
// left to it.
//
// What only stood outside of the logs cannot be made again: items that nobody had
// read yet, notes, the priority of a run and when it was to start, who was
// deleted before the deletion was carried out, and the audit trail. A run without
// any of its log has no repair but a backup.
//
// # Reading order
//
// fsck.go has Check; log.go, run.go, session.go, name.go, chain.go and orphan.go the
// invariants. repair.go has Repair, plan.go decides what to do about each finding,
// rebuild.go makes a record from a log, planname.go decides about workflow ids.
//
// The numbers of the invariants are stable. Number 13, that what one run has
// recorded about another is true, needs more than a snapshot shows to a package
// that knows no operation of workflow code, and is not checked here.
//
//	 1  frames are complete, decode, and follow one another
//	 2  the fences in a log are those of one writer after the other
//	 3  only legal transitions; nothing is received twice in a chain
//	 4  what is kept of a run beside its log equals what the log says
//	 5  a run is in exactly one place, with an owner only if it is owned
//	 6  what is owned, and its mail, belongs to a session that has a lease
//	 7  a parked run has read its inbox and is woken at the right time
//	 8  of a run that has ended nothing but its log is left, until it is purged
//	 9  one active run per workflow id; all others wait in its line
//	10  what is in an inbox was accepted once and has not been read
//	11  a run has continued if its log says so, as a run of its chain; a chain goes on
//	    in at most one run, and its first run is kept for as long as a later one
//	12  each record of an outbox has a sender, in whose log its cause is; no cause is
//	    without its record
//	14  what a record has left with its receiver is there for as long as the record
//	15  ready runs are announced
//	16  nothing is kept of a run that does not exist
//	17  recoveries are those of the audit trail
package fsck
