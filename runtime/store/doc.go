// Package store is the contract between the runtime and the place where runs are kept.
//
// A store keeps one append-only log of frames per run, an inbox of the items that others sent to
// the run, and the right to write to it: a run is ready, owned by one worker session, parked until
// something happens, blocked, queued (after another run of the same workflow id), or ended. Frames
// and inbox items are bytes to a store. It never decodes them, and no operation requires it to
// create one.
//
// # Words
//
//   - A frame is a commit record: all events of one commit, one entry of a log. Its CommitID is
//     random, and a position in a log is the CommitID of its last frame, never a count.
//   - A session is one incarnation of one worker on one partition. It has a lease, which
//     Heartbeat renews; its id is never used again.
//   - A fence is the right to write to a run. It consists of an epoch, counted per run, and a
//     random token, made by the worker for each claim call, and for each run that it creates as
//     its own ([Owner]). Every write to a run names both.
//   - A route is a queue and a workflow. A worker serves a set of routes.
//   - A chain is a run and the runs that it continued as. It has the id of the first, and all
//     but the latest have ended.
//   - The inbox of a run contains the items that were sent to it and that it has not consumed,
//     in order of acceptance.
//   - An outbox record is an effect of one run on another; see [Outbox].
//   - All times are those of the store's [Clock].
//
// # Rules
//
// Each operation is one atomic action on one partition: all guards first, then all writes; a guard
// that fails writes nothing. Package protocol contains them, and a longer glossary. The rules that
// every store keeps are named in the tests of package storetest:
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
// A session is dead, and any Claim recovers it, when its lease has expired and the store has been
// up for a TTL since its last renewal (rule W5). A store that can prove that the process of a
// session has ended need not wait.
//
// An expired lease is not enough: after an outage of the store, a halt of its server or a step of
// its clock all leases have expired, although no session is dead. Nor can the claiming worker
// decide this: it would have to observe a whole TTL itself, and in a fleet whose workers live for
// less than a TTL no worker ever could. So each partition of the store counts the time for which it
// was seen up: each OpenSession and each Heartbeat, of any session, adds the time since the
// previous one, but at most [CountedPause] of the session that sends it. A lease keeps the count at
// its last renewal. The difference to the present count is the time for which the session has been
// silent while others were heard.
//
//   - However long an outage, a halt, or a step of the clock is, it adds one pause. A session that
//     was heard a heartbeat before it and is heard a heartbeat after it has been silent for two
//     heartbeats and one pause, which is less than a TTL of four or more heartbeats. With fewer
//     heartbeats in a TTL a live session may be considered dead, as it may be when one heartbeat is
//     late. Then other sessions recover its runs, and its worker continues with a new session.
//   - If heartbeats are further apart than a counted pause, silence counts more slowly than time
//     passes: with two heartbeats in a TTL, and one other session, half as fast.
//   - A clock that is set back adds nothing, and counting continues from there. An old lease
//     expires when the clock reaches its expiry again.
//   - The silence that short-lived workers observe adds up. Each adds at least the pause before its
//     first request.
//   - A count that was lost, with the lease or alone, begins again. A lease without a count, or
//     with a count above the partition's, is treated as renewed at this moment. So a loss of data
//     delays a recovery by a TTL, and takes no run from a live session.
//   - While no session is heard nothing is counted, and there is no session that could recover
//     another one.
//   - The sessions of a partition should have about the same TTL, because one pause of a session
//     with a long TTL may be the whole silence that another session is allowed.
//
// # Blocked runs
//
// A run is blocked by the session whose code could not replay it, and by every claim that would
// give it to a session with the same code. Until it ends, the run keeps its blockers: the sessions
// that have blocked it, at most one live session per fingerprint. A session with other code
// continues the run, and when it is ready again, the blocker does not load it again. A blocker has
// no effect once its session is over, is being recovered, or is unknown after a loss of data. So
// each build tries a run once while the session that tried it lives, however many workers and
// builds there are, and no run circulates among them. When that session ends, because its worker
// was replaced or was restarted with what was missing, its build tries the run again. A repair of
// the run removes all blockers, because the log may have changed.
//
// The store need not find a session that can continue the run. A block wakes every Wait for its
// route, and each of them claims once, in this partition. A session that did not wait at that
// moment, or that may try a run because another session has ended, finds the run with its next
// claim: a worker claims from each of its partitions at least every five seconds unless it is full.
// ClaimRun names its run, and gives it to any session.
//
// # Runs that no session serves
//
// A run that waits for a worker of its route, while there is none, cannot notice that it must end.
// So sessions name the routes that they serve, and the answers to heartbeats name ready runs of
// other routes (rule U1). A worker of any route can then end those runs that need no code for it:
// it claims them by name, and the fence decides if a worker of their route claims them at the same
// time. The store counts and keeps nothing per run for this: while the session that sends the
// heartbeat serves all routes with ready runs, the answer takes one query of the routes. A parked
// run is not named, because a delivered item or its due time makes it ready. A blocked run is not
// named, because it is left to the workers of its route.
//
// # Ready and ended
//
// To make a run ready always means, in one action: the queue state becomes ready, due time and
// timer are removed, the run enters the ready set of its route, the wake of the route is set if it
// is empty, and waiting workers are notified. To end a run means: the queue state becomes ended;
// owner, token, due time, inbox, and the ready, timer, owned and unread entries are removed; and
// the workflow id passes to the first run that waits for it, which becomes ready, or becomes free.
// To continue a run differs from ending it only in this: the workflow id passes to the new run, and
// the runs that wait for it keep waiting. The log of an ended run and its other data are kept for
// its retention and then purged; see [Purger].
package store
