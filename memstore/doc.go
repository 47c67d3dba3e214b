// Package memstore stores runs in the memory of the process. It is for tests, and for programs
// whose runs need not outlive the process: all data are lost at the end of the process and after
// Close.
//
// A Store has one or more partitions, each a set of maps and lists protected by a mutex. An
// operation locks the partition, checks all guards, writes, and unlocks; it does no I/O and does
// not block otherwise. An operation that concerns a waiting call notifies it through a channel;
// there is no polling, and the store has no goroutines.
//
// # Memory
//
// The store keeps the slices and maps that it is given (frames, bodies of items and records, tags)
// and returns the same ones. Neither the caller that passed them nor the caller that received them
// may change them. Only Inspect copies.
//
// Purging a run frees its memory, and in time the memory of the maps that contained it.
//
// Times have millisecond precision, like those of events. A due time is rounded up, so that nothing
// happens early.
//
// # The Tx
//
// The partition is the Tx of package protocol. It is not the Tx of the model in the random
// histories of storetest: that one is the witness against this one, so they share no verb. Lists,
// heaps and counts are maintained by Save, so that no operation examines all runs.
//
// # Reading order
//
// open.go contains the Store, partition.go the state protected by a mutex, and run.go the meaning
// of "make ready" and "end". Each other file has one subject, with the same name as in the other
// stores: create.go, session.go, claim.go, commit.go, outbox.go, load.go, wait.go, stream.go,
// list.go, limit.go, fleet.go, purge.go, inspect.go. The store does not implement store.Rebuilder:
// it cannot outlive a crash that would require a repair.
package memstore
