package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/flowgen/flowgen/internal/breaking"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/typescript"
)

const typesHelp = `flowgen types prints the inputs and results of workflows as TypeScript types.

usage: flowgen types [-o FILE] [-check] [packages]

  -o FILE   write the types to a file instead
  -check    write nothing; fail if the file of -o is missing or stale (for CI)

The types include an interface Flows for the client in clients/ts: new Client<Flows>({ url }).
Integers have type number. The client reports an error for integers that a number cannot
represent exactly, unless its option inexact selects another conversion.
`

// runTypes executes flowgen types and returns the exit code.
func runTypes(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	var file string
	var check bool
	flags := flag.NewFlagSet("flowgen types", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&file, "o", "", "")
	flags.BoolVar(&check, "check", false, "")
	patterns, err := flagsAndPackages(flags, args)
	if err == nil && check && file == "" {
		err = fmt.Errorf("-check needs -o FILE")
	}
	if err != nil {
		return refuse("flowgen types", typesHelp, err, stdout, stderr)
	}
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	set, err := breaking.Manifests(ctx, dir, patterns, nil)
	var text []byte
	if err == nil {
		text, err = typescript.Flows(slices.Collect(maps.Values(map[string]*manifest.Manifest(set))))
	}
	if err == nil && len(set) == 0 {
		err = fmt.Errorf("there is no //flow: directive in %s", packages(patterns))
	}
	if err == nil {
		err = putTypes(dir, file, check, text, stdout)
	}
	if err != nil {
		fmt.Fprintf(stderr, "flowgen types: %v\n", err)
		return exitMistake
	}
	return exitOK
}

// putTypes prints the types or writes them to file. If check is true, it compares them with the
// content of file instead.
func putTypes(dir, file string, check bool, text []byte, stdout io.Writer) error {
	if file == "" {
		_, err := stdout.Write(text)
		return err
	}
	at := file
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, file)
	}
	there, err := os.ReadFile(at)
	if err == nil && bytes.Equal(there, text) {
		return nil
	}
	if check {
		return fmt.Errorf("%s: the file is missing or stale: run flowgen types without -check", file)
	}
	if err := os.WriteFile(at, text, 0o644); err != nil { //nolint:gosec // source is for everybody
		return err
	}
	_, err = fmt.Fprintln(stdout, "wrote "+file)
	return err
}
