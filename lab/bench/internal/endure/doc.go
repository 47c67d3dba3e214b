// Package endure is the part of the benchmark program that keeps a fleet going for
// hours under everything that happens to deployments at the same time: builds are
// deployed, the server is killed and started again, keys vanish, and upkeep repairs
// what that breaks. It tells what was lost, for how long a run that was not concerned
// stood still, and how much was logged.
//
// Reading order: options.go and main.go, endure.go (the order of events), drive.go
// (starts and what comes of them), harm.go, report.go; worker.go is the other role of
// the program, package flows the workload.
package endure
