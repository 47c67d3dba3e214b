package vet

import (
	"flag"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/flowgen/flowgen/flowcheck"
)

const adviceFlag = "advice"

// IsTool reports whether the go command started this process as a vet tool with args.
func IsTool(args []string) bool {
	return len(args) > 0 && (args[0] == "-V=full" || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg"))
}

// Tool is the main function of a vet tool with all rules. It does not return.
func Tool(args []string) {
	analyzers := flowcheck.Analyzers()
	flag.Bool(adviceFlag, false, "give advice, too")
	if slices.ContainsFunc(args, func(a string) bool { return strings.TrimLeft(strings.TrimSuffix(a, "=true"), "-") == adviceFlag }) {
		analyzers = append(analyzers, flowcheck.Advice()...)
	}
	unitchecker.Main(analyzers...)
}
