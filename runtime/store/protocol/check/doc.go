// Package check explores package protocol with a model checker. The checker visits all states that a
// small number of workers, senders and faults can reach. It calls the functions that the stores use,
// which are called the kernel here. The package has no API; its tests run it.
//
// A state contains a partition in plain values ([partition], with the Tx in tx.go) and the users of
// the partition. A step copies the state and carries out one operation of the kernel. After each
// step three kinds of properties are checked:
//
//   - of the operation: a refusal has written nothing; Changes contains all changes; an epoch never
//     decreases; an operation that takes a run from its owner changes the fence
//   - of the state: the invariants in [runs.check], each with the rule to which it belongs
//   - of progress, after a configuration is explored to its end: the end can be reached from every
//     state without another fault
//
// States are visited breadth first, so a counterexample is a shortest one. It is printed as a list
// of steps. States that differ only in the values of tokens and epochs are equivalent. They are
// given the same values after each step (normal.go).
//
// # The models
//
// The model of runs (runs.go, steps.go, worker.go) has a run R0, which may continue as R1. Another
// client starts R2 with the same workflow id. Two workers claim, load, commit, release and crash. A
// commit starts a step, completes it, takes an item, waits, fires a timer, ends or continues.
// Requests are late, or are carried out although their answer is lost. Leases of slow workers
// expire. A replica stops following and is promoted later. Runs are purged. A configuration
// determines how often each of these events may happen.
//
// The model of the outbox (exchange.go) has two partitions. R0 in the first partition starts R1 in
// the second, and sends it a message. Two relays deliver the records, and may crash or pause between
// two steps. Both partitions may have a failover. A failover loses less than a horizon.
//
// The model of limits (home.go, homesteps.go, homeseize.go, homecheck.go) has one partition, up to
// three runs that use up to three limits, and two workers that claim the runs from their limiter
// queues. Workers crash, pause and lose answers, and requests are late. Runs are canceled in their
// queues, yield, park with and without unused permits, are released, are seized, and continue.
// Limits are changed. A worker sleeps until the wake of a route that it serves, or until the time
// that the store has returned. In a configuration without cover, no worker checks periodically. Time
// passes in ticks. An admitted queue holds back others for one tick, and a rate admits a weight
// every second tick.
//
// The model of starts that share a run (collect.go) has three clients that start with the same key,
// send unanswered requests again, and may be late. A worker claims the runs, and may crash before it
// has moved an inbox into a log. A client cancels a run. It is the only model with times of starts,
// in ticks.
//
// The model of growth (growth.go) has a store whose number of partitions grows twice. Starts with
// one workflow ID, lookups, workers, a limit and a schedule know the number with a delay. Requests
// are late or are carried out although their answer is lost, processes crash, and partitions have
// failovers. The protocol is not built yet, so this model does not call the kernel.
//
// # Not modeled
//
//   - bursts, keys of limits, and limits that refuse starts instead of making them wait
//   - streams and step data
//   - Closing and exemptions
//   - the order of ready runs, and priorities except in limiter queues
//   - the day after which an item of an outside sender is forgotten
//   - release and delete by an operator
//   - rules that the kernel does not implement: heartbeats that create leases (W1), when a session
//     is dead (W5), the reaction of a worker to "fenced" (W4), and the state in its cache (F4)
//
// A commit id is here the id of a log. Two workers that write the same record after the same records
// give it the same id.
//
// # Seeded bugs
//
// The tests contain lists of bugs. The name of each bug begins with the rule that it breaks. A bug is
// a Tx with one wrong method, or an operation that undoes the effect of a guard. The code that the
// stores call has no hook for bugs. The tests must find each bug within their bound.
//
// # What the checker found
//
// A run that became the first of a closed limiter queue opened the queue. Then runs of other routes
// skipped the runs of that queue that had been examined in vain, although these had the earlier
// position. In this case the kernel admits the queue or keeps it closed.
//
// Two sequences led to a refusal that was reported to the sender although the receiver had accepted
// the item, or would have. Both needed a relay that pauses for most of a horizon. In the first, a
// run was purged while its chain remembered an item until Confirm, and the next relay found no
// receiver. In the second, a relay found no receiver, because a failover had lost it. The relay
// marked its record as Unknown after the earlier record, which had created the receiver a second
// time, was settled. The kernel prevents both; two seeded bugs restore them.
//
// A start that waits for the replication of its seal, and then continues, may create a second active
// run: a failover loses the seal, another start creates a run, and a late request sets the seal
// again. The start must visit the home again after the seal was replicated.
//
// # Bounds
//
// The short bound ends each configuration after some thousand states. It suffices to detect a
// changed guard, and is part of every test run. The full bound, make check-protocol, explores all
// configurations to the end: 14 million states, the largest 2.1 million, in two and a half minutes
// and less than 3 GB.
package check
