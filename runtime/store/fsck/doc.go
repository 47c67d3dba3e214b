// Package fsck checks the invariants of a store over a snapshot of everything
// that it holds.
//
// The log of a run is the truth: the checks decode every frame, fold the log,
// and compare what the store keeps beside it. Each broken invariant is a
// [Finding] that says what is wrong and why it matters. Checking changes
// nothing.
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
