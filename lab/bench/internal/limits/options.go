package limits

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// options contains the command line arguments.
type options struct {
	flags *flag.FlagSet

	store    string
	rows     []*row
	keys     int
	rounds   int
	waiting  int
	seconds  float64
	steps    int
	ticks    int
	clocks   int
	workers  int
	nap      time.Duration
	json     bool
	progress bool
	check    bool
}

func parse(args []string) (*options, error) {
	o := &options{flags: flag.NewFlagSet("limits", flag.ContinueOnError)}
	f := o.flags
	f.SetOutput(io.Discard)
	f.StringVar(&o.store, "store", "redis", "store to measure: redis, which starts servers without persistence, sqlite:`PATH` (files are created beside PATH and removed), or memory:")
	names := f.String("row", "", "comma-separated `NAMES` of rows; empty: all")
	f.IntVar(&o.keys, "keys", 10_000, "number of `KEYS` of the limits in keys and spread")
	f.IntVar(&o.rounds, "rounds", 5, "number of `ROUNDS` of keys and spread, alternating with the programs that they are compared with; medians are printed")
	f.IntVar(&o.waiting, "waiting", 1_000_000, "number of `RUNS` of one tenant that wait; each takes about 2 KB on the server")
	f.Float64Var(&o.seconds, "seconds", 10, "number of `SECONDS` for which rates are measured")
	f.IntVar(&o.steps, "steps", 1000, "number of `STEPS` of pools and handoff")
	f.DurationVar(&o.nap, "nap", 20*time.Millisecond, "duration of a step of pools")
	f.IntVar(&o.ticks, "ticks", 10_000, "number of `TICKS` of schedules that are measured")
	f.IntVar(&o.clocks, "schedules", 200, "number of `SCHEDULES`; each has a tick about every second")
	f.IntVar(&o.workers, "workers", 8, "number of `WORKERS`, all in this process, each with its own connections")
	f.BoolVar(&o.json, "json", false, "print one JSON object per figure")
	f.BoolVar(&o.progress, "progress", true, "report progress on standard error")
	f.BoolVar(&o.check, "check", false, "exit with 1 if a budget is missed")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	for name, n := range map[string]int{"keys": o.keys, "rounds": o.rounds, "waiting": o.waiting, "steps": o.steps, "ticks": o.ticks, "schedules": o.clocks, "workers": o.workers} {
		if n < 1 {
			return o, fmt.Errorf("-%s %d: want at least 1", name, n)
		}
	}
	if o.seconds <= 0 || o.nap <= 0 {
		return o, fmt.Errorf("-seconds %v, -nap %v: want more than 0", o.seconds, o.nap)
	}
	if path, ok := strings.CutPrefix(o.store, "sqlite:"); o.store != "redis" && o.store != "memory:" && (!ok || path == "") {
		return o, fmt.Errorf("-store %q: want memory:, redis or sqlite:PATH", o.store)
	}
	var err error
	o.rows, err = pick(*names)
	return o, err
}

// kind returns the name of the store for the figures.
func (o *options) kind() string {
	kind, _, _ := strings.Cut(o.store, ":")
	return kind
}

// help prints the flags and the rows.
func (o *options) help(w io.Writer) {
	fmt.Fprint(w, "Limits measures flow control: limits and schedules. It prints each figure with its budget and\n"+
		"the figure of the same program without limits in the same execution.\n\nusage: go run ./lab/bench limits [flags]\n\n")
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	fmt.Fprint(w, "\nrows:\n")
	for _, r := range rows {
		fmt.Fprintf(w, "  %-9s %s\n", r.name, r.about)
	}
	fmt.Fprint(w, "\nBudgets are for Redis on an otherwise idle machine. The figures are explained in docs/internals/performance.md.\n")
}

// pick returns the rows with the given names.
func pick(names string) ([]*row, error) {
	if names == "" || names == "all" {
		return rows, nil
	}
	var all []*row
	for name := range strings.SplitSeq(names, ",") {
		known := []string{}
		var found *row
		for _, r := range rows {
			if known = append(known, r.name); r.name == name {
				found = r
			}
		}
		if found == nil {
			return nil, fmt.Errorf("no row is called %q: there are %s", name, strings.Join(known, ", "))
		}
		all = append(all, found)
	}
	return all, nil
}

// row is one of the measurements that the program can perform.
type row struct {
	name  string
	about string
	// redis reports whether the row requires the program to start Redis servers.
	redis   bool
	measure func(ctx context.Context, s *session) ([]Figure, error)
}

// lacks returns the reason why the row cannot be measured, or "".
func (r *row) lacks(o *options) string {
	if r.redis && o.kind() != "redis" {
		return "not measured: only Redis has servers"
	}
	return ""
}

// rows contains all rows in the order in which they are measured.
var rows = []*row{
	{name: "keys", about: "claims and runs that use a limit with many keys, compared with no keys and no limits", measure: keys},
	{name: "fair", about: "claims over many fairness keys, compared with no keys; many runs of one key wait", measure: fair},
	{name: "spread", about: "a limit with a partition for each key, on a Redis Cluster of three nodes compared with one node", redis: true, measure: spread},
	{name: "waiting", about: "many runs of one tenant wait: the first run of another tenant, bytes, List", measure: waiting},
	{name: "rates", about: "rates of 100 and 1,000 steps a second, over several workers", measure: rates},
	{name: "pools", about: "pools of 3 and 5, and steps that use both", measure: pools},
	{name: "handoff", about: "time from the return of a permit to the next attempt", measure: handoff},
	{name: "ticks", about: "delay with which schedules start runs", measure: ticks},
}
