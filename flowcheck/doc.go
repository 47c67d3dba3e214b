// Package flowcheck finds what workflow code must not do, as analyzers for go vet,
// golangci-lint and whatever else runs those of golang.org/x/tools/go/analysis.
//
// Workflow code is replayed: after a crash it runs again from the start, and must take
// the same way. A clock, a random number, a map's order lead it astray, mostly long after
// the tests were green. [Analyzers] has a rule for each such mistake. Two things rank
// above finding all of them: a report is right, and what cannot be decided is silent.
//
// # How it works
//
// Workflow code is the body of each function, method or literal that takes a
// workflow.Context. Other code is judged through its callers: a helper that reads the
// clock is a fault only where workflow code calls it, however far away, and there the
// report tells the way. What functions do is found per package and handed on as facts.
//
// Read in this order: rows.go decides about the standard library; unit.go cuts a package
// into bodies and look.go notes what each of them does by itself; solve.go finds what that
// means for those who call; flowcheck.go puts it together, and has the driver of a package;
// ignore.go reads the comments that silence a report. Each rule has a file with its name and
// a page below pages, which [Explain] returns.
package flowcheck
