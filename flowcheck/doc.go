// Package flowcheck reports operations that workflow code must not use. It provides analyzers for
// go vet, golangci-lint and any other driver of golang.org/x/tools/go/analysis.
//
// Workflow code is replayed. After a crash it runs again from the start and must call the same
// operations in the same order. Clocks, random numbers and the iteration order of maps violate this
// rule, usually long after all tests have passed. [Analyzers] contains a rule for each such mistake.
// The rules prefer precision to recall. Every report is correct, and a case that cannot be decided
// is not reported.
//
// # How it works
//
// Workflow code is the body of each function, method or literal that takes a workflow.Context.
// Other code is judged through its callers. For example, a helper that reads the clock is reported
// only if workflow code calls it, directly or through other functions. The report contains the chain
// of calls. The effects of functions are computed for each package and exported as facts.
//
// Read the files in this order: rows.go (the classification of the standard library), unit.go (the
// bodies in a package), look.go (the operations in a body), solve.go (the effects that callers
// inherit), flowcheck.go (the driver of a package, which combines these parts), ignore.go (the
// comments that silence a report).
//
// A rule x is the variable xRule with the function checkX or fixX. Its page is in the directory
// pages, and [Explain] returns it. rules.go lists the rules. Rules with much code have separate
// files. All others are grouped by subject:
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
