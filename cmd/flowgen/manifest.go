package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/internal/breaking"
	"github.com/flowgen/flowgen/internal/manifest"
)

const manifestHelp = `flowgen manifest prints what runs of the workflows of packages depend on.

usage: flowgen manifest [-mermaid] [packages]

  -mermaid   draw the workflows as Mermaid flow charts

To store it in flow.manifest.json beside flow_gen.go, run flowgen -manifest once.
After that, flowgen keeps the file up to date.
`

// runManifest executes flowgen manifest and returns the exit code.
func runManifest(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	var mermaid bool
	flags := flag.NewFlagSet("flowgen manifest", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&mermaid, "mermaid", false, "")
	patterns, err := flagsAndPackages(flags, args)
	if err != nil {
		return refuse("flowgen manifest", manifestHelp, err, stdout, stderr)
	}
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	set, err := breaking.Manifests(ctx, dir, patterns, nil)
	if err != nil {
		fmt.Fprintf(stderr, "flowgen manifest: %v\n", err)
		return exitMistake
	}
	for _, path := range slices.Sorted(maps.Keys(set)) {
		out := set[path].Encode()
		if mermaid {
			out = manifest.Mermaid(set[path])
		}
		if _, err := stdout.Write(out); err != nil {
			fmt.Fprintf(stderr, "flowgen manifest: print: %v\n", err)
			return exitMistake
		}
	}
	if len(set) == 0 {
		fmt.Fprintln(stderr, "flowgen manifest: no //flow: directive in "+packages(patterns))
	}
	return exitOK
}
