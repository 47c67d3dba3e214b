// Package worker executes runs: it claims them from a store, runs their code, executes their steps,
// commits the new events, and takes over the runs of workers that died.
//
// A worker has a few executor goroutines and a queue of runs that have posted inputs. At most one
// executor handles a run at a time. A few committers commit new events, each request for many runs;
// each run has at most one commit in flight. Each attempt of a step runs in its own goroutine.
//
// No effect happens before its cause is durable. An attempt starts only after the commit that
// contains its step_started event was confirmed. The context of an attempt is canceled only after
// the commit that contains the reason was confirmed. The code of a run may continue from
// completions that are not committed yet. If they are lost, the code is replayed, and its execution
// has had no effect outside the process. So a sequential step takes one commit: completed(n),
// created(n+1), started(n+1).
//
// The commit that records a message to another run also writes the message to the store's outbox.
// The relay of the committing worker delivers it. If the message becomes overdue, the relay of any
// other worker delivers it.
//
// A [Worker] connects its parts; none of them refers to the Worker. For each partition there is a
// lease, which holds the session, and a relay of the outbox. The claimer fills the table of runs. A
// run loop handles the inputs of one run. The committer and the loader send the requests of a run
// loop to the store, and steps executes its attempts. All parts share env: the store, the clock,
// the logger, the configuration, and the state of the shutdown.
//
// A run loop passes posted inputs to the state of its run, which package runloop defines, and
// performs the actions that the state returns. All decisions about a run are made there. The worker
// performs requests, timers and attempts; see loop.go.
package worker
