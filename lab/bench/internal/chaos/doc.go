// Package chaos is the part of the benchmark program that harms a fleet: it runs
// many workflows on worker processes which it kills, suspends and restarts at
// random, and checks in the end that every promise was kept.
//
// Package flows is the workload, package record what its steps write down,
// package check the judge. Reading order here: options.go and main.go, plan.go
// (what is asked for), experiment.go (the order of events), drive.go (starts,
// messages, cancels), harm.go, watch.go, report.go; worker.go is the other role
// of the program.
package chaos
