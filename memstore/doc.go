// Package memstore stores runs in the memory of the process. It is for tests, and for programs
// whose runs need not survive the process: all data are lost at the end of the process and after
// Close.
//
// A Store has one or more partitions. Each consists of maps and lists, and is protected by a mutex.
// An operation locks the partition, checks all guards, writes, and unlocks. It does no I/O and does
// not block otherwise. An operation that concerns a waiting call notifies the call through a
// channel. The store does not poll and has no goroutines.
//
// # Memory
//
// The store keeps the slices and maps that it receives (frames, bodies of items and records, tags)
// and returns the same ones. Callers must not change them, neither those that they have passed nor
// those that they have received. Only Inspect copies.
//
// Purging a run frees its memory, and later the memory of the maps that contained it.
//
// Times have millisecond precision, like those of events. A due time is rounded up, so nothing is
// due too early.
//
// # The Tx
//
// The partition is the Tx of package protocol. The random histories of storetest compare the store
// with a model, which has a Tx of its own. The two share no code, so that an error in one is
// detected by the other. Save maintains lists, heaps and counts, so that no operation needs to
// examine all runs.
//
// # Reading order
//
// open.go contains the Store, partition.go the state protected by a mutex, and run.go the state of
// a run. Each other file has one subject, with the same name as in the other stores: create.go,
// session.go, claim.go, commit.go, outbox.go, load.go, wait.go, stream.go, list.go, limit.go,
// fleet.go, purge.go, inspect.go. The store does not implement store.Rebuilder, because its data do
// not survive a crash that would require a repair.
package memstore
