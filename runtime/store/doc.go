// Package store is the contract between the runtime and the place where runs
// are kept.
//
// A store keeps one append-only log of frames per run, an inbox of the items that others
// sent to the run, and the right to write to it: a run is ready, owned by one worker
// session, parked until something happens, blocked, queued (after another
// run of the same workflow id), or ended. Frames and inbox items are bytes to a
// store. It never decodes them, and no operation needs it to build one.
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
// A session is dead, and any Claim recovers it, when its lease has expired and the store
// has been up for a TTL since it was renewed last (rule W5). A store that can prove that the
// process of a session has ended need not wait.
//
// An expired lease is not enough: after an outage of the store, a halt of its server
// or a step of its clock all leases have expired, though no session is dead. Nor can the
// claiming worker decide that: it would have to have watched for a whole TTL itself, and
// where workers live for less than that none ever would. So the store counts, in each partition, for
// how long it was seen up: with each OpenSession and each Heartbeat, of whatever session,
// by the time since the one before, but by no more than [CountedPause] of the session
// that sends it. A lease keeps the count of its last renewal, and the difference says how
// long the session has been silent while others were heard.
//
//   - However long an outage, a halt, or a step of the clock is, it adds one pause. A
//     session that was heard a heartbeat before and is heard a heartbeat after it has been
//     silent for two heartbeats and one pause, which is less than a TTL of four or more
//     heartbeats. With fewer in a TTL one that lives may be taken for dead, as it may
//     be when one heartbeat is late; then its runs go to others and it goes on with a
//     new session.
//   - Where heartbeats are further apart than a counted pause, silence counts more slowly
//     than time goes by: with two of them in a TTL, and one other session, half as fast.
//   - A clock that is set back adds nothing, and counting goes on from there; the leases
//     are past when it has come there again.
//   - The silence that short-lived workers see adds up, each at least by the pause before it
//     came.
//   - A count that was lost, with the lease or alone, begins again, and a lease that has
//     none, or a later one than the partition, was renewed just now. So a loss of data
//     delays a recovery by a TTL, and takes nothing from a live session.
//   - While nobody is heard nothing is counted, and nobody is there to recover anything.
//   - The sessions of a partition should have about the same TTL: one pause of a session
//     with a long one may be the whole silence that another one is allowed.
//
// # Blocked runs
//
// A run is blocked by the session whose code could not replay it, and by every claim
// that would give it to a session with the same code. It remembers its blockers: the
// sessions that have blocked it, at most one of each fingerprint that lives, until it ends: a session with other code takes it on, and when it is ready again
// the first does not load it again. A blocker means nothing once that session is over, is
// being recovered, or, after a loss of data, is not known. So each build tries a run
// once as long as the session that tried it lives, however many workers and builds there
// are: nothing goes in circles; and a session that ends, because it was replaced, or
// restarted with what was missing, gives its build another try. A repair of the run
// forgets all blockers: the log may be another one.
//
// The store need not find a session that can continue the run. A block wakes every Wait for
// its route, and each of them claims, once, in the one partition. A session that did not
// wait just then, or that may try a run because another one has ended, finds it with its
// next claim; a worker claims from each of its partitions at least every five seconds
// unless it is full. ClaimRun names its run, and gives it to any session.
//
// # Runs that no session serves
//
// A run that waits for a worker of its route, where there is none, cannot see that it must
// end. So sessions name the routes that they serve, and heartbeats name ready runs of other
// routes (rule U1), so that a worker of any route can end those that need no code for it: it claims
// them by name, and the fence decides if their own worker comes just then. Nothing is
// counted or kept for each run: while all routes that have ready runs are served by the
// session that sends the heartbeat, the answer takes one look at the routes. A run that is
// parked is not named; what is delivered to it, or its due time, makes it ready. Neither is one
// that is blocked: that is for its own workers.
//
// # Ready and ended
//
// "Make ready" always means, in one action: the queue state is ready, due time and
// timer are removed, the run is in the ready set of its route, the wake of the
// route is set if it is empty, and waiting workers are told. "End" means: the
// queue state is ended; owner, token, due, inbox, ready, timer, owned and unread
// entries are gone; and the workflow id is handed to the head of its line,
// which is made ready, or is free. Continue differs from end only in this: the
// workflow id goes to the new run, and its line stays. What is left of the run,
// its log and what is known of it, is kept for its retention and then purged; see
// [Purger].
package store
