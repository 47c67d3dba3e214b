// Package speed measures how fast runs get on, on any store.
//
//	go run ./lab/bench speed -store redis -workload chain,latency -count 5
//
// A workload drives the public API: one client and one worker, in this process,
// on a store that nobody else uses. Its runs are split into rounds. What is
// counted is counted during the rounds only: warm-up, waiting for a due time, and
// the check of every result are outside of them.
//
// Before the first round and after each one the program measures the limit: what
// the same client and the same server do with the bare conditional append, as
// many at once as the workload had. A machine that is disturbed is so for both,
// and the ratio of the two stays what it is.
//
// What the store does is seen by a tap, which counts calls and passes them on,
// and by the counters of the server. The tap also says when a run has ended: when
// the commit that ends it was answered.
//
// Reading order: measure.go for what happens to a workload, workload.go for what
// there are, chain.go for one of them, bed.go for what a store has to offer,
// limit.go for the limit.
package speed
