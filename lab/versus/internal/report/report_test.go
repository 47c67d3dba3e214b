package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/lab/versus/internal/measure"
	"github.com/flowgen/flowgen/lab/versus/internal/report"
)

var example = &report.Report{
	Date: "2026-12-01", Command: "versus", Machine: "a machine", Versions: map[string]string{"Go": "1.26"}, Rounds: 3,
	Results: []*measure.Result{
		{System: "flowgen", Store: "Redis", Workload: "chain", Steps: 3, Executions: 3, StepsPerSecond: 1234.5, P50: 0.25, P99: 12.25},
		{System: "a peer", Store: "Redis", Workload: "chain", Steps: 3, Executions: 4, StepsPerSecond: 617},
		{System: "a peer", Store: "PostgreSQL", Workload: "chain", Skipped: "initdb is missing"},
	},
}

func TestWriteDocs_ReplacesWhatIsBetweenTheMarkers(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "comparison.md")
	text := "# Title\n\n<!-- versus: systems -->\nearlier\n<!-- versus: end -->\nbetween\n<!-- versus: figures -->\nearlier\n<!-- versus: end -->\nafter\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := example.WriteDocs(dir); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	for _, want := range []string{
		"# Title\n", "\nbetween\n", "\nafter\n", "| Redis | flowgen | 1234 | 0.250 | 12.2 |", "| PostgreSQL | a peer | skipped |",
		"a peer on PostgreSQL was skipped: initdb is missing", "a peer on Redis executed 3 steps 4 times.", "| Redis | asynq | [",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the page has %q %d times, want once:\n%s", want, strings.Count(got, want), got)
		}
	}
	if strings.Contains(got, "earlier") {
		t.Error("the page has its earlier figures")
	}
	for _, file := range []string{"comparison/comparison.json", "comparison/steps.svg"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteDocs_RefusesAPageWithoutMarkers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "comparison.md"), []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := example.WriteDocs(dir); err == nil || !strings.Contains(err.Error(), "marker") {
		t.Errorf("error %v, want one about a marker", err)
	}
}

func TestWriteChart_ScalesBarsOfAWorkload(t *testing.T) {
	var b strings.Builder
	if err := example.WriteChart(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`width="460.0"`, `width="229.9"`, `width="0.0"`, ">skipped<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the chart lacks %s", want)
		}
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
