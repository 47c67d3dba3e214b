// Package memstore keeps runs in the memory of the process. It is the store of
// tests and of programs that need no run to outlive them: everything is gone
// with the process, and nothing survives Close.
//
// A Store has one or more partitions, each a set of plain maps and lists behind
// one mutex. An operation locks the partition, looks at all guards, writes, and
// unlocks; it does no I/O and never blocks for another reason. An operation that has
// something for a waiting call notifies it through a channel; nothing
// polls, and no goroutine belongs to the store.
//
// # Memory
//
// The store keeps the slices and maps that it is given (frames, bodies of
// items and records, tags) and hands the same ones out again. Neither the caller that gave
// them nor the caller that got them may change them. Only Inspect copies.
//
// A run that is purged leaves nothing behind: its memory, and in time that of the
// maps that knew it, goes back to the process.
//
// Times are kept to the millisecond, like those of events. A due time is rounded
// up, so that nothing is early.
//
// # The Tx
//
// The partition is the Tx of package protocol. It is not the Tx of the model in the random
// histories of storetest: that one is the witness against this one, so they share no verb. Lists,
// heaps and counts are maintained by Save, so that no operation examines all runs.
//
// # Reading order
//
// open.go has the Store, partition.go the state behind one mutex, and run.go
// what "make ready" and "end" mean. Then one file per subject, named as in the
// other stores: create.go, session.go, claim.go, commit.go, outbox.go, load.go,
// wait.go, stream.go, list.go, limit.go, fleet.go, purge.go, inspect.go.
// There is no store.Rebuilder: a store that goes with its process has nothing to
// repair.
package memstore
