// Package storetest is the conformance suite of stores. A store that passes the suite keeps the
// parts of the contract of package store on which the runtime relies:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Config{
//			Open: func(t testing.TB, clock store.Clock) store.Store {
//				return mystore.New(mystore.Config{Clock: clock})
//			},
//		})
//	}
//
// The author of a store can begin with Example (Skeleton). docs/internals/stores.md describes the
// way from the skeleton to a store that passes the suite.
//
// Each subtest tests one behaviour and is named as a sentence. Names that begin with a letter and a
// number refer to the rules listed in package store. The packages below behavior contain the
// behaviours by subject. Package suite contains the harness that these packages share. The last
// subtest, from package history, executes random histories on the store and on a model of plain
// maps. The histories contain late and repeated requests, several workers and dead sessions. The
// subtest compares every answer and, after every operation, the answers for all runs, inboxes,
// workflow IDs and owners.
//
// If the store implements store.Inspector, which shows its whole state, the histories compare the
// state instead, and package fsck checks the state after every subtest. For other stores, the suite
// skips behaviours about state that no answer shows, such as timers, wakes and remembered items. In
// histories, starts and kept items need no outbox records, so the suite does not check invariant 14
// of fsck there.
//
// A store under test must implement store.Purger. If it implements store.Lister, store.Auditor or
// store.StepDataStore, the suite tests them as well.
//
// # What the suite leaves open
//
//   - Runs that become ready in one action may do so in any order. Due runs become ready in the
//     order of their due times.
//   - A claim of several routes may serve the routes in any order. Within a route, runs are claimed
//     by priority, and within a priority by how long they have been ready.
//   - One call recovers at least 100 runs, makes at least 100 due runs ready, and purges at least
//     100 short runs. Runs whose retention ends at the same time may be purged in any order.
//   - An outbox may return fewer records than are due, and may choose the records, if it keeps the
//     order of the records between two runs. It returns at least one record. If the limit is much
//     greater than the number of due records, it returns all of them. A due time in an answer of
//     Outbox or Heartbeat may be too early because of the order of records, but an answer of Outbox
//     does not contain a time in the past for this reason.
//   - A snapshot may list among its Purges a run whose purge is held back, or omit the run. If the
//     work of a Purge releases a run, Purge may leave the run to its next call.
//   - A page of a stream may have fewer chunks than exist and were requested if the chunks are
//     large, but it has at least one. Pages of less than 1 MiB are full. AwaitStream may return
//     early, but not every time.
//   - A claim may remove the wake of a route if it has claimed the last ready run of the route. A
//     purge may remove the wake of a route if it has purged the last run of the route.
//   - A snapshot may have the audit entries in any order.
//
// # What the suite decides where the contract is silent
//
//   - A session is live from OpenSession until its recovery begins, even after its lease has
//     expired. Until then it may renew its lease, claim, own new runs and reconcile. A claim never
//     recovers the session that claims.
//   - OpenSession of a live session renews the session. For a session that is being recovered it
//     fails with store.ErrExpired. CloseSession of an unknown session succeeds.
//   - A create checks, in this order: the deadline, whether the run exists, the policies, whether a
//     run with an Owner could start at once (else store.ErrNotClaimable), and the session. The
//     answer for an existing run has the fence of its owner, whichever session the request names.
//   - A commit checks, in this order: whether the run exists (else store.ErrFenced), whether the
//     same commit was applied, the fence, the workflow ID, the position, the consumed items, the
//     unread items, the active run and the new run.
//   - A deadline is checked before everything else. It has not passed at its exact time.
//   - Deliver delivers to the last run of a chain. If the last run was deleted or purged, the
//     answer is about the run in the request. IDs of purged runs find nothing.
//   - The receiver remembers an item from an outbox until Confirm, even if the item is accepted
//     later in another way. Sending an item again with or without Keep changes nothing. A deleted
//     run still reports that its chain has accepted an item.
//   - Marking a record with an Unknown receiver leaves fresh records and their times unchanged,
//     and removes a settled record.
//   - Invalid publications fail the whole call, which then writes nothing: see store.CheckPublish.
//     Publish then checks the fence, and after it whether a stream is closed. Keep also trims a
//     closed stream. Dropping a stream removes the record of its writers.
//   - A chain has ended when its last run has ended, even if that run was purged. The streams of a
//     chain cannot be read through deleted or purged runs, but through all other runs of the chain.
//   - Closing has an effect only if the commit leaves the run owned.
//   - Creating a run that is due earlier than all other runs wakes its route, as parking does.
//   - The cancel item of a start under store.ActiveCancel reaches a closing run.
//   - Wait with a time in the past does not block: it returns the current notifications, and Due.
//   - Times are kept to the millisecond. Due and purge times are rounded up.
//   - A run may be purged at exactly the time of store.PurgeTime.
//   - For a deleted run, only a repeated Create and a repeated Delete get their earlier answers.
//     The workflow ID of a deleted or purged run does not refer to the run. An earlier run of the
//     workflow ID does not become the last run.
package storetest
