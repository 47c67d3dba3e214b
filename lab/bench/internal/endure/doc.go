// Package endure is the part of the benchmark program that runs a fleet for hours under all typical
// disturbances of deployments at the same time: builds are deployed, the server is killed and
// restarted, keys are deleted, and upkeep repairs the damage. It reports lost runs, how long
// unaffected runs made no progress, and the amount of log output.
//
// Reading order: options.go and main.go, endure.go (the sequence of events), drive.go (starts and
// their outcomes), harm.go, report.go; worker.go contains the other roles of the program, package
// flows the workload.
package endure
