// Package speed measures the speed of runs on any store.
//
//	go run ./lab/bench speed -store redis -workload chain,latency -count 5
//
// A workload uses the public API with one client and one worker in this process, on a store without
// other users. Its runs are divided into rounds. Only the rounds are measured, without the warm-up,
// the wait for a due time, and the check of every result.
//
// Before the first round and after each one the program measures the limit: the speed of bare
// conditional appends by the same client and the same server, with the concurrency of the workload.
// A disturbance of the machine affects both, so that their ratio is stable.
//
// A tap counts the calls of the store and forwards them. The server provides further counters. The
// tap also determines when a run has ended: when the commit that ends it was answered.
//
// Reading order: measure.go for the measurement of a workload, workload.go for the list of
// workloads, chain.go for one of them, bed.go for the requirements on a store, limit.go for the
// limit.
package speed
