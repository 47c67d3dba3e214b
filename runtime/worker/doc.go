// Package worker executes runs: it claims them from a store, runs their code, executes their steps,
// commits the new events, and takes over the runs of workers that died.
//
// A worker consists of a few executor goroutines and a queue of runs that have something to do. At
// most one executor handles a run at a time. A few committers commit the new events, many runs at
// once; each run has at most one commit in flight. Each attempt of a step runs in its own
// goroutine.
//
// No effect happens before its cause is durable: an attempt starts only after the commit that holds
// its step_started was confirmed, and its context is canceled only after the commit that holds the
// reason. The code of the run may run ahead on completions that are not committed yet, because a
// loss of them has no consequences. So a sequential step takes one commit: completed(n),
// created(n+1), started(n+1).
//
// The commit that records a message to another run also writes it to the store's outbox. A relay
// delivers it: the relay of the committing worker, or of any other worker once the message is
// overdue.
//
// A [Worker] connects its parts; none of them refers to it. For each partition there are a lease,
// which holds the session, and a relay of the outbox. The claimer fills the table of runs. A run
// loop works on one run, in response to inputs. The committer and the loader send its requests to
// the store, and steps executes its attempts. All share env: the store, the clock, the logger, the
// configuration, and the state of the shutdown.
//
// A run loop is a state machine with parts of its own, none of which refers to it. The execution is
// the run in memory. The tenure is the claim under which the worker works on it. logEnd records how
// far its log is durable. The inbox takes in what others have sent, stepping begins attempts and
// records their outcomes, and the draft builds the next commit from what has happened. A part
// returns what it cannot decide itself, and the loop changes its state.
//
// handle.go contains the reaction of a run loop to each input, in the order in which the loop
// searches for work, and to the answer of a commit.
package worker
