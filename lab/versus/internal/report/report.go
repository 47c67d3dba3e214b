// Package report writes the figures of all systems as JSON, as tables and as a chart.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/lab/versus/internal/measure"
	"github.com/flowgen/flowgen/lab/versus/internal/peer"
)

// Report contains the figures of a comparison, and what they depend on.
type Report struct {
	Date     string            `json:"date"`
	Command  string            `json:"command"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"` // of Go and the servers
	Options  measure.Options   `json:"options"`
	Rounds   int               `json:"rounds"`
	Results  []*measure.Result `json:"results"` // by workload, in the order of the systems
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTables writes the report as Markdown: a table for each workload.
func (r *Report) WriteTables(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "`%s` on %s: %s. %s.\n\n", r.Command, r.Date, r.Machine, r.versions())
	fmt.Fprintf(&b, "%s Up to %d runs and steps at the same time; a measurement lasts %s.\n", medians(r.Rounds), r.Options.Concurrency, r.Options.Duration)
	for _, l := range measure.Workloads {
		rows := r.of(l)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n**`%s`**: %s. p50 and p99: %s.\n\n", l.Name, l.About, l.Latency)
		b.WriteString("| store | system | steps/s | p50 ms | p99 ms | result p50 ms | result p99 ms | CPU us/step, worker | server |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
		for _, row := range rows {
			writeRow(&b, row)
		}
		writeNotes(&b, rows)
	}
	_, err := b.WriteTo(w)
	return err
}

// of returns the results of a workload.
func (r *Report) of(l *measure.Workload) []*measure.Result {
	var rows []*measure.Result
	for _, row := range r.Results {
		if row.Workload == l.Name {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *Report) versions() string {
	var all []string
	for _, name := range []string{"Go", "Redis", "PostgreSQL"} {
		if v := r.Versions[name]; v != "" {
			all = append(all, name+" "+v)
		}
	}
	return strings.Join(all, ", ")
}

func medians(rounds int) string {
	if rounds == 1 {
		return "One measurement each."
	}
	return fmt.Sprintf("Medians of %d measurements, in alternating order.", rounds)
}

func writeRow(b *bytes.Buffer, r *measure.Result) {
	if r.Skipped != "" {
		fmt.Fprintf(b, "| %s | %s | skipped | | | | | | |\n", r.Store, r.System)
		return
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Store, r.System,
		number(r.StepsPerSecond), number(r.P50), number(r.P99), number(r.ResultP50), number(r.ResultP99), number(r.WorkerCPU), number(r.ServerCPU))
}

// writeNotes explains rows without figures and rows whose steps were executed more than once.
func writeNotes(b *bytes.Buffer, rows []*measure.Result) {
	for _, r := range rows {
		switch {
		case r.Skipped != "":
			fmt.Fprintf(b, "\n%s on %s was skipped: %s\n", r.System, r.Store, r.Skipped)
		case r.Executions != r.Steps:
			fmt.Fprintf(b, "\n%s on %s executed %d steps %d times.\n", r.System, r.Store, r.Steps, r.Executions)
		}
	}
}

// number formats a figure with three digits, or as a dash if there is none.
func number(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// WriteSystems writes a table of the systems, their versions and settings.
func WriteSystems(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("| store | system | version | settings |\n|---|---|---|---|\n")
	for _, s := range peer.Systems {
		fmt.Fprintf(&b, "| %s | %s | [%s](https://pkg.go.dev/%s) | %s |\n", s.Store, s.Name, s.Version(), s.Module, s.Settings)
	}
	_, err := b.WriteTo(w)
	return err
}

// The names of files below a directory of documentation.
const (
	page  = "comparison.md"
	data  = "comparison/comparison.json"
	chart = "comparison/steps.svg"
)

// WriteDocs writes the report to the page comparison.md of a directory, between its markers, and
// the JSON and the chart to files beside it.
func (r *Report) WriteDocs(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, page))
	if err != nil {
		return err
	}
	var tables, systems, jsonText, picture bytes.Buffer
	if err := r.WriteTables(&tables); err != nil {
		return err
	}
	if err := WriteSystems(&systems); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"figures": tables.String() + "\n![steps per second](" + chart + ")\n", "systems": systems.String(),
	} {
		if text, err = replace(text, name, content); err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
	}
	if err := r.WriteJSON(&jsonText); err != nil {
		return err
	}
	if err := r.WriteChart(&picture); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(chart)), 0o755); err != nil { //nolint:gosec // documentation is public
		return err
	}
	for name, content := range map[string][]byte{page: text, data: jsonText.Bytes(), chart: picture.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // documentation is public
			return err
		}
	}
	return nil
}

// replace replaces the text between the markers of a name.
func replace(text []byte, name, content string) ([]byte, error) {
	begin, end := "<!-- versus: "+name+" -->\n", "<!-- versus: end -->\n"
	before, rest, found := bytes.Cut(text, []byte(begin))
	if !found {
		return nil, fmt.Errorf("marker %q is missing", begin)
	}
	_, after, found := bytes.Cut(rest, []byte(end))
	if !found {
		return nil, fmt.Errorf("marker %q is missing", end)
	}
	return bytes.Join([][]byte{before, []byte(begin + "\n" + content + "\n" + end), after}, nil), nil
}
