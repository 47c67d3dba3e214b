// Package fsck checks the invariants of a store over a snapshot of everything
// that it holds.
//
// The log of a run is the truth: the checks decode every frame, fold the log,
// and compare what the store keeps beside it. Each broken invariant is a
// [Finding] that says what is wrong and why it matters. Checking changes
// nothing.
//
// The numbers of the invariants are stable. Numbers 12 to 14 are about
// messages between stores' partitions and are not checked here.
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
//	11  a chain goes on in at most one run
//	15  ready runs are announced
//	16  nothing is kept of a run that does not exist
//	17  recoveries are those of the audit trail
package fsck
