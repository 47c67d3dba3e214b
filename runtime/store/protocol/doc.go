// Package protocol contains the rules of every store, once: the guards and the transitions of each
// operation. The stores in memory and in SQLite call it, and so does the model of the random
// histories. The scripts of the store in Redis use the names of its functions, and the histories
// compare both after every operation.
//
// It is pure. It has no clock, no lock, no goroutine and no database: an [Op] carries out an
// operation on a [Tx], which reads and writes and decides nothing. All guards come first, then all
// writes; a guard that refuses has written nothing, and creates the error and its text. [Changes]
// contains the notifications for waiting callers. What only the store needs, such as the order of
// its ready runs and the waiting callers, stays in the store. Package check explores the states
// that these functions can reach.
//
// # Words
//
//   - commit record (a frame in names and formats, as logs call an entry that carries its length):
//     all events of one commit, one entry of a log. Its commit id is random, and a position in a
//     log is the commit id of its last record, never a count.
//   - session: one incarnation of one worker on one partition. It has a lease, which Heartbeat
//     renews; its id is never used again.
//   - fence: the right to write to a run. It consists of an epoch, counted per run, and a random
//     token, made by the worker for each claim call, and for each run that it creates as its own.
//   - route: a queue and a workflow. A worker serves a set of routes. The schema of SQLite calls it
//     class.
//   - chain: a run and the runs that it continued as. It has the id of the first, and the latest is
//     the one that has not continued.
//   - queue state: ready, owned, parked, blocked, queued after another run of its workflow id, or
//     ended.
//   - inbox: the items that were sent to a run and that it has not consumed, in order of
//     acceptance. They are its unread items.
//   - outbox record: an effect of one run on another; fresh, answered, then settled.
//   - CreatedBy: the outbox record that created a run, until Confirm.
//   - label: the failure group (trouble in names) of a run; a run has one or none.
//   - limiter queue (line in names): the ready runs that wait for permits with the same route and
//     uses. Claims examine it while it is open. They close it (shut in names) if its first run may
//     not have its permits, and skip it until it is admitted (called in names).
//   - fairness key: runs with the same key share the turns of their route and priority with the
//     other keys. The ready runs with keys of a route and a priority are a flow.
//   - blocker: a session whose code could not replay a run.
//   - horizon: [store.Horizon], longer than any request can be late and than the writes that a
//     failover can lose.
//
// # Transitions
//
// To make a run ready: its queue state becomes ready, owner, token and due time are removed, it
// comes last among the ready runs of its route and priority, and the wake of the route is set. To
// park it: it waits for its due time or for an item; a due time that is earlier than all others
// causes a wake as well. To block it: it waits for a session that may try it, and all waiting calls
// for its route are notified. To grant it: a session owns it under epoch + 1 and a token. To end
// it: owner, token, due time, inbox, step data and blockers are removed, and the next run that
// waits for its workflow id becomes the active one and ready. To continue it means to end it,
// except that the new run becomes the active one, takes over the unread items, and becomes ready.
// The runs that wait for the workflow id keep waiting.
//
// # Operations
//
// Create checks, in this order: may every store keep the names; is the request late; does the run
// exist (then the answer is that of the first attempt, hidden or not, and its fence while its Owner
// still holds it); has the workflow id an active run; how did its last run end; and, with an Owner,
// may the run start now, and is the session live. With an Owner the run is created and granted in
// one action, with epoch 1. Items are in its inbox from the beginning.
//
// A start that shares its run checks: does a run of its id exist; has it joined one; which run
// collects the starts of its key. That is a run which was never claimed, is not full, and has
// received no urgent cancel. The start puts its item into the inbox of that run, or replaces the
// first item there, or creates a collecting run, parked. A claim ends the collection by its fence
// alone: whatever was accepted before is in the inbox that the owner reads.
//
// Commit checks: does the run exist; is the record the last of the log already (then it was
// applied, and nothing more is checked); does the fence match, which only an owned run has; the
// workflow id; does it continue the last record and the sequence; does the inbox hold the items
// that it consumes, by the name of the last; for park and finish, is nothing else unread, for
// continue, is nothing else unread that is for this run alone; for continue, is the run the active
// one, and is the new run unknown. It writes the record, removes the items, writes outbox records
// and publications, sets or clears the label of the run if the commit names one, closes the rates
// of the run's limits if it holds them back, and carries out its effect. A run that ends otherwise
// than by failing loses its label.
//
// Deliver checks: is the request late; does the run exist (an item for the chain goes to the latest
// run; if that is gone the named run answers); has the chain accepted the item (then it is accepted
// again); is the named run hidden; has the run ended; is it closing. The chain remembers until
// Confirm what the sender may send again, and so does the named run if it is not the first.
//
// Mark moves an outbox record through its phases: fresh, answered, settled, gone. If the receiver
// is unknown and there is an earlier record of the pair, that record and the answered ones before
// it become fresh again: a failover has lost the receiver, and the record that created it is sent
// first; if all records before it are settled, the answer is older than they are. A refusal, or
// unknown, that arrives after the deadline of the record is ignored, and the record is sent again.
// A relay reports unknown once per pair and horizon, or the two records would cause each other to
// be sent forever. The sender is notified of a refusal unless it has ended or was notified before.
// Confirm drops what a settled record left with the receiver.
//
// Publish appends chunks to streams of an owned run, all or none: a closed stream refuses all
// chunks except those that it has already. A commit appends nothing to a closed stream and
// continues. A payload for a hook that the code has closed is missed: the worker records that as an
// event (hook_missed); for a store it is an item like any other.
//
// Claim recovers runs of dead sessions, makes due runs ready, makes blocked runs ready that the
// session may try, and takes the first ready ones: it grants those that the session may try, and
// blocks the others. Recovery changes the fence at once and counts, unless the run is exempt.
// Release changes the fence and counts nothing. ClaimRun grants a run that is ready, parked or
// blocked. Package store defines when a session is dead.
//
// A commit that gives its run back may be followed by a claim in its action, which recovers nothing
// and makes no due runs ready: it claims from the runs that the commit has made ready, and only the
// remaining ones are announced. A commit that is refused claims nothing, and one that is sent again
// claims nothing new.
//
// Purge removes a run that ended, and was created, a horizon ago, whose retention is over or that
// was deleted, whose CreatedBy is confirmed, that has no outbox record, under whose id no item is
// remembered until Confirm, and that is not the first of a chain of which later runs are kept. With
// the first run of a chain its streams and its accepted items are removed.
//
// # Rules
//
// The names are those of the tests in package storetest and of the comments here.
//
//	F1  every write to a run names epoch and token
//	F2  every operation that takes a run from its owner changes the fence in the same action
//	F3  a position is the commit id of the last record; a commit id is never used twice
//	F4  a cached state is identified by the commit id of its last record
//	M1  accepted = in the inbox and in seen, in one action
//	M2  seen is checked before "finished"
//	M3  consuming names the item
//	M4  park and finish need an empty inbox; continue takes along what is for the chain
//	C1  create checks first whether the run exists; one active run per workflow id
//	C2  a run and its first items are created together; the items do not wake it
//	W1  heartbeats never create a lease
//	W2  each heartbeat returns the owned runs
//	W3  the same commit sent again is applied once
//	W4  fenced does not mean "not applied"
//	W5  a session is dead only if it was silent for a TTL while others were heard
//	L1  what runs hold of a limit, and what waits for it, is counted in the same action
//	L2  a run gets all its permits or none, with its owner, and gives them back with its owner or end
//	L3  the passing of time takes no permit from a run
//	L4  no grant exceeds a limit; a lowered limit takes no permit from a run
//	L5  a queue holds back later ones at the limits where it counts, but a nested one only if it waits
//	    for nothing else
//	L6  every change that frees capacity admits the queues that fit
//	L7  an admitted queue holds back others for AdmitTime; then it is open, its runs keep their places
//	L8  a run that may have its permits wakes a worker
//	L9  a run waits in one queue; if it is canceled or too heavy it is claimed without permits, to end
//	L12 starts are collected until the claim; a start that has joined a run before joins no other
//	K1  ready is a set; claim takes by queue state
//	K2  make ready, then wake, in one action; one wake per route
//	K3  an operation that sets an earlier due time wakes the route
//	B1  a block names the session that could not replay the run, until that is over
//	B2  no claim gives a run to a session with the fingerprint of a blocker
//	B3  a block notifies all waiting calls for the route
//	O1  effects of one run on another are delivered in order, and take effect once
//	O2  a record is removed only after it was settled, and what it leaves only after Confirm
//	P1  nothing is purged that a sender may still send again
//	T1  the label of a run changes with a commit that names one, and with its end and its deletion
//	T2  a failure group counts a run each time that it enters the group
//	T3  a failure group is removed only if it contains no run, and none has entered it for a while
//	T4  a failed run with a rerun leaves its failure group
package protocol
