// Command versus measures flowgen and other systems for durable workflows and jobs with the same
// work on the same machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/contest"
	"github.com/flowgen/flowgen/lab/versus/internal/measure"
	"github.com/flowgen/flowgen/lab/versus/internal/peer"
	"github.com/flowgen/flowgen/lab/versus/internal/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	isChild, err := contest.Obey(ctx)
	if !isChild {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "versus:", err)
		stop()
		os.Exit(1)
	}
}

// options contains the command line arguments.
type options struct {
	contest contest.Contest
	json    string
	chart   string
	docs    string
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{contest: contest.Contest{Progress: stderr}}
	f := flag.NewFlagSet("versus", flag.ContinueOnError)
	f.SetOutput(stderr)
	systems := f.String("system", "", "comma-separated `NAMES`, such as flowgen@Redis; empty: all systems")
	workloads := f.String("workload", "", "comma-separated `NAMES`; empty: all workloads")
	f.IntVar(&o.contest.Rounds, "rounds", 3, "measure each workload with each system `N` times, every second time in reverse order")
	f.IntVar(&o.contest.Options.Concurrency, "concurrency", 100, "maximum number of runs, and of steps, at the same time")
	f.DurationVar(&o.contest.Options.Duration, "duration", time.Second, "time of a measurement")
	f.StringVar(&o.contest.Dir, "dir", "", "`directory` for the files of stores and servers; empty: the directory for temporary files")
	f.StringVar(&o.json, "json", "", "write the figures as JSON to `FILE`")
	f.StringVar(&o.chart, "chart", "", "write the chart as SVG to `FILE`")
	f.StringVar(&o.docs, "docs", "", "write tables, JSON and chart to comparison.md and its files in the `directory`")
	f.Usage = func() { help(f) }
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.contest.Rounds < 1 || o.contest.Options.Concurrency < 1 {
		return nil, errors.New("-rounds and -concurrency must be at least 1")
	}
	var err1, err2 error
	o.contest.Systems, err1 = choose(*systems, peer.Systems, contest.System)
	o.contest.Workloads, err2 = choose(*workloads, measure.Workloads, contest.Workload)
	return o, errors.Join(err1, err2)
}

// choose returns the elements with the comma-separated names, in the order of all.
func choose[T any](names string, all []*T, find func(string) *T) ([]*T, error) {
	if names == "" {
		return all, nil
	}
	chosen := map[*T]bool{}
	for name := range strings.SplitSeq(names, ",") {
		found := find(name)
		if found == nil {
			return nil, fmt.Errorf("unknown name %q: versus -help lists all", name)
		}
		chosen[found] = true
	}
	var in []*T
	for _, e := range all {
		if chosen[e] {
			in = append(in, e)
		}
	}
	return in, nil
}

func help(f *flag.FlagSet) {
	w := f.Output()
	fmt.Fprintf(w, "Usage: versus [flags]\n\nWorkloads:\n")
	for _, l := range measure.Workloads {
		fmt.Fprintf(w, "  %-12s %s\n", l.Name, l.About)
	}
	fmt.Fprintf(w, "\nSystems:\n")
	for _, s := range peer.Systems {
		fmt.Fprintf(w, "  %-22s %s\n", s.ID(), s.Version())
	}
	fmt.Fprintf(w, "\nFlags:\n")
	f.PrintDefaults()
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.contest.Dir, "versus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the user of PostgreSQL must reach its directory
		return err
	}
	o.contest.Dir = dir
	r := &report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Command: strings.TrimSpace("versus " + strings.Join(args, " ")), Machine: machine(),
		Options: o.contest.Options, Rounds: o.contest.Rounds,
	}
	if r.Results, r.Versions, err = o.contest.Run(ctx); err != nil {
		return err
	}
	r.Versions["Go"] = strings.TrimPrefix(runtime.Version(), "go")
	if err := r.WriteTables(stdout); err != nil {
		return err
	}
	if o.docs != "" {
		if err := r.WriteDocs(o.docs); err != nil {
			return err
		}
	}
	return errors.Join(toFile(o.json, r.WriteJSON), toFile(o.chart, r.WriteChart))
}

// toFile writes a file, unless its name is empty.
func toFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// machine describes the processor.
func machine() string {
	model := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}
