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

const breakingHelp = `flowgen breaking reports the changes since a revision that block open runs.

usage: flowgen breaking [-against REV|FILE|DIR] [-strict] [-json] [packages]

  -against R   the previous state: a Git revision, a flow.manifest.json, or a
               directory of such files or of a module's sources (default: the
               merge base of HEAD and the default branch)
  -strict      also fail for changes that may block some runs (care)
  -json        print the report as one JSON object

Each line is file:line: class: subject: change: fix. The classes are breaks (every run
past this point is blocked, not claimed, or reads empty data) and care (the effect
depends on data or on the progress of runs: check with flowgen replay). Changes that are
not listed are safe. To accept a change, add a line to flow.accept in the directory of
go.mod: see docs/use/breaking.md.

Exit codes: 0 no breaking change; 1 breaking changes; 2 usage error, or the previous
state cannot be read.
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
		_, err = fmt.Fprintf(stdout, "to accept a change, add its line to %s and replace the last word by the reason:\n", breaking.AcceptFile)
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
