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
// Each subtest is one behaviour, named as a sentence; those that begin with a
// letter and a number are the rules listed in package store. After every
// subtest package fsck looks at the whole store. The last subtest plays random
// histories (late and repeated requests, several workers, dead sessions) against
// the store and against a model of plain maps, and compares every answer and,
// after every operation, the whole state.
//
// A store under test must implement store.Inspector and store.Purger. Where it implements
// store.Lister, store.Auditor or store.Noter, they are tested, too.
//
// # What the suite leaves open
//
//   - Runs that become ready in one action may do so in any order, except that
//     due runs do in the order of their due times.
//   - A claim of several classes may serve them in any order; within a class the
//     order is by priority, then by how long a run has been ready.
//   - One call recovers at least 100 runs, makes at least 100 due runs ready, and
//     purges at least 100 short ones. Runs whose retention ends at one time may be
//     purged in any order.
//   - A claim may take back the wake of a class that it has emptied, and a purge
//     that of a class that it has left without runs.
//
// # What it decides where the contract has no word
//
//   - A session is live from OpenSession until somebody begins to recover it,
//     also when its lease is past: it may renew, claim, and reconcile. A claim
//     never recovers the session that makes it.
//   - OpenSession of a live session renews it; of one that is being recovered it
//     fails with store.ErrExpired. CloseSession of an unknown one succeeds.
//   - The guards of a commit are, in this order: the run exists (else
//     store.ErrFenced), the same commit was applied, the fence, the workflow id,
//     the position, the consumed items, the mail.
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
