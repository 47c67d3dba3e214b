// Package worker executes runs: it claims them from a store, runs their code,
// executes their steps, commits the new events, and takes over the runs of
// workers that died.
//
// A worker is a few executor goroutines and a queue of runs that have something
// to do. A run is with one executor at a time. The new events of an execution are
// committed by a few committers, many runs at once; one commit of a run is in
// flight at a time. Steps run outside, each attempt in a goroutine of its own.
//
// No effect before its cause is durable: an attempt starts only after the commit
// that holds its step_started was confirmed, and its context is canceled only
// after the commit that holds the reason. The code of the run may run ahead on
// completions that are not committed yet, because losing them loses nothing.
// Together that makes one commit of each sequential step: completed(n),
// created(n+1), started(n+1).
//
// The messages of a run to other runs are written into the store's outbox by the commit
// that records them, and delivered by a relay: that of the worker which has committed, or of any other
// once they are overdue.
//
// A [Worker] wires its parts, and none of them knows it. Of each partition there are a
// lease, which holds the session, and a relay of its outbox. The claimer fills the table of
// runs; a run loop does the work on one of them, in answer to inputs; the committer and
// the loader carry its requests to the store, and steps execute its attempts. All share
// env: the store, the clock, the log, the configuration, and how far the worker is with
// its end.
//
// A run loop is a state machine with parts of its own, none of which knows it. The execution
// is the run in memory; the tenure is the claim under which it is worked on, and logEnd how
// far its log is durable. The inbox takes what others have sent, stepping begins attempts and
// records what comes of them, and the draft makes the next commit of what has happened. What
// a part cannot decide it returns; the loop changes its state.
//
// handle.go has the reaction of a run loop to each input, in the order in which it looks
// for work; oncommit.go that to the answer of a commit.
package worker
