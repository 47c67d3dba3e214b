// Command flowgen generates typed durable counterparts of annotated Go functions. Run it with -help
// for the flags. docs/use/directives.md describes the annotations.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/flowgen/flowgen/internal/client"
	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/generator"
	"github.com/flowgen/flowgen/internal/vet"
)

// The exit codes of the command.
const (
	exitOK      = 0
	exitMistake = 1 // a package contains a mistake or, with -check, a file is stale or a stored name has changed
	exitUsage   = 2
)

func main() {
	if vet.IsTool(os.Args[1:]) { // The go command runs flowgen with go vet -vettool=flowgen.
		vet.Tool(os.Args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // The end of ctx also stops the go command that flowgen runs.
	code := run(ctx, os.Args[1:], ".", os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options contains the flags of the command.
type options struct {
	check, version, json bool
	manifest             bool
	since, client        string
	patterns             []string
}

// run executes the command in dir and returns its exit code.
func run(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "completion" {
		return completion(args[1:], stdout, stderr)
	}
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], dir, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "help" {
		fmt.Fprint(stdout, help)
		return exitOK
	}
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "flowgen: %v\n%s", err, usage)
		return exitUsage
	case opts.version:
		fmt.Fprintln(stdout, version())
		return exitOK
	}
	report, err := generator.Run(ctx, generator.Config{Dir: dir, Patterns: opts.patterns, Check: opts.check, Since: opts.since, Manifest: opts.manifest, Client: opts.client})
	if err != nil {
		report = &generator.Report{
			Diagnostics: []diagnostic.Diagnostic{{What: "flowgen: " + err.Error()}},
			Changes:     []generator.Change{},
		}
	}
	return show(report, opts, stdout, stderr)
}

// parse parses the arguments. Flags may appear before, between and after the package patterns.
func parse(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("flowgen", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&opts.check, "check", false, "")
	flags.BoolVar(&opts.version, "version", false, "")
	flags.BoolVar(&opts.json, "json", false, "")
	flags.BoolVar(&opts.manifest, "manifest", false, "")
	flags.StringVar(&opts.client, "client", "", "")
	flags.StringVar(&opts.since, "since", "", "")
	var err error
	opts.patterns, err = flagsAndPackages(flags, args)
	return opts, err
}

// ofPackage returns the words " of package name" for messages about a file. It returns "" unless go
// generate runs the command and the file is in the working directory. go generate runs the command
// in the directory of each package, so that all generated files have the same relative path.
func ofPackage(file string) string {
	if name := os.Getenv("GOPACKAGE"); name != "" && filepath.Base(file) == file {
		return " of package " + diagnostic.Printable(name)
	}
	return ""
}

// show prints the report and returns the exit code for it.
func show(report *generator.Report, opts options, stdout, stderr io.Writer) int {
	code := exitOK
	if len(report.Diagnostics) > 0 || opts.check && len(report.Changes)+len(report.Warnings) > 0 {
		code = exitMistake
	}
	if opts.json {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		if err := enc.Encode(report); err != nil {
			fmt.Fprintf(stderr, "flowgen: print report: %v\n", err)
			return exitMistake
		}
		return code
	}
	for _, d := range report.Diagnostics {
		fmt.Fprintln(stderr, d)
	}
	for _, w := range report.Warnings {
		w.What = "warning: " + w.What
		fmt.Fprintln(stderr, w)
	}
	for _, n := range report.Notes {
		n.What = "note: " + n.What
		fmt.Fprintln(stderr, n)
	}
	for _, c := range report.Changes {
		file := diagnostic.Printable(c.File)
		switch c.Action {
		case generator.Wrote:
			fmt.Fprintln(stdout, "wrote "+file+ofPackage(c.File))
		case generator.Removed:
			fmt.Fprintln(stdout, "removed "+file+": "+noMore(c.File))
		case generator.Missing:
			fmt.Fprintln(stderr, file+": the file is missing: run flowgen")
		case generator.Stale:
			fmt.Fprint(stderr, file+": the file is stale: run flowgen\n"+c.Diff)
		case generator.Leftover:
			fmt.Fprintln(stderr, file+": "+noMore(c.File)+": run flowgen")
		}
	}
	if report.Annotated == 0 && len(report.Diagnostics)+len(report.Changes) == 0 {
		fmt.Fprintln(stderr, "flowgen: nothing to do: no //flow: directive in "+packages(opts.patterns))
	}
	return code
}

// noMore returns the reason why a generated file is obsolete.
func noMore(file string) string {
	if filepath.Base(file) == client.File {
		return "no package declares this client any more"
	}
	return "the package has no directives any more"
}

// packages returns a description of the packages that the patterns select.
func packages(patterns []string) string {
	if len(patterns) == 0 {
		return "this package; to include the packages below it, name ./..."
	}
	return diagnostic.Printable(strings.Join(patterns, " "))
}

func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		v = info.Main.Version
		for _, dep := range info.Deps {
			if dep.Path == modulePath {
				v = dep.Version
			}
		}
	}
	return fmt.Sprintf("flowgen %s %s", v, runtime.Version())
}

const modulePath = "github.com/flowgen/flowgen"
