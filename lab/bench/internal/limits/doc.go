// Package limits measures the costs of limits and schedules, and their guarantees of time and
// order. Each row has figures. Each figure has a budget, and for comparison the result of the same
// program in the same execution without limits.
//
//	go run ./lab/bench limits
//	go run ./lab/bench limits -row waiting -waiting 100000
//	go run ./lab/bench limits -store memory: -json
//
// Reading order: row.go for the rows, figure.go for the figures, place.go for the store, crew.go
// for its workers, rates.go for one row.
package limits
