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
// ignore.go reads the comments that silence a report. Each rule has a file with its name and a page
// in the directory pages, which [Explain] returns.
package flowcheck
