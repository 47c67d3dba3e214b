// Package worker executes runs: it claims them from a store, runs their code,
// executes their steps, commits what happened, and takes over the runs of
// workers that died.
//
// A worker is a few executor goroutines and a queue of runs that have something
// to do. A run is with one executor at a time. What an execution brings forth is
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
// What a run does to other runs is written into the store's outbox by the commit
// that records it, and carried over by a relay; any worker's will do.
//
// Reading order: [Worker.Run], task.go for the life of a run on a worker,
// advance.go for what happens between two commits, commit.go for what follows
// from one, birth.go for runs that begin here with their creation and follow.go for
// who waits for their end, relay.go for what goes to other runs. tell.go and publish.go have what
// commits let others read, pen.go what running steps write to streams, and token.go
// hooks with tokens of the user's own, unserved.go ends runs of other classes that nobody serves.
// testhooks.go is for the test kit.
package worker
