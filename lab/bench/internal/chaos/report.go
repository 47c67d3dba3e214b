package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/runtime/event"
)

// most limits the number of printed violations of a kind. A file contains all of them.
const most = 10

// report explains the violations and prints the final line.
func (x *experiment) report(o *outcome, stdout io.Writer) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	recoveries := 0
	for _, n := range o.Recoveries {
		recoveries += n
	}
	fmt.Fprintf(x.stderr, "%d steps in %d executions, %d recoveries %v, %d workers killed, %d stalled, %d stopped, %d servers restarted, %d failovers, %d caught between look and step, seed %d\n",
		o.Steps, o.Executions, recoveries, o.Recoveries, x.harms.Kills, x.harms.Stalls, x.harms.Stops, x.harms.ServerRestarts, x.harms.Failovers, o.Caught, x.seed)
	for _, l := range o.Limits {
		fmt.Fprintln(x.stderr, l)
	}
	if x.limits {
		fmt.Fprintf(x.stderr, "%d pauses of limits, keys and runs\n", x.harms.Pauses)
		fmt.Fprintf(x.stderr, "%d attempts lost their fence while they were under way, %d of them of workers that were not suspended\n", o.Void, o.VoidAwake)
	}
	if !o.Sound() || x.keep {
		if err := x.explain(o); err != nil {
			return err
		}
	}
	if x.json {
		return x.reportJSON(o, stdout)
	}
	_, err := fmt.Fprintln(stdout, o)
	return err
}

// explain prints the violations and writes to files all of them and the logs of their runs.
func (x *experiment) explain(o *outcome) error {
	file, err := os.OpenFile(filepath.Join(x.dir, "violations.txt"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // its contents are also printed
	printed := map[check.Kind]int{}
	runs := map[event.RunID]bool{}
	for _, v := range o.Violations {
		if _, err := fmt.Fprintln(file, v); err != nil {
			return err
		}
		if printed[v.Kind]++; printed[v.Kind] <= most {
			fmt.Fprintln(x.stderr, v)
			runs[v.Run] = v.Run != ""
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(printed)) {
		if n := printed[kind]; n > most {
			fmt.Fprintf(x.stderr, "%s: %d more\n", kind, n-most)
		}
	}
	for run, about := range runs {
		if !about {
			continue
		}
		if err := x.dump(o, run); err != nil {
			return err
		}
	}
	fmt.Fprintf(x.stderr, "%d violations; all of them, the logs of the runs and of the processes are in %s\n", len(o.Violations), x.dir)
	if p := x.site.Prefix(); p != "" {
		fmt.Fprintf(x.stderr, "the keys on the server begin with {%s:\n", p)
	}
	return nil
}

func (x *experiment) dump(o *outcome, run event.RunID) error {
	f, err := os.OpenFile(filepath.Join(x.dir, string(run)+".txt"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := check.Dump(f, o.evidence, run); err != nil {
		_ = f.Close() // it could not be written
		return err
	}
	return f.Close()
}

func (x *experiment) reportJSON(o *outcome, stdout io.Writer) error {
	fmt.Fprintln(x.stderr, o)
	return json.NewEncoder(stdout).Encode(struct {
		Store   string  `json:"store"`
		Seed    uint64  `json:"seed"`
		Workers int     `json:"workers"`
		Seconds float64 `json:"seconds"` // duration of the experiment
		harms
		*check.Verdict
		Sound bool   `json:"sound"`
		Dir   string `json:"dir"`
	}{x.options.store, x.seed, x.workers, time.Since(x.began).Seconds(), x.harms, o.Verdict, o.Sound(), x.dir})
}

// clean removes the files of a successful experiment.
func (x *experiment) clean() error { return os.RemoveAll(x.dir) }
