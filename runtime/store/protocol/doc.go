// Package protocol holds the rules of every store, once: the guards and the transitions
// of each operation. The stores in memory and in SQLite call it, and so does the model of
// the random histories. The scripts of the store in Redis carry the names of its
// functions, and the histories compare both after every operation.
//
// It is pure. It has no clock, no lock, no goroutine and no database: an [Op] carries out
// an operation on a [Tx], which reads and writes and decides nothing. All guards come
// first, then all writes; a guard that refuses has written nothing, and makes the error
// and its text. [Changes] says what changed for those who wait. What a store keeps for
// itself, the order of its ready runs and who waits for what, stays in the store. Package
// check walks through the states that these functions can reach.
//
// # Words
//
//   - commit record (a frame in names and formats, as logs call an entry that carries its
//     length): all events of one commit, one entry of a log. Its commit id is random, and a position in a log is the commit id of its
//     last record, never a count.
//   - session: one incarnation of one worker process on one partition. It has a lease, which
//     Heartbeat renews; its id is never used again.
//   - token and epoch: a worker makes a token for each claim, a run counts its epochs. Both
//     together are the fence.
//   - route: queue and workflow. A worker serves a set of routes. The schema of SQLite says class.
//   - chain: a run and those that it continued as. The latest run of a chain is the one
//     that has not continued.
//   - queue state: ready, owned, parked, blocked, queued after another run of its workflow
//     id, or ended.
//   - inbox and unread items: what others sent to a run, and it has not consumed.
//   - outbox record: what one run does to another; fresh, answered, then settled.
//   - CreatedBy: the outbox record that created a run, until Confirm.
//   - label: the group of trouble that a run is in; a run has one or none.
//   - blocker: a session whose code could not replay a run.
//   - horizon: [store.Horizon], longer than any request can be late and than the writes
//     that a failover can lose.
//
// # Transitions
//
// To make a run ready: its queue state is ready, owner, token and due time are removed, it
// comes last among the ready runs of its route and priority, and the wake of the route is
// set. To park it: it waits for its due time or for an item; an earlier due time than all
// others wakes, too. To block it: it waits for a session that may try it, and all who wait
// for its route are told. To grant it: a session owns it under epoch + 1 and a token. To
// end it: owner, token, due time, inbox, step data and blockers are gone, and the next run
// in line becomes the active one of the workflow id and ready. To continue it means to end
// it, except that the new run becomes the active one, takes over the unread items, and is
// made ready. The line stays.
//
// # Operations
//
// Create asks, in this order: may every store keep the names; is the request late; does
// the run exist (then the answer is that of the first try, hidden or not, and its fence
// while its Owner still holds it); has the workflow id an active run; how did its last run
// end; and, with an Owner, may the run start now, and is the session live. With an Owner
// the run is created and granted in one action, with epoch 1. Items are in its inbox from
// the beginning.
//
// A start that shares its run asks: does a run of its id exist; has it joined one; which run
// gathers the starts of its key, which is one that nobody has claimed yet, that is not full, and
// that nobody has asked to end by an urgent item. It puts its item into the inbox of that, or in the place
// of the first item there, or creates a run that gathers, parked. A claim ends that by its
// fence alone: whatever was accepted before is in the inbox that the owner reads.
//
// Commit asks: does the run exist; is the record the last of the log already (then it was
// applied, and nothing more is asked); does the fence fit, which only an owned run has;
// the workflow id; does it continue the last record and the sequence; does the inbox hold
// the items that it consumes, by the name of the last; for park and finish, is nothing
// else unread, for continue, is nothing else unread that is for this run alone; for
// continue, is the run the active one, and is the new run unknown. It writes the record,
// removes the items, writes outbox records and publications, sets or clears the label of the
// run if it says so, closes the rates of the limits that the run uses if it holds them back,
// and carries out its effect. A run that ends in another way than by failing loses its label.
//
// Deliver asks: is the request late; does the run exist (an item for the chain goes to the
// latest run; if that is gone the run named answers); has the chain accepted the item
// (then it is accepted again); is the run named hidden; has the run ended; is it closing.
// What the sender may send again is remembered until Confirm by the chain, and by the run
// named if that is not the first.
//
// Mark moves an outbox record on: fresh, answered, settled, gone. If the receiver is
// unknown and there is an earlier record of the pair, that record and the answered ones
// before it become fresh again: a failover has lost the receiver, and what created it goes
// first; if all before it are settled, the answer is older than they are. A refusal, or
// unknown, that arrives past the deadline of the record is ignored, and the record sent again. A relay says so
// once per pair and horizon, or the two would take turns for ever. A
// refusal is told to the sender unless that has ended or knows. Confirm forgets what a
// settled record left with the receiver.
//
// Publish appends chunks to streams of an owned run, all or none: a closed stream refuses,
// but for chunks that it has. A commit appends nothing to a closed stream and goes on. A
// hook that nobody waits for any more is missed: the worker records it as an event
// (hook_missed); to a store it is an item like any other.
//
// Claim recovers runs of dead sessions, makes due runs ready, makes blocked runs ready that
// the session may try, and takes the first ready ones: it grants those that the session may
// try, and blocks the others. Recovery changes the fence at once and counts, unless the run
// is exempt. Release changes the fence and counts nothing. ClaimRun grants a run that is
// ready, parked or blocked. When a session is dead is said in package store.
//
// A commit that gives its run back may be followed by a claim in its action, without
// recoveries and what is due: of what it has made ready, which is announced only as far as it
// is left. A commit that is refused claims nothing, and one that is sent again nothing new.
//
// Purge removes a run that ended, and was created, a horizon ago, whose retention is over
// or that was deleted, whose CreatedBy is confirmed, that has no outbox record, under whose
// id no item is remembered until Confirm, and that is not the first of a chain of which
// later runs are kept. With the first run of a chain go its streams and what it has
// accepted.
//
// # Rules
//
// The names are those of the tests in package storetest and of the comments here.
//
//	F1  every write to a run names epoch and token
//	F2  whatever takes a run from its owner changes the fence in that action
//	F3  a position is the commit id of the last record; a commit id is never used twice
//	F4  so is a cached state
//	M1  accepted = in the inbox and in seen, in one action
//	M2  seen is asked before "finished"
//	M3  consuming names the item
//	M4  park and finish need an empty inbox; continue takes along what is for the chain
//	C1  create asks "do I exist" first; one active run per workflow id
//	C2  a run has the items that it is created with from the beginning
//	W1  heartbeats never create a lease
//	W2  each heartbeat tells the owned runs
//	W3  the same commit sent again is applied once
//	W4  fenced does not mean "not applied"
//	W5  only a session that was silent for a TTL while others were heard is dead
//	L12 starts gather until the claim; a start is first asked whether it was here
//	K1  ready is a set; claim takes by queue state
//	K2  make ready, then wake, in one action; one wake per route
//	K3  an earlier due time wakes
//	B1  a block names the session that could not replay the run, until that is over
//	B2  no claim gives a run to a session with the fingerprint of a blocker
//	B3  a block tells all who wait for the route
//	O1  what one run does to another is delivered in order, and comes into effect once
//	O2  a record goes only after it was settled, what it leaves only after Confirm
//	P1  nothing is purged that someone may still send again
package protocol
