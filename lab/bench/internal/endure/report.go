package endure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
)

// result contains the figures of an experiment.
type result struct {
	Runs      int `json:"runs"`
	Completed int `json:"completed"` // runs with the required result
	Lost      int `json:"lost"`      // runs that neither completed nor are excused
	Excused   int `json:"excused"`   // runs affected by a deleted key
	Survived  int `json:"survived"`  // excused runs that completed with the required result

	Median  time.Duration `json:"standstillMedian"`
	P99     time.Duration `json:"standstillP99"`
	Longest time.Duration `json:"standstillLongest"`
	Where   string        `json:"standstillWhere"`

	Deploys int `json:"deploys"`
	Bounces int `json:"bounces"`
	Deleted int `json:"deleted"`
	Shared  int `json:"deletedShared"`
	Fixes   int `json:"repairs"`

	Lines  float64 `json:"linesPerMinute"`
	Errors float64 `json:"errorsPerMinute"`

	Problems []string `json:"problems"`
}

// judge compares the outcome of each run with the required outcome.
func (e *experiment) judge() *result {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &result{
		Runs: e.started, Deploys: e.deploys(), Bounces: e.Count(harm.Restarts), Deleted: len(e.damaged), Shared: e.shared, Fixes: e.fixes,
	}
	for _, v := range e.Violations {
		r.Problems = append(r.Problems, v.String())
	}
	r.Lost = e.started - len(e.journeys)
	if r.Lost > 0 {
		r.Problems = append(r.Problems, fmt.Sprintf("%d runs could not be started", r.Lost))
	}
	var stills []time.Duration
	for _, j := range e.journeys {
		_, excused := e.excused[j.run]
		well := j.done && j.wrong == ""
		switch {
		case excused:
			r.Excused++
			if well {
				r.Survived++
			}
			continue
		case !well:
			r.Lost++
			why := j.wrong
			if !j.done {
				why = "it has not ended"
			}
			r.Problems = append(r.Problems, fmt.Sprintf("run %s (journey-%d): %s", j.run, j.job.ID, why))
			continue
		}
		r.Completed++
		stills = append(stills, j.still)
		if j.still > r.Longest {
			r.Longest, r.Where = j.still, fmt.Sprintf("run %s after %s", j.run, j.where)
		}
	}
	slices.Sort(stills)
	if n := len(stills); n > 0 {
		r.Median, r.P99 = stills[n/2], stills[n*99/100]
	}
	r.Lines, r.Errors = e.logged()
	return r
}

// logged returns the number of log lines of the workers per minute, and the number of those lines
// that report errors.
func (e *experiment) logged() (lines, failures float64) {
	files, err := filepath.Glob(filepath.Join(e.Dir, "worker-*.log"))
	if err != nil {
		return 0, 0
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		scan := bufio.NewScanner(f)
		scan.Buffer(nil, 1<<24)
		for scan.Scan() {
			lines++
			if strings.Contains(scan.Text(), "level=ERROR") {
				failures++
			}
		}
		_ = f.Close()
	}
	minutes := e.Seconds() / 60
	return lines / minutes, failures / minutes
}

// most is the maximum number of printed problems.
const most = 30

// Report prints the figures and the problems.
func (e *experiment) Report(stdout io.Writer) (sound bool, err error) {
	r := e.judge()
	for _, p := range r.Problems[:min(most, len(r.Problems))] {
		fmt.Fprintln(e.Output, p)
	}
	if more := len(r.Problems) - most; more > 0 {
		fmt.Fprintf(e.Output, "and %d more\n", more)
	}
	sound = r.Lost == 0 && len(r.Problems) == 0
	if e.JSON {
		return sound, json.NewEncoder(stdout).Encode(r)
	}
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	_, err = fmt.Fprintf(stdout, `%d deploys, %d bounces of the server, %d keys deleted (%d of the store itself), %d repairs
runs %d completed %d lost %d excused %d (ended all the same %d)
standstill of runs that are not excused: median %v, p99 %v, longest %v (%s)
lines of log per minute: %.1f, of level ERROR %.1f
`, r.Deploys, r.Bounces, r.Deleted, r.Shared, r.Fixes, r.Runs, r.Completed, r.Lost, r.Excused, r.Survived,
		round(r.Median), round(r.P99), round(r.Longest), r.Where, r.Lines, r.Errors)
	return sound, err
}
