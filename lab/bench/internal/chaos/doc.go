// Package chaos is the part of the benchmark program that disturbs a fleet: it executes many
// workflows on worker processes, which it kills, suspends and restarts at random. At the end it
// checks that every promise was kept.
//
// Package flows contains the workload, package record the records written by steps, and package
// check the final check. Reading order: options.go and main.go, plan.go (the requested runs),
// experiment.go (the sequence of an experiment), drive.go (starts, messages, cancellations),
// harm.go, watch.go, report.go; worker.go contains the other roles of the program.
package chaos
