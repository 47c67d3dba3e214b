package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/flowgen/flowgen/flowcheck"
	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/vet"
)

const vetUsage = `usage: flowgen vet [-advice] [-fix] [-diff] [-json] [packages]
       flowgen vet -explain RULE
`

const vetHelp = vetUsage + `
Flowgen vet reports code that workflows must not contain because they are replayed:
reading a clock, ranging over a map, starting a goroutine, and so on. It first does
what flowgen -check does, and then runs go vet with the rules, which stores its
results in the build cache.

  -advice         also report advice, which does not affect the exit code
  -fix            apply the edits that reports suggest, then report what is left
  -diff           print the suggested edits without applying them
  -json           print the reports as one JSON object on standard output
  -explain RULE   print the documentation of a rule

Silence a report with a comment on its line, above it, or above the function:

  //flow:ignore RULE reason

Rules: `

// vetOptions contains the flags of flowgen vet.
type vetOptions struct {
	advice, fix, diff, json bool
	explain                 string
	patterns                []string
}

// runVet executes flowgen vet, which reports violations of the static rules. It returns the exit
// code.
func runVet(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	opts, err := parseVet(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, vetHelp+strings.Join(flowcheck.Names(), " ")+".\n")
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "flowgen vet: %v\n%s", err, vetUsage)
		return exitUsage
	case opts.explain != "":
		page, err := flowcheck.Explain(opts.explain)
		if err != nil {
			fmt.Fprintf(stderr, "flowgen vet: %v\n", err)
			return exitUsage
		}
		fmt.Fprint(stdout, page)
		return exitOK
	}
	if code := checkFirst(ctx, opts, dir, stdout, stderr); code != exitOK {
		return code
	}
	tool, err := os.Executable()
	if err != nil {
		fmt.Fprintf(stderr, "flowgen vet: find the executable: %v\n", err)
		return exitMistake
	}
	cfg := vet.Config{Dir: dir, Patterns: opts.patterns, Tool: tool, Advice: opts.advice}
	if opts.diff {
		return vetDiff(ctx, cfg, stdout, stderr)
	}
	if opts.fix {
		if err := vet.Fix(ctx, cfg); err != nil {
			fmt.Fprintf(stderr, "flowgen vet: %v\n", err)
			return exitMistake
		}
	}
	found, err := vet.Run(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "flowgen vet: %v\n", err)
		return exitMistake
	}
	return showFindings(found, opts.json, stdout, stderr)
}

func parseVet(args []string) (vetOptions, error) {
	var opts vetOptions
	flags := flag.NewFlagSet("flowgen vet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&opts.advice, "advice", false, "")
	flags.BoolVar(&opts.fix, "fix", false, "")
	flags.BoolVar(&opts.diff, "diff", false, "")
	flags.BoolVar(&opts.json, "json", false, "")
	flags.StringVar(&opts.explain, "explain", "", "")
	for {
		if err := flags.Parse(args); err != nil {
			return opts, err
		}
		if flags.NArg() == 0 {
			break
		}
		opts.patterns = append(opts.patterns, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if opts.diff && opts.json {
		return opts, errors.New("-diff and -json exclude each other")
	}
	return opts, nil
}

// checkFirst runs the checks of flowgen -check. They precede the vet rules, because the go command
// does not vet packages that do not compile.
func checkFirst(ctx context.Context, opts vetOptions, dir string, stdout, stderr io.Writer) int {
	report, err := generator.Run(ctx, generator.Config{Dir: dir, Patterns: opts.patterns, Check: true})
	if err != nil {
		report = &generator.Report{Diagnostics: []diagnostic.Diagnostic{{What: "flowgen: " + err.Error()}}}
	}
	if len(report.Diagnostics)+len(report.Changes) == 0 {
		return exitOK
	}
	return show(report, options{check: true, json: opts.json, patterns: opts.patterns}, stdout, stderr)
}

func vetDiff(ctx context.Context, cfg vet.Config, stdout, stderr io.Writer) int {
	diff, err := vet.Diff(ctx, cfg)
	if err != nil {
		fmt.Fprintf(stderr, "flowgen vet: %v\n", err)
		return exitMistake
	}
	fmt.Fprintf(stdout, "%s", diff)
	if len(diff) > 0 {
		return exitMistake
	}
	return exitOK
}

// showFindings prints the findings and returns the exit code.
func showFindings(found []vet.Finding, asJSON bool, stdout, stderr io.Writer) int {
	code := exitOK
	for _, f := range found {
		if !f.Advice {
			code = exitMistake
		}
		if !asJSON {
			fmt.Fprintln(stderr, f.Diagnostic)
		}
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		if err := enc.Encode(map[string]any{"reports": found}); err != nil {
			fmt.Fprintf(stderr, "flowgen vet: print reports: %v\n", err)
			return exitMistake
		}
	}
	return code
}
