// Package store defines the interface between the runtime and the database that keeps runs.
//
// A store keeps an append-only log of frames for each run, an inbox with the items that were sent
// to the run, and the right to write to the run. A run is ready, owned by one worker session,
// parked until an event occurs, blocked, queued after another run of the same workflow ID, or
// ended. Frames and inbox items are bytes for a store. A store never decodes them, and no operation
// requires it to create one.
//
// # Words
//
//   - A frame is a commit record. It contains all events of one commit and is one entry of a log.
//     Its CommitID is random, and a position in a log is the CommitID of its last frame, never a
//     count.
//   - A session is one incarnation of one worker on one partition. It has a lease, which Heartbeat
//     renews. Its ID is never used again.
//   - A fence is the right to write to a run. It consists of an epoch, which is counted per run,
//     and a random token. The worker generates the token for each claim, and for each run that it
//     creates as its owner ([Owner]). Every write to a run names both.
//   - A route is a queue and a workflow. A worker serves a set of routes.
//   - A chain is a run and the runs that have continued it. Its ID is the ID of its first run. All
//     its runs except the last one have ended.
//   - The inbox of a run contains the items that the run has accepted and not consumed, in order of
//     acceptance.
//   - An outbox record is an effect of one run on another; see [Outbox].
//   - All times are times of the [Clock] of the store.
//
// # Rules
//
// Each operation is one atomic action on one partition. It checks all guards before it writes
// anything, so a guard that fails writes nothing. Package protocol contains the operations and a
// longer glossary. The tests of package storetest use the names of these rules:
//
//	F1  every write to a run names epoch and token
//	F2  every operation that takes a run from its owner changes the fence in the same action
//	F3  a position is the CommitID of the last frame; a CommitID is never used twice
//	F4  a cached state is identified by the CommitID of its last frame
//	M1  accepted = in the inbox and in seen, in one action
//	M2  seen is checked before "finished"
//	M3  consuming names the item
//	M4  park and finish need an empty inbox; continue moves the items for the chain
//	C1  create checks first whether the run exists; one active run per workflow id
//	C2  a run and its first items are created together; the items do not wake it
//	W1  heartbeats never create a lease
//	W2  each heartbeat returns the owned runs
//	W3  the same commit sent again is applied once
//	W4  fenced does not mean "not applied"
//	W5  a session is dead only if it was silent for a TTL while others were heard
//	K1  ready is a set; claim takes by queue state
//	K2  make ready, then wake, in one action; one wake per route
//	K3  an operation that sets an earlier due time wakes the route
//	B1  a block names the session that could not replay the run, until that is over
//	B2  no claim gives a run to a session with the fingerprint of a blocker
//	B3  a block notifies every Wait for the route
//	U1  heartbeats name, in turns, ready runs that no session with a lasting lease serves
//	O1  effects of one run on another are delivered in order, and take effect once
//	O2  a record is removed only after it was settled, and what it leaves only after Confirm
//	P1  nothing is purged that a sender may still send again
//	T1  the label of a run changes with a commit that names one, and with its end and its deletion
//	T2  a failure group counts a run each time that it enters the group
//	T3  a failure group is removed only if it contains no run, and none has entered it for a while
//
// # Dead sessions
//
// A session is dead, and any Claim recovers it, if its lease has expired and the store has been up
// for a TTL since the last renewal (rule W5). A store that can prove that the process of a session
// has ended recovers the session at once.
//
// An expired lease is not sufficient. After an outage of the store, a halt of its server or a step
// of its clock, all leases have expired although no session is dead. The claiming worker cannot
// decide this alone, because it would have to observe a whole TTL. In a fleet whose workers run for
// less than a TTL, no worker could do that. Therefore each partition counts the time for which it
// was up. Each OpenSession and each Heartbeat of any session adds the time since the previous such
// call, but at most the [CountedPause] of the session that makes the call. A lease contains the
// count at its last renewal. The difference to the current count is the time for which the session
// has sent no heartbeat while other sessions did.
//
//   - An outage, a halt or a step of the clock adds one counted pause, however long it is. If a
//     session sends its last heartbeat up to one interval before the outage and its next one up to
//     one interval after it, it was silent for at most two intervals and one counted pause. This is
//     less than a TTL of four or more intervals. With fewer intervals in a TTL, a live session may
//     be considered dead, as it may be if one heartbeat is late. Other sessions then recover its
//     runs, and its worker continues with a new session.
//   - If the interval between heartbeats exceeds a counted pause, the count is slower than time.
//     With two heartbeats in a TTL and one other session, it is half as fast.
//   - If the clock is set back, nothing is added, and the count continues from the new time. An old
//     lease expires when the clock reaches its expiry a second time.
//   - Workers that run for less than a TTL contribute to the count together. Each adds at least the
//     pause before its first request.
//   - If a count is lost, it begins at 0. A lease without a count, or with a count above the count
//     of the partition, is treated as if it were renewed at this moment. Therefore a loss of data
//     delays a recovery by a TTL, and takes no run from a live session.
//   - While no session sends heartbeats, nothing is counted, and no session could recover another
//     session.
//   - The sessions of a partition should have about the same TTL. Otherwise one counted pause of a
//     session with a long TTL may be as long as the TTL of another session.
//
// # Blocked runs
//
// A run is blocked by a session whose code cannot replay it, and by every claim that would assign
// it to a session with the same code. The run keeps its blockers until it ends. The blockers are
// the sessions that have blocked the run, at most one live session per fingerprint. If a session
// with other code continues the run and the run becomes ready later, the blocker does not load it a
// second time. A blocker has no effect if its session has ended, is being recovered, or is unknown
// after a loss of data. Therefore each build tries a run once while the session that tried it is
// alive, however many workers and builds there are. When that session has ended, for example
// because its worker was replaced or restarted, its build tries the run again. A repair of the run
// removes all blockers, because the log may have changed.
//
// The store does not search for a session that can continue the run. A block wakes every Wait for
// its route, and each of these sessions claims once in this partition. A session that did not wait
// at that moment, or that may try a run because another session has ended, gets the run by its next
// claim. A worker claims from each of its partitions at least every five seconds unless it has no
// free capacity. ClaimRun claims a given run for any session.
//
// # Runs that no session serves
//
// A ready run cannot reach its time limit or process a cancellation if no worker serves its route.
// Therefore sessions name the routes that they serve, and the answers to heartbeats name ready runs
// of other routes (rule U1). A worker of any route can then end these runs if that requires no
// code. It claims them by ID, and the fence decides if a worker of their route claims them at the
// same time. The store keeps no data per run for this purpose. If the session that sends the
// heartbeat serves all routes with ready runs, the answer requires one query of the routes. A
// parked run is not named, because a delivered item or its due time makes it ready. A blocked run
// is not named, because the workers of its route decide about it.
//
// # Ready and ended
//
// An operation makes a run ready by one action with several parts. The queue state becomes ready,
// the due time and the timer are removed, and the run enters the ready set of its route. The wake
// of the route is set if it was not set before, and waiting workers are notified. An operation ends
// a run by one action as well. The queue state becomes ended, and the owner, the token, the due
// time, the inbox, and the ready, timer, owned and unread entries are removed. The first run that
// is queued for the workflow ID becomes active and ready; if there is none, the workflow ID becomes
// free. If a run continues, the new run becomes the active run of the workflow ID instead, and the
// queued runs keep waiting. The log and the other data of an ended run are kept for its retention
// and then purged: see [Purger].
package store
