// Package storetest is the conformance suite of stores. A store that passes it keeps the parts of
// the contract of package store that the runtime relies on:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			Open: func(t testing.TB, clock store.Clock) store.Store {
//				return mystore.New(mystore.Config{Clock: clock})
//			},
//		})
//	}
//
// Example (Skeleton) is a store to begin with. docs/internals/stores.md leads from there to a store
// that passes the suite.
//
// Each subtest is one behaviour, named as a sentence. Names that begin with a letter and a number
// refer to the rules listed in package store. The packages below behavior contain them by subject;
// package suite contains the harness that they share. The last subtest, from package history, plays
// random histories (late and repeated requests, several workers, dead sessions) against the store
// and against a model of plain maps. It compares every answer and, after every operation, the answers for all runs, inboxes,
// workflow IDs and owners.
//
// If the store implements store.Inspector, which shows its whole state, the histories compare the
// state instead, and package fsck checks it after every subtest. Behaviours about state that no
// answer shows (timers, wakes, remembered items) are skipped for other stores. In histories, starts
// and kept items need no records, so invariant 14 of fsck is not checked there.
//
// A store under test must implement store.Purger. If it implements store.Lister, store.Auditor or
// store.StepDataStore, the suite tests them as well.
//
// # What the suite leaves open
//
//   - Runs that become ready in one action may do so in any order, except that due runs do so in
//     the order of their due times.
//   - A claim of several routes may serve them in any order. Within a route the order is by
//     priority, then by how long a run has been ready.
//   - One call recovers at least 100 runs, makes at least 100 due runs ready, and purges at least
//     100 short runs. Runs whose retention ends at the same time may be purged in any order.
//   - An outbox may return fewer records than are due, and choose which ones, as far as the order
//     of pairs allows. It returns at least one, and all of them if the limit is far away. A due
//     time that it or a heartbeat returns may be too early because of that order. For the answer
//     of Outbox this must not make it a time in the past.
//   - A run that something holds back from its purge may be among the Purges of a snapshot, or
//     not. Purge may leave a run to its next call if its own work has released the run.
//   - A page of a stream may have fewer chunks than exist and were requested if the chunks are
//     large, but it has at least one. Pages of less than 1 MiB are full. AwaitStream may return
//     early, but not every time.
//   - A claim may remove the wake of a route that it has emptied, and a purge may remove the wake
//     of a route that it has left without runs.
//   - A snapshot may have the audit entries in any order.
//
// # What the suite decides where the contract is silent
//
//   - A session is live from OpenSession until its recovery begins, even when its lease has
//     expired: it may renew, claim, own new runs, and reconcile. A claim never recovers the
//     session that makes it.
//   - OpenSession of a live session renews it. For a session that is being recovered it fails
//     with store.ErrExpired. CloseSession of an unknown session succeeds.
//   - The guards of a create are, in this order: the deadline, the run exists, the policies, for a
//     run with an Owner that it could start at once (else store.ErrNotClaimable), and the session.
//     The answer for an existing run has the fence of its owner, whichever session the request
//     names.
//   - The guards of a commit are, in this order: the run exists (else store.ErrFenced), the same
//     commit was applied, the fence, the workflow ID, the position, the consumed items, the unread
//     items, the active run, the new run.
//   - A deadline is checked before everything else. It has not passed at its exact time.
//   - Deliver delivers to the last run of a chain. If that run was deleted or purged, the answer
//     is for the named run. IDs of purged runs find nothing.
//   - Items from an outbox are remembered until Confirm, in whatever way they are accepted later.
//     Sending an item again with or without Keep changes nothing. A deleted run still answers that
//     its chain has accepted an item.
//   - Marking a record with an Unknown receiver leaves fresh records and their times unchanged,
//     and removes a settled record.
//   - Invalid publications fail the whole call and write nothing: see store.CheckPublish. Publish
//     then checks the fence, and then whether a stream is closed. Keep also trims a closed stream.
//     A dropped stream forgets its writers.
//   - A chain has ended with its last run, even after that run was purged. Deleted and purged runs
//     do not name the streams of their chain. The other runs do.
//   - Closing has an effect only if the commit leaves the run owned.
//   - Creating a run that is due earlier than all others wakes its route as parking does.
//   - The cancel item of a start under store.ActiveCancel reaches a closing run.
//   - Wait with a time in the past does not block: it returns the current notifications, and Due.
//   - Times are kept to the millisecond. Due and purge times are rounded up.
//   - A run may be purged at exactly the time of store.PurgeTime.
//   - For a deleted run, only a repeated Create and a repeated Delete get their earlier answers.
//     Its workflow ID forgets it at once, and forgets a purged run likewise. An earlier run of the
//     workflow ID does not become the last run.
package storetest
