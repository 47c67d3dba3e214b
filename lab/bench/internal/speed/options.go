package speed

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// options contains the command line arguments.
type options struct {
	store     string
	workloads []*workload
	count     int
	size      size // zero fields select the size of the workload
	batch     int
	inflight  int
	limit     time.Duration
	wake      time.Duration
	follow    bool
	json      bool
	table     bool
	progress  bool
	plot      string
	telemetry string
	codec     bool
	payload   int

	cpuProfile, memProfile, trace string
}

// size is the amount of work of a workload.
type size struct {
	runs  int
	steps int // number of steps of each run
}

// or returns s with its zero fields replaced by the fields of other.
func (s size) or(other size) size {
	if s.runs == 0 {
		s.runs = other.runs
	}
	if s.steps == 0 {
		s.steps = other.steps
	}
	return s
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("speed", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { help(f) }
	f.StringVar(&o.store, "store", "memory:", "store to measure: memory:, sqlite:`PATH` (files are created beside PATH and removed), "+
		"redis://HOST:PORT (keys are created with a separate prefix and removed), or redis, which starts a redis-server without persistence")
	names := f.String("workload", "", "comma-separated `NAMES` of workloads; empty or all: all workloads")
	f.IntVar(&o.count, "count", 1, "measure each workload `N` times and print the medians")
	f.IntVar(&o.size.runs, "runs", 0, "number of `RUNS`; 0: the default of the workload, see below")
	f.IntVar(&o.size.steps, "steps", 0, "number of `STEPS` of each run; 0: the default of the workload, see below")
	f.IntVar(&o.batch, "batch", 100, "number of runs that the client starts in one call")
	f.IntVar(&o.inflight, "inflight", 256, "number of concurrent runs of chain; the worker executes up to 256 at once, and the others wait to be claimed")
	f.DurationVar(&o.limit, "limit", 100*time.Millisecond, "`TIME` for which the limit is measured between rounds; 0: do not measure it")
	f.DurationVar(&o.wake, "wake", 0, "`TIME` after the first start at which sleepers wake; 0: estimated from the warm-up")
	f.BoolVar(&o.follow, "follow", false, "let the client wait for the results of long and fanout with Result, which adds server load at each commit, instead of reading the end times")
	f.BoolVar(&o.json, "json", false, "print one JSON object per line")
	f.BoolVar(&o.table, "table", false, "print the rows of a Markdown table, as in docs/internals/performance.md")
	f.BoolVar(&o.progress, "progress", isTerminal(stderr), "report progress on standard error (default: true if it is a terminal)")
	f.StringVar(&o.plot, "plot", "", "measure the growth of costs with the number of runs and steps, up to -runs (100000) and -steps (10000), and write plots to `DIR`")
	f.StringVar(&o.telemetry, "telemetry", "none", "`LEVEL` of telemetry: none, interceptor (one that does nothing), metrics, or spans (and metrics)")
	f.BoolVar(&o.codec, "codec", false, "compress and encrypt user data")
	f.IntVar(&o.payload, "payload", 100, "number of `BYTES` of the data that each run and step of chain receives and returns")
	f.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile to `FILE`")
	f.StringVar(&o.memProfile, "memprofile", "", "write a profile of all allocations to `FILE`")
	f.StringVar(&o.trace, "trace", "", "write an execution trace to `FILE`")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: see -help", f.Arg(0))
	}
	if o.json && o.table {
		return nil, errors.New("-json and -table are mutually exclusive")
	}
	if o.count < 1 || o.batch < 1 || o.inflight < 1 || o.size.runs < 0 || o.size.steps < 0 || o.limit < 0 || o.wake < 0 || o.payload < 1 {
		return nil, fmt.Errorf("-count, -batch, -inflight and -payload must be at least 1, and no size or time may be negative: see -help")
	}
	err := checkLevel(o.telemetry)
	if err == nil {
		o.workloads, err = pick(*names)
	}
	return o, err
}

// help prints the flags and the workloads with their sizes.
func help(f *flag.FlagSet) {
	w := f.Output()
	fmt.Fprint(w, "Speed measures the throughput and latency of runs on a store.\n\nusage: go run ./lab/bench speed [flags]\n\n")
	f.PrintDefaults()
	fmt.Fprint(w, "\nworkloads:\n")
	for _, l := range workloads {
		sizes := fmt.Sprintf("-runs %d", l.size.runs)
		if l.size.steps > 0 {
			sizes += fmt.Sprintf(" -steps %d", l.size.steps)
		}
		fmt.Fprintf(w, "  %-11s %s\n  %-11s %s; unit: %s; p50, p99: %s\n", l.name, l.about, "", sizes, l.unit, l.latency)
	}
	fmt.Fprint(w, "\nSteps per second are units per second. The fields are explained in docs/internals/performance.md.\n")
}

// pick returns the workloads with the given names.
func pick(names string) ([]*workload, error) {
	if names == "" || names == "all" {
		return workloads, nil
	}
	var all []*workload
	for name := range strings.SplitSeq(names, ",") {
		w := workloadNamed(name)
		if w == nil {
			var known []string
			for _, w := range workloads {
				known = append(known, w.name)
			}
			return nil, fmt.Errorf("no workload is named %q: the workloads are %s", name, strings.Join(known, ", "))
		}
		all = append(all, w)
	}
	return all, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
