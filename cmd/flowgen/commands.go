package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// commands are the words after flowgen that do something else than generate.
var commands = map[string]func(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int{
	"breaking": runBreaking,
	"manifest": runManifest,
	"replay":   runReplay,
	"vet":      runVet,
}

// flagsAndPackages reads flags before, between and behind the packages, which it returns.
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
