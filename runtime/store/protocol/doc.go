// Package protocol contains the rules of every store, once: the guards and the transitions of each
// operation. The stores in memory and in SQLite call it, and so does the model of the random
// histories. The scripts of the store in Redis use the names of its functions. The histories compare
// the stores with the model after every operation.
//
// The package has no clock, no lock, no goroutine and no database. An [Op] carries out an operation
// on a [Tx], which reads and writes and makes no decisions. All guards come before all writes. A
// guard that refuses an operation has written nothing, and creates the error and its text. [Changes]
// contains the notifications for waiting callers. The store itself keeps the order of its ready
// runs and the waiting callers. Package check explores the states that these functions can reach.
//
// # Words
//
//   - commit record: all events of one commit, and one entry of a log. Names and formats call it a
//     frame, because it carries its length. Its commit id is random. A position in a log is the
//     commit id of the last record, never a count.
//   - session: one incarnation of one worker on one partition. It has a lease, which Heartbeat
//     renews. Its id is never used twice.
//   - fence: the right to write to a run. It consists of an epoch, counted per run, and a random
//     token. A worker makes a token for each claim call and for each run that it starts locally.
//   - route: a queue and a workflow. A worker serves a set of routes. The schema of SQLite calls a
//     route a class.
//   - chain: a run and the runs that it continued as. The id of a chain is the id of its first run.
//     The latest run of a chain is the one that has not continued.
//   - queue state: ready, owned, parked, blocked, queued after another run of its workflow id, or
//     ended.
//   - inbox: the items that were sent to a run and that it has not consumed, in order of
//     acceptance. They are its unread items.
//   - outbox record: an effect of one run on another. Its phases are fresh, answered and settled.
//   - CreatedBy: the outbox record that created a run. It is kept until Confirm.
//   - label: the failure group of a run. A run has at most one.
//   - limiter queue (line in names of variables): the ready runs that wait for permits with the same
//     route and uses. Claims examine a queue while it is open. They close it if its first run may
//     not have its permits, and skip it until it is admitted.
//   - fairness key: runs with the same key share the capacity of their route and priority with the
//     other keys. The ready runs with keys of one route and one priority are a flow.
//   - blocker: a session whose code could not replay a run.
//   - horizon: [store.Horizon]. It exceeds the longest delay of a request, and the age of the
//     writes that a failover can lose.
//
// # Transitions
//
// A run becomes ready: its owner, token and due time are removed. It comes last among the ready
// runs of its route and priority, and the wake of the route is set.
//
// A run is parked: it waits for its due time or for an item. A due time that is earlier than all
// others also sets the wake.
//
// A run is blocked: it waits for a session that may try it. All waiting calls for its route are
// notified.
//
// A run is granted: a session owns it under epoch + 1 and a token.
//
// A run ends: its owner, token, due time, inbox, step data and blockers are removed. The next run
// that waits for its workflow id becomes the active run of the id, and ready.
//
// A run continues: it ends, but the new run becomes the active run, takes over the unread items,
// and becomes ready. The runs that wait for the workflow id keep waiting.
//
// # Operations
//
// Create checks, in this order:
//
//   - Are the names valid in every store?
//   - Is the request late?
//   - Does the run exist? Then the answer is the answer of the first attempt, even if the run is
//     hidden. The answer contains the fence while the Owner holds the run.
//   - Does the workflow id have an active run?
//   - How did the last run of the workflow id end?
//   - If there is an Owner: may the run start now, and is the session live?
//
// With an Owner the run is created and granted in one action, with epoch 1. The inbox contains the
// items from the beginning.
//
// A start that shares its run checks whether a run with its id exists, whether the start has joined
// a run, and which run collects the starts of its key. A run collects starts if it was never
// claimed, is not full, and has received no urgent cancel. The start puts its item into the inbox
// of that run, or replaces the first item there. If there is no such run, the start creates one,
// parked. A claim ends the collection by its fence alone: the owner reads from the inbox all items
// accepted before.
//
// Commit checks, in this order:
//
//   - Does the run exist?
//   - Is the record already the last of the log? Then the commit was applied, and nothing more is
//     checked.
//   - Does the fence match? Only an owned run has a fence.
//   - Is the workflow id right?
//   - Does the record continue the last record and the sequence?
//   - Does the inbox hold the consumed items? The commit names the last one.
//   - For park and finish: are there no other unread items? For continue: is no other unread item
//     for this run alone?
//   - For continue: is the run the active run, and is the new run unknown?
//
// Commit writes the record, removes the items, and writes outbox records and publications. It sets
// or clears the label of the run if the commit names one. It closes the rates of the run's limits
// if the commit holds them back. Then it carries out its effect. A run that ends without failing
// loses its label.
//
// Deliver checks, in this order:
//
//   - Is the request late?
//   - Does the run exist? An item for the chain goes to the latest run. If that run is gone, the
//     named run answers.
//   - Has the chain accepted the item? Then it is accepted again.
//   - Is the named run hidden, has the run ended, or is it closing?
//
// The chain remembers an item that its sender may send again until Confirm. The named run remembers
// it as well if it is not the first of the chain.
//
// Mark moves an outbox record through its phases: fresh, answered, settled, removed. If the receiver
// is unknown although there is an earlier record for it, a failover has lost the receiver. The
// record and the answered records before it become fresh, so that the record that created the
// receiver is sent first. If all earlier records are settled, the answer is older than they are. A
// refusal or an unknown receiver that is reported after the deadline of the record is ignored, and
// the record is sent again. A relay reports an unknown receiver once per sender, receiver and
// horizon; otherwise two records could cause each other to be sent forever. The sender is notified
// of a refusal unless the sender has ended or was notified before. Confirm removes the data that a
// settled record has left at the receiver.
//
// Publish appends chunks to streams of an owned run, all or none. A closed stream refuses all chunks
// except those that it contains already. A commit appends nothing to a closed stream and continues.
// If a payload arrives for a hook that the code has closed, the worker records the event
// hook_missed. For a store, such a payload is an item like any other.
//
// Claim recovers runs of dead sessions, makes due runs ready, and makes blocked runs ready that the
// session may try. It then takes the first ready runs: it grants those that the session may try,
// and blocks the others. Recovery changes the fence at once and counts, unless the run is exempt.
// Release changes the fence and counts nothing. ClaimRun grants a run that is ready, parked or
// blocked. Package store defines when a session is dead.
//
// A commit that gives its run back may include a claim in its action. This claim recovers no runs
// and makes no due runs ready. It claims from the runs that the commit has made ready, and only the
// remaining ones are announced. A refused commit claims nothing, and a repeated commit claims
// nothing new.
//
// Purge removes a run if all of these hold:
//
//   - The run was created and has ended at least a horizon ago.
//   - Its retention is over, or it was deleted.
//   - Its CreatedBy is confirmed, and it has no outbox record.
//   - No item is remembered under its id until Confirm.
//   - It is not the first run of a chain with later runs that are kept.
//
// The first run of a chain is removed with the streams and the accepted items of the chain.
//
// # Rules
//
// The tests in package storetest and the comments of this package refer to these names.
//
//	F1  every write to a run names epoch and token
//	F2  every operation that takes a run from its owner changes the fence in the same action
//	F3  a position is the commit id of the last record; a commit id is never used twice
//	F4  a cached state is identified by the commit id of its last record
//	M1  accepted = in the inbox and in seen, in one action
//	M2  seen is checked before "finished"
//	M3  consuming names the item
//	M4  park and finish need an empty inbox; continue takes over the items for the chain
//	C1  create checks first whether the run exists; one active run per workflow id
//	C2  a run and its first items are created together; the items do not wake it
//	W1  heartbeats never create a lease
//	W2  each heartbeat returns the owned runs
//	W3  the same commit sent again is applied once
//	W4  fenced does not mean "not applied"
//	W5  a session is dead only if it was silent for a TTL while others were heard
//	L1  the held and the waiting weights of a limit are counted in the same action
//	L2  a run gets all its permits or none, with its owner, and gives them back with its owner or end
//	L3  the passing of time takes no permit from a run
//	L4  no grant exceeds a limit; a lowered limit takes no permit from a run
//	L5  a queue holds back later ones at the limits where it counts, but a nested one only if it waits
//	    for no other limit
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
//	O2  a record is removed only after it was settled, and its data at the receiver after Confirm
//	P1  nothing is purged that a sender may still send again
//	T1  the label of a run changes with a commit that names one, and with its end and its deletion
//	T2  a failure group counts a run each time that it enters the group
//	T3  a failure group is removed only if it contains no run, and none has entered it for a while
//	T4  a failed run with a rerun leaves its failure group
package protocol
