// Package deploy measures how a deployment of different code affects active runs. It uses worker
// processes of two builds on one store, and runs with long steps. Half of the runs start before the
// deployment and half during it.
//
// Each cell of its table is one such deployment. flows.go contains the code of both builds, cell.go
// executes one deployment, and watch.go observes blocked runs.
package deploy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Worker is the role of the worker processes.
var Worker = harm.Role{Name: "deploy-worker", Work: func(args *flag.FlagSet) func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
	var b build
	args.BoolVar(&b.changed, "changed", false, "")
	args.BoolVar(&b.version, "version", false, "")
	return func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
		return worker.Config{
			Concurrency: 400, Grace: 500 * time.Millisecond, Heartbeat: time.Second, ClaimExpiry: 5 * time.Second,
		}, func(r workflow.Registrar) { b.register(r) }
	}
}}

// Main executes the deployments and prints the outcomes of the runs as a Markdown table.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("deploy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	runs := flags.Int("runs", 500, "number of open runs at each deployment")
	step := flags.Duration("step", 2*time.Second, "duration of a step")
	pace := flags.Duration("pace", 3*time.Second, "time between the steps of a deployment")
	only := flags.String("only", "", "execute only the deployments that match this regular expression, for example redis/rolling")
	ramp := flags.Bool("ramp", false, "distribute new runs over two builds by percentage and roll back, instead of replacing workers")
	kills := flags.Bool("kill", false, "also execute each deployment with workers that are killed")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return harm.ExitSound
	case err != nil:
		return harm.ExitUsage
	}
	wanted, err := regexp.Compile(*only)
	dir, err2 := os.MkdirTemp("", "deploy-")
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintf(stderr, "bench deploy: %v\n", err)
		return harm.ExitUsage
	}
	fmt.Fprintf(stderr, "bench deploy: logs are in %s\n", dir)
	if *ramp {
		return rampAll(ctx, dir, wanted, *runs, *step, stdout, stderr)
	}
	fmt.Fprint(stdout, tableHead)
	sound := true
	for n, c := range cells(*kills) {
		if !wanted.MatchString(c.name()) {
			continue
		}
		c.runs, c.step, c.pace, c.still = *runs, *step, *pace, 8*time.Second
		got, err := c.play(ctx, filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			fmt.Fprintf(stderr, "bench deploy: %s: %v\n", c.name(), err)
			return harm.ExitBroken
		}
		fmt.Fprintln(stdout, c.row(&got))
		sound = sound && got.failed == 0 && got.completed == c.runs
	}
	if !sound {
		return harm.ExitBroken
	}
	_ = os.RemoveAll(dir) // The logs remain if the removal fails.
	return harm.ExitSound
}

// rampAll executes the ramps that match and prints their table.
func rampAll(ctx context.Context, dir string, wanted *regexp.Regexp, runs int, step time.Duration, stdout, stderr io.Writer) int {
	fmt.Fprint(stdout, rampHead)
	code := harm.ExitSound
	for n, p := range ramps() {
		if !wanted.MatchString(p.name()) {
			continue
		}
		p.runs, p.step = runs, step
		got, err := p.play(ctx, filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			fmt.Fprintf(stderr, "bench deploy: %s: %v\n", p.name(), err)
			return harm.ExitBroken
		}
		fmt.Fprintln(stdout, p.row(&got))
		if got.tooEarly > 0 || got.completed != runs || p.pin && !p.early && got.blocked > 0 {
			code = harm.ExitBroken
		}
	}
	return code
}

const tableHead = `| store | deploy | ` + "`Version`" + ` | workers end by | completed | failed | blocked by a worker | longest | until old or new code came back | attempts used up | given back | took |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

// cells returns all deployments of the table. kills selects whether workers are also ended with
// SIGKILL.
func cells(kills bool) []cell {
	var all []cell
	for _, kill := range []bool{false, true} {
		for _, store := range []string{"sqlite", "redis"} {
			for _, strategy := range strategies {
				for _, version := range []bool{true, false} {
					if !kill || kills {
						all = append(all, cell{store: store, strategy: strategy, version: version, kill: kill})
					}
				}
			}
		}
	}
	return all
}

func (c *cell) signal() string {
	if c.kill {
		return "SIGKILL"
	}
	return "SIGTERM"
}

func (c *cell) asks() string {
	if c.version {
		return "yes"
	}
	return "no"
}

// name returns the description of a cell's deployment.
func (c *cell) name() string {
	return fmt.Sprintf("%s/%s/version=%s/%s", c.store, c.strategy.name, c.asks(), c.signal())
}

func (c *cell) row(got *outcome) string {
	return fmt.Sprintf("| %s | %s | %s | %s | %d of %d | %d | %d | %.1f s | %d | %d | %d | %d s |", c.store, c.strategy.name, c.asks(), c.signal(),
		got.completed, c.runs, got.failed, got.blocked, got.longest.Seconds(), got.waited, got.used, got.given, int(got.took/time.Second))
}
