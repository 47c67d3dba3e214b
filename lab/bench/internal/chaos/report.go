package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/internal/harm"
)

// Report explains the violations, prints the final line, and removes the files of a successful
// experiment.
func (x *experiment) Report(stdout io.Writer) (sound bool, err error) {
	v, recoveries := x.verdict, 0
	for _, n := range v.Recoveries {
		recoveries += n
	}
	fmt.Fprintf(x.Output, "%d steps in %d executions, %d recoveries %v, %s, %d caught between look and step, seed %d\n",
		v.Steps, v.Executions, recoveries, v.Recoveries, x.harms(), v.Caught, x.Seed)
	for _, l := range v.Limits {
		fmt.Fprintln(x.Output, l)
	}
	if x.limits {
		fmt.Fprintf(x.Output, "%d pauses of limits, keys and runs\n", x.Count(pauses))
		fmt.Fprintf(x.Output, "%d attempts lost their fence while they were under way, %d of them of workers that were not suspended\n", v.Void, v.VoidAwake)
	}
	if !v.Sound() || x.keep {
		if err := x.explain(); err != nil {
			return false, err
		}
	}
	if x.JSON {
		fmt.Fprintln(x.Output, v)
		err = x.reportJSON(stdout)
	} else {
		_, err = fmt.Fprintln(stdout, v)
	}
	if v.Sound() && err == nil && !x.keep {
		err = os.RemoveAll(x.Dir)
	}
	return v.Sound(), err
}

// most is the maximum number of printed violations of each kind. A file contains all violations.
const most = 10

// explain prints the violations. It writes all violations and the logs of the affected runs to
// files.
func (x *experiment) explain() error {
	var all bytes.Buffer
	harm.PrintViolations(&all, x.verdict.Violations, math.MaxInt)
	if err := os.WriteFile(filepath.Join(x.Dir, "violations.txt"), all.Bytes(), 0o600); err != nil {
		return err
	}
	harm.PrintViolations(x.Output, x.verdict.Violations, most)
	seen := map[check.Kind]int{}
	for _, v := range x.verdict.Violations {
		if seen[v.Kind]++; v.Run == "" || seen[v.Kind] > most {
			continue
		}
		var log bytes.Buffer
		if err := check.Dump(&log, x.evidence, v.Run); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(x.Dir, string(v.Run)+".txt"), log.Bytes(), 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(x.Output, "%d violations; all of them, the logs of the runs and of the processes are in %s\n", len(x.verdict.Violations), x.Dir)
	if p := x.Prefix(); p != "" {
		fmt.Fprintf(x.Output, "the keys on the server begin with {%s:\n", p)
	}
	return nil
}

func (x *experiment) reportJSON(stdout io.Writer) error {
	return json.NewEncoder(stdout).Encode(struct {
		Store          string  `json:"store"`
		Seed           uint64  `json:"seed"`
		Workers        int     `json:"workers"`
		Seconds        float64 `json:"seconds"` // duration of the experiment in seconds
		Kills          int     `json:"kills"`
		Stalls         int     `json:"stalls"`
		Stops          int     `json:"stops"`
		ServerRestarts int     `json:"serverRestarts"`
		Failovers      int     `json:"failovers"`
		Changes        int     `json:"changes"`
		Pauses         int     `json:"pauses"`
		*check.Verdict
		Sound bool   `json:"sound"`
		Dir   string `json:"dir"`
	}{
		x.store, x.Seed, x.Workers, x.Seconds(), x.Count(harm.Kills), x.Count(harm.Stalls), x.Count(harm.Stops), x.Count(harm.Restarts),
		x.Count(failovers), x.Count(changes), x.Count(pauses), x.verdict, x.verdict.Sound(), x.Dir,
	})
}
