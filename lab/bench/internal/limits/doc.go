// Package limits measures what limits and schedules cost, and what they promise of time and
// order: each row has figures, each figure its budget, and beside it what the same program
// does in the same run without limits.
//
//	go run ./lab/bench limits
//	go run ./lab/bench limits -row waiting -waiting 100000
//	go run ./lab/bench limits -store memory: -json
//
// Reading order: row.go for what there is, figure.go for what comes of it, place.go for the
// store, crew.go for its workers, rates.go for one row.
package limits
