// Package check explores package protocol: a model checker that visits all states that a small
// number of workers, senders and faults can reach, and calls the functions that the stores use. It
// has no API; its tests run it.
//
// A state has a partition in plain values ([partition], with the Tx in tx.go), and the users of
// that partition. A step copies the state and carries out one operation of the kernel. After each
// step three kinds of properties are checked:
//
//   - of the operation: a refusal has written nothing; what changed is in Changes; an epoch never
//     decreases, and whatever takes a run from its owner changes the fence
//   - of the state: the invariants in [runs.check], each with the rule that it belongs to
//   - of progress, once a configuration is explored to its end: from every state the end can be
//     reached without another fault
//
// States are visited breadth first, so that a counterexample is a shortest one. It is printed as a
// list of steps. Tokens and epochs are renamed after each step (normal.go), because states that
// differ only in these names are equivalent.
//
// # The models
//
// The model of runs (runs.go, steps.go, worker.go) has a run R0, which may continue as R1, and R2,
// which another client starts with the same workflow id. Two workers claim, load, commit, release
// and crash; a commit starts a step, completes it, takes an item, waits, fires a timer, ends or
// continues. Requests are late, or carried out although their answer is lost; leases of slow
// workers expire; a replica stops following and is promoted later; runs are purged. A configuration
// determines how often each of these may happen.
//
// The model of the outbox (exchange.go) has two partitions. R0 in the first starts R1 in the
// second, and sends it a message. Two relays carry the records, and may crash or pause between two
// steps. Both partitions may have a failover. A failover loses less than a horizon.
//
// The model of limits (home.go, homesteps.go, homeseize.go, homecheck.go) has one partition, up to
// three runs that use up to three limits, and two workers that claim them from their limiter
// queues. Workers crash, pause and lose answers, requests are late, runs are canceled in their
// queues, yield, park, with and without unused permits, are released, seized and continue, and
// limits are changed. A worker sleeps until the wake of a route that it serves, or until the time
// that the store has returned, and in a configuration without cover no worker checks periodically.
// Time passes in ticks: an admitted queue holds back others for one, and a rate admits a weight
// every second one.
//
// The model of starts that share a run (collect.go) has three clients that start by one key, send
// unanswered requests again, and may be late; a worker that claims the runs, and crashes before it
// has moved an inbox into a log; and a client that cancels a run. It is the only model with times
// of starts, in ticks.
//
// # Not modeled
//
// Bursts, and keys of limits; limits that refuse starts instead of making them wait. Streams and
// step data; Closing and exemptions; the order of ready runs, and priorities except in limiter
// queues; the day after which an item of an outside sender is forgotten; release and delete by an
// operator. The kernel does not decide about heartbeats that make leases (W1), when a session is
// dead (W5), and what a worker does with "fenced" (W4) and with a state in its cache (F4). A commit
// id is here the id of a log: a worker that writes the same record after the same records as
// another gives it the same id.
//
// # Seeded bugs
//
// The tests list bugs by the name of the rule that each breaks. A bug is a Tx with one wrong
// method, or an operation that restores what a guard prevents: the code that stores call has no
// hook. Each must be found within the bound of the tests.
//
// # What the checker found
//
// A run that came to the front of a closed limiter queue opened it: then runs of other routes
// skipped the runs of that queue that had been examined in vain, although these had the earlier
// position. In this case the queue is admitted, or stays closed.
//
// Two ways led to a refusal that was reported to the sender although the receiver had, or would
// have, what was sent: both needed a relay that pauses for most of a horizon. A run was purged
// while its chain remembered an item until Confirm, and the next relay found no receiver. And a
// relay found no receiver, because a failover had lost it, and marked the record as Unknown after
// the earlier record, which had created the receiver again, was settled. The kernel excludes both;
// the seeded bugs restore them.
//
// # Bounds
//
// The short bound ends each configuration after some thousand states, enough to detect a changed
// guard, and is part of every test run. The full one, make check-protocol, explores all of them to
// the end: 12 million states, the largest 2.1 million, in two and a half minutes and less than 3
// GB.
package check
