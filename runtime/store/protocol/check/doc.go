// Package check explores package protocol: a model checker that walks through all states
// that a small number of workers, senders and faults can reach, and calls the functions by
// which the stores go. It has no API; its tests run it.
//
// A state has a partition in plain values ([partition], with the Tx in tx.go), and those who
// use it. A step copies the state and carries out one operation of the kernel. After each
// step three things are checked:
//
//   - of the operation: a refusal has written nothing; what changed is in Changes; an epoch
//     never falls, and whatever takes a run from its owner changes the fence
//   - of the state: what stands in [runs.check], each with the rule that it belongs to
//   - of progress, once a configuration is explored to its end: from every state the end can
//     be reached without another fault
//
// States are walked breadth first, so that a counterexample is a shortest one. It is printed
// as a list of steps. Tokens and epochs are renamed after each step (normal.go), because
// states that differ only in these names are one.
//
// # The models
//
// The model of runs (runs.go, steps.go, worker.go) has a run R0, which may continue as R1,
// and R2, which somebody else starts with the same workflow id. Two workers claim, load,
// commit, hand over and crash; a commit starts a step, completes it, takes an item, waits,
// lets a timer fire, ends or continues. Requests are late, or carried out although their
// answer is lost; leases of slow workers expire; a replica stops following and is promoted
// later; runs are purged. A configuration says how often each of these may happen.
//
// The model of the outbox (exchange.go) has two partitions. R0 in the first starts R1 in the
// second, and sends it a message. Two relays carry the records, and may crash or stand still
// between two steps. Both partitions may have a failover. A failover loses less than a
// horizon.
//
// The model of limits (home.go, homesteps.go, homecheck.go) has one partition, up to three
// runs that use up to two limits, and two workers that claim them from their lines. Workers
// crash, stall and lose answers, requests are late, runs are canceled in their lines, yield,
// park, are handed over and continue, and limits are changed. A worker sleeps until the wake
// of a route that it serves, or until the time that the store has told it, and a
// configuration without cover lets nobody look now and then. Time passes in ticks: a called
// line keeps its turn for one, and a rate lets a weight begin every second one.
//
// The model of starts that share a run (gather.go) has three clients that start by one key, send
// again what was not answered, and may be late; a worker that claims the runs, and crashes before it has taken
// an inbox into a log; and somebody who asks a run to end. It is the only model with times of starts, in ticks.
//
// # Not modelled
//
// Bursts, and keys of limits; limits that refuse instead of letting wait. Streams and step
// data; Closing and exemptions; the order of ready runs, and priorities but in lines; the
// day after which an item of an outside sender is forgotten; release and delete by hand.
// Heartbeats that make leases (W1), when a session is dead (W5), what a worker does with
// "fenced" (W4) and with a state in its cache (F4) are not decided by the kernel. A commit
// id is here that of a log: a worker that writes the same record after the same records
// again, as another has, gives it the same id.
//
// # Seeded bugs
//
// The tests list bugs by the name of the rule that each breaks. A bug is a Tx that lies to the
// kernel for one verb, or an operation that restores what a guard prevents: the code that
// stores call has no hook. Each must be found within the bound of the tests.
//
// # What the checker found
//
// A run that came to the front of a shut line opened it: then runs of other routes passed
// those of that line that had been asked for in vain, although their turn was earlier. The
// line is called now, or stays shut.
//
// Two ways led to a refusal that was told to the sender although the receiver had, or would
// have, what was sent: both needed a relay that stands still for most of a horizon. A run
// was purged while its chain remembered an item until Confirm, and the next relay found no
// receiver. And a relay found no receiver, because a failover had lost it, and marked the
// record as Unknown after the earlier record was settled, which had created the receiver
// again. The kernel excludes both; the seeded bugs restore them.
//
// # Bounds
//
// The short bound ends each configuration after some thousand states, enough for a changed
// guard to show, and is part of every test run. The full one, make check-protocol, explores
// all of them to the end: 12 million states, the largest 2.1 million, in two and a half
// minutes and less than 3 GB.
package check
