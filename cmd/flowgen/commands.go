package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// commands contains the subcommands by the first argument. If the first argument is none of these
// words, flowgen generates code.
var commands = map[string]func(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int{
	"breaking": runBreaking,
	"manifest": runManifest,
	"replay":   runReplay,
	"types":    runTypes,
	"vet":      runVet,
}

// refuse reports a mistake in the arguments of a command and returns the exit code. If the error is
// a request for help, it prints the help instead.
func refuse(command, help string, err error, stdout, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		return exitOK
	}
	fmt.Fprintf(stderr, "%s: %v\n%s", command, err, help)
	return exitUsage
}

// flagsAndPackages parses flags and returns the package patterns. Flags may appear before, between
// and after the patterns.
func flagsAndPackages(flags *flag.FlagSet, args []string) ([]string, error) {
	var patterns []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return patterns, nil
		}
		pattern := flags.Arg(0)
		if strings.HasSuffix(pattern, ".go") {
			return nil, fmt.Errorf("%s is a file: name its package, as in ./orders", pattern)
		}
		patterns = append(patterns, pattern)
		args = flags.Args()[1:]
	}
}
