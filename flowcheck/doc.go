// Package flowcheck reports operations that workflow code must not use. It provides analyzers for
// go vet, golangci-lint and any other driver of golang.org/x/tools/go/analysis.
//
// Workflow code is replayed: after a crash it runs again from the start and must call the same
// operations in the same order. Clocks, random numbers and the iteration order of maps break this,
// and usually long after the tests passed. [Analyzers] has a rule for each such mistake. The rules
// prefer precision to recall: every report is correct, and a case that cannot be decided is not
// reported.
//
// # How it works
//
// Workflow code is the body of each function, method or literal that takes a workflow.Context.
// Other code is judged through its callers: a helper that reads the clock is reported only if
// workflow code calls it, directly or through other functions, and the report contains the chain of
// calls. The effects of functions are computed for each package and exported as facts.
//
// Read the files in this order: rows.go classifies the standard library; unit.go divides a package
// into bodies and look.go records the operations of each body; solve.go computes the effects that
// callers inherit; flowcheck.go combines these parts and contains the driver of a package;
// ignore.go reads the comments that silence a report.
//
// The rule x is the variable xRule with the function checkX or fixX; its page is in the directory
// pages, from which [Explain] returns it. rules.go lists the rules. Those with much code have files
// of their own; the others are grouped by subject:
//
//   - determinism.go: clock, random, env, global and sleep, the values that differ in a replay
//   - outside.go: io, exit, log and raw, the effects that a replay repeats
//   - concurrency.go: goroutine, channel, lock and gostep
//   - context.go: context, branch and cleanup, the use of a wrong context
//   - record.go: record and capture, the functions passed to workflow.Record
//   - loops.go: spin, deaf, endless and rearm
//   - steps.go: twice and mixed, writes of steps
//   - errors.go: dropped and sentinel
package flowcheck
