package speed

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// printer prints results as lines of JSON, rows of a table or readable blocks.
type printer struct {
	out   io.Writer
	json  *json.Encoder // nil if the output is not JSON
	table bool
	rows  int // number of rows that have been printed
}

func newPrinter(out io.Writer, o *options) *printer {
	p := &printer{out: out, table: o.table}
	if o.json {
		p.json = json.NewEncoder(out)
	}
	return p
}

func (p *printer) print(r *Result) error {
	switch {
	case p.json != nil:
		return p.json.Encode(r)
	case p.table:
		return p.row(r)
	}
	return p.block(r)
}

// columns contains the columns of the table. The name of the workload precedes them.
var columns = []struct {
	name  string
	value func(r *Result) string
}{
	{"steps/s", func(r *Result) string { return fmt.Sprintf("%.0f", r.StepsPerSecond) }},
	{"ratio to limit", func(r *Result) string { return fmt.Sprintf("%.3f", r.RatioToLimit) }},
	{"p50 ms", func(r *Result) string { return fmt.Sprintf("%.3f", r.P50ms) }},
	{"p99 ms", func(r *Result) string { return fmt.Sprintf("%.3f", r.P99ms) }},
	{"commits/step", func(r *Result) string { return fmt.Sprintf("%.4f", r.CommitsPerStep) }},
	{"commands/run", func(r *Result) string { return fmt.Sprintf("%.4g", r.CommandsPerRun) }},
	{"CPU us/step, worker", func(r *Result) string { return fmt.Sprintf("%.1f", r.WorkerCPUPerStep) }},
	{"server", func(r *Result) string { return fmt.Sprintf("%.1f", r.ServerCPUPerStep) }},
	{"allocations/step", func(r *Result) string { return fmt.Sprintf("%.1f", r.AllocsPerStep) }},
	{"bytes/run", func(r *Result) string { return fmt.Sprintf("%.0f", r.BytesPerRun) }},
}

// row prints a row of the table. It prints the head of the table before the first row.
func (p *printer) row(r *Result) error {
	var b strings.Builder
	if p.rows++; p.rows == 1 {
		b.WriteString("| workload |")
		for _, c := range columns {
			b.WriteString(" " + c.name + " |")
		}
		b.WriteString("\n" + strings.Repeat("|---", len(columns)+1) + "|\n")
	}
	b.WriteString("| `" + r.Workload + "` |")
	for _, c := range columns {
		b.WriteString(" " + c.value(r) + " |")
	}
	_, err := fmt.Fprintln(p.out, b.String())
	return err
}

// block prints a result in readable form.
func (p *printer) block(r *Result) error {
	rows := []struct{ name, value string }{
		{"throughput", fmt.Sprintf("%.0f %ss/s, %.1f runs/s", r.StepsPerSecond, r.Unit, r.RunsPerSecond)},
		{"limit", fmt.Sprintf("%.0f bare appends/s: commits reach %.3f of it, %ss %.3f", r.LimitPerSecond, r.RatioToLimit, r.Unit, r.StepsToLimit)},
		{"latency", fmt.Sprintf("p50 %.3f ms, p99 %.3f ms", r.P50ms, r.P99ms)},
		{"commits", fmt.Sprintf("%.3f per %s, %.0f at once", r.CommitsPerStep, r.Unit, r.CommitsPerBatch)},
		{"commands", fmt.Sprintf("%.2f per run, %.2f per %s; the server executes %.1f per run", r.CommandsPerRun, r.CommandsPerStep, r.Unit, r.ServerCallsPerRun)},
		{"CPU", fmt.Sprintf("%.1f us of this process and %.1f us of the server per %s", r.WorkerCPUPerStep, r.ServerCPUPerStep, r.Unit)},
		{"allocations", fmt.Sprintf("%.1f, %.0f bytes per %s", r.AllocsPerStep, r.AllocBytesPerStep, r.Unit)},
		{"memory", fmt.Sprintf("%.1f MB at most", r.PeakMemoryMB)},
		{"store", fmt.Sprintf("%.0f bytes per run", r.BytesPerRun)},
	}
	if r.EarlyStepUs > 0 {
		rows = append(rows, struct{ name, value string }{"growth", fmt.Sprintf("an early step takes %.1f us, a late one %.1f us", r.EarlyStepUs, r.LateStepUs)})
	}
	if r.ParkedMemoryMB > 0 {
		rows = append(rows, struct{ name, value string }{"parked", fmt.Sprintf("%.0f runs/s started and parked; then %.1f MB in use, %.0f bytes per run",
			r.ParkedPerSecond, r.ParkedMemoryMB, r.ParkedBytesPerRun)})
	}
	if r.EventsPerLog > 0 {
		rows = append(rows, struct{ name, value string }{"log", fmt.Sprintf("%.0f events", r.EventsPerLog)})
	}
	_, err := fmt.Fprintf(p.out, "%s on %s: %d %ss in %d runs, %.2f s", r.Workload, r.Store, r.Steps, r.Unit, r.Runs, r.Seconds)
	if r.Count > 1 && err == nil {
		_, err = fmt.Fprintf(p.out, "; medians of %d", r.Count)
	}
	for _, row := range rows {
		if err == nil {
			_, err = fmt.Fprintf(p.out, "\n  %-12s %s", row.name, row.value)
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(p.out)
	}
	return err
}
