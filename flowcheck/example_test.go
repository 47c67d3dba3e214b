package flowcheck_test

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/flowcheck"
)

// This example lists the analyzers. A program that runs them passes them to a driver of
// golang.org/x/tools/go/analysis, as in unitchecker.Main(flowcheck.Analyzers()...).
func ExampleAnalyzers() {
	for _, a := range flowcheck.Analyzers()[:3] {
		summary, _, _ := strings.Cut(a.Doc, "\n")
		fmt.Println(a.Name + ": " + summary)
	}
	// Output:
	// clock: Workflow code reads the wall clock, or waits by it.
	// random: Workflow code draws random numbers that differ in every replay.
	// io: Workflow code reads or writes files, the network, a database or another process.
}
