package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/internal/breaking"
	"github.com/flowgen/flowgen/internal/compat"
)

const breakingHelp = `flowgen breaking says which changes since a revision block runs in flight.

usage: flowgen breaking [-against REV|FILE|DIR] [-strict] [-json] [packages]

  -against R   the state before: a revision of git, a flow.manifest.json, or a
               directory of such files or of a module's sources; without it, where
               HEAD left the default branch
  -strict      fail for changes that may block some runs (care), too
  -json        print the report as one JSON object

Each line is file:line: class: subject: what: way out. The classes are breaks (every
run past this point is blocked, unclaimed or sees empty data) and care (it depends on
data or on where runs stand: flowgen replay asks the runs). What is not listed is safe.
A change is accepted by a line in flow.accept, beside go.mod: see docs/use/breaking.md.

Exit codes: 0 nothing breaks; 1 something does; 2 the command line is wrong, or the
state before cannot be read.
`

// runBreaking executes flowgen breaking and returns the exit code.
func runBreaking(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	var strict, asJSON bool
	cfg := breaking.Config{Dir: dir}
	flags := flag.NewFlagSet("flowgen breaking", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&cfg.Against, "against", "", "")
	flags.BoolVar(&strict, "strict", false, "")
	flags.BoolVar(&asJSON, "json", false, "")
	patterns, err := flagsAndPackages(flags, args)
	if err != nil {
		return refuse("flowgen breaking", breakingHelp, err, stdout, stderr)
	}
	cfg.Patterns = patterns
	report, err := breaking.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "flowgen breaking: %v\n", err)
		return exitUsage
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		err = enc.Encode(report)
	} else {
		err = printBreaking(report, strict, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "flowgen breaking: print report: %v\n", err)
		return exitMistake
	}
	if report.Breaks(strict) {
		return exitMistake
	}
	return exitOK
}

func printBreaking(report *breaking.Report, strict bool, stdout io.Writer) error {
	counts := map[compat.Class]int{}
	for _, c := range report.Changes {
		counts[c.Class]++
		if _, err := fmt.Fprintln(stdout, c); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(stdout, "%d workflows in %d packages against %s: %d breaks, %d care, %d accepted\n",
		report.Workflows, report.Packages, report.Against, counts[compat.Breaks], counts[compat.Care], len(report.Accepted))
	if err == nil && report.Breaks(strict) {
		_, err = fmt.Fprintf(stdout, "to accept a change, add its line to %s, with the reason in place of the last word:\n", breaking.AcceptFile)
		said := map[string]bool{}
		for _, c := range report.Changes {
			if line := c.AcceptLine(); (c.Class == compat.Breaks || strict) && !said[line] && err == nil {
				said[line] = true
				_, err = fmt.Fprintln(stdout, "\t"+line)
			}
		}
	}
	return err
}
