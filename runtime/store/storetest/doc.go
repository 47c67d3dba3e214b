// Package storetest is the conformance suite of stores. A store that passes it
// keeps the contract of package store as the runtime relies on it:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			Open: func(t testing.TB, clock store.Clock) store.Store {
//				return mystore.New(mystore.Config{Clock: clock})
//			},
//		})
//	}
//
// Example (Skeleton) is a store to begin with; docs/internals/stores.md leads from there to a green
// suite.
//
// Each subtest is one behaviour, named as a sentence; those that begin with a
// letter and a number are the rules listed in package store. The last subtest plays random
// histories (late and repeated requests, several workers, dead sessions) against
// the store and against a model of plain maps, and compares every answer and,
// after every operation, all runs, inboxes, workflow ids and owners as they are answered.
//
// If the store implements store.Inspector, which shows its whole state, the histories compare
// that, and package fsck looks at it after every subtest. Behaviours about what no
// answer tells (timers, wakes, what is remembered of items) are skipped without it. In histories starts and kept items
// need no records, so fsck's number 14 is not asked of them.
//
// A store under test must implement store.Purger. Where it implements store.Lister,
// store.Auditor or store.StepDataStore, they are tested, too.
//
// # What the suite leaves open
//
//   - Runs that become ready in one action may do so in any order, except that
//     due runs do in the order of their due times.
//   - A claim of several routes may serve them in any order; within a route the
//     order is by priority, then by how long a run has been ready.
//   - One call recovers at least 100 runs, makes at least 100 due runs ready, and
//     purges at least 100 short ones. Runs whose retention ends at one time may be
//     purged in any order.
//   - An outbox may return fewer records than are due, and choose which
//     ones, as far as the order of pairs allows: at least one, and all of them if
//     the limit is far away. A due time that it or a heartbeat names
//     may be too early because of that order, but not past for that reason in
//     the answer of Outbox.
//   - A run that something holds back from its purge may be among the Purges of a
//     snapshot, or not. Purge may leave to its next call a run that its own work has
//     let go.
//   - A page of a stream may have fewer chunks than there are and were asked for, if
//     they are large: at least one. Pages of less than 1 MiB are full. AwaitStream may
//     return early, but not all the time.
//   - A claim may take back the wake of a route that it has emptied, and a purge
//     that of a route that it has left without runs.
//   - A snapshot may have the audit entries in any order.
//
// # What it decides where the contract has no word
//
//   - A session is live from OpenSession until somebody begins to recover it,
//     even when its lease has expired: it may renew, claim, own new runs, and reconcile.
//     A claim never recovers the session that makes it.
//   - OpenSession of a live session renews it; of one that is being recovered it
//     fails with store.ErrExpired. CloseSession of an unknown one succeeds.
//   - The guards of a create are, in this order: the deadline, the run exists, the
//     policies, and for a run with an Owner that it could start at once (else
//     store.ErrNotClaimable), and the session. The answer for a run that exists
//     already has the fence of its owner, whichever session the request names.
//   - The guards of a commit are, in this order: the run exists (else
//     store.ErrFenced), the same commit was applied, the fence, the workflow id,
//     the position, the consumed items, the unread ones, the active run, the new run.
//   - A deadline is asked for before everything else, and has not passed at its
//     very time.
//   - Deliver is answered for the last run of a chain. If that was deleted or purged,
//     it is answered for the run named; ids of runs that are gone find nothing.
//   - What an outbox sends is remembered until Confirm, however it was accepted
//     later. An item that is sent again with or without Keep changes nothing. A run that
//     was deleted still says that its chain has accepted an item.
//   - Marking an Unknown receiver leaves fresh records as they are, also their
//     time, and lets a settled record go.
//   - What is said of streams that makes no sense fails the whole call, and writes
//     nothing: see store.CheckPublish. Publish asks for the fence next, and then for
//     closed streams. Keep trims a closed stream, too; a stream that was dropped has
//     forgotten its writers.
//   - A chain has ended with its last run, also after that was purged. A run that was
//     deleted or purged does not name the streams of its chain, the others do.
//   - Closing holds only for a run that stays owned by the commit.
//   - Creating a run that is due earlier than all others wakes like parking does.
//   - A cancel of a start under store.ActiveCancel reaches a closing run.
//   - Wait with a time that is past only looks: it returns at once with what
//     there is, and Due.
//   - Times are kept to the millisecond, due and purge times rounded up.
//   - A run may be purged at the very time that store.PurgeTime says.
//   - Of a deleted run only a repeated Create and a repeated Delete are answered
//     as before; its workflow id forgets it at once, as it does a purged one. If an
//     earlier run of the workflow id is kept, that does not become the last.
package storetest
