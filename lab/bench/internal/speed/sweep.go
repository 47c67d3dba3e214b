package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/flowgen/flowgen/lab/bench/internal/plot"
)

// most contains the largest sizes of a sweep, unless the user gives others.
var most = size{runs: 100_000, steps: 10_000}

// sweep runs the workload "chain" with increasing numbers of runs and the workload "long" with
// increasing numbers of steps. It draws charts of the cost per run and per step.
func sweep(ctx context.Context, t target, o *options, p *progress, stdout io.Writer) error {
	if err := os.MkdirAll(o.plot, 0o755); err != nil { //nolint:gosec // plots are for everybody
		return fmt.Errorf("make the directory of the plots: %w", err)
	}
	out, limit := newPrinter(stdout, o), o.size.or(most)
	grow := func(name string, most int, size func(n int) size) ([]*Result, error) {
		var all []*Result
		for _, n := range decades(most) {
			o := *o
			o.size = size(n)
			var results []*Result
			for range o.count {
				p.sayf("%s: %d of %d", name, n, most)
				r, err := measure(ctx, t, workloadNamed(name), &o, p)
				if err != nil {
					return nil, fmt.Errorf("measure %s of size %d on %s: %w", name, n, t.name(), err)
				}
				results = append(results, r)
			}
			p.done()
			r := median(results)
			if err := out.print(r); err != nil {
				return nil, fmt.Errorf("print the result of %s: %w", name, err)
			}
			all = append(all, r)
		}
		return all, nil
	}
	byRuns, err := grow("chain", limit.runs, func(n int) size { return size{runs: n} })
	if err != nil {
		return err
	}
	bySteps, err := grow("long", limit.steps, func(n int) size { return size{steps: n} })
	if err != nil {
		return err
	}
	runs, steps := func(r *Result) float64 { return float64(r.Runs) }, func(r *Result) float64 { return float64(r.Steps) }
	where := " on " + t.name()
	return errors.Join(
		draw(o.plot, "runs-time.svg", "A step of a three-step run"+where, "runs", "us per step", runs, byRuns, times),
		draw(o.plot, "runs-bytes.svg", "What a three-step run leaves"+where, "runs", "bytes per run", runs, byRuns, bytesPerRun),
		draw(o.plot, "steps-time.svg", "A step of one run"+where, "steps", "us per step", steps, bySteps, times),
		draw(o.plot, "steps-bytes.svg", "What a step leaves"+where, "steps", "bytes per step", steps, bySteps, bytesPerStep),
	)
}

// decades returns the powers of ten from 10 up to most, followed by most.
func decades(most int) []int {
	var all []int
	for n := 10; n < most; n *= 10 {
		all = append(all, n)
	}
	return append(all, most)
}

// curve is a field of Result to draw as a line.
type curve struct {
	name string
	of   func(*Result) float64
}

var (
	times = []curve{
		{"time", func(r *Result) float64 { return 1e6 / r.StepsPerSecond }},
		{"CPU, this process", func(r *Result) float64 { return r.WorkerCPUPerStep }},
		{"CPU, server", func(r *Result) float64 { return r.ServerCPUPerStep }},
	}
	bytesPerRun  = []curve{{"bytes", func(r *Result) float64 { return r.BytesPerRun }}}
	bytesPerStep = []curve{{"bytes", func(r *Result) float64 { return r.BytesPerRun * float64(r.Runs) / float64(r.Steps) }}}
)

// draw writes a chart that shows the curves over the size of each result.
func draw(dir, name, title, x, y string, size func(*Result) float64, results []*Result, curves []curve) (err error) {
	c := plot.Chart{Title: title, X: x, Y: y}
	for _, one := range curves {
		l := plot.Line{Name: one.name}
		for _, r := range results {
			l.Points = append(l.Points, plot.Point{X: size(r), Y: one.of(r)})
		}
		c.Lines = append(c.Lines, l)
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("create the file of a plot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return c.Encode(f)
}
