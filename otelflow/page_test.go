package otelflow_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/otelflow"
)

// TestOPS4_ThePageListsTheMetrics proves that the table of docs/use/telemetry.md lists the metrics
// of the code. It prints the rows that belong there.
func TestOPS4_ThePageListsTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/use/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	const head = "| metric | kind | unit | attributes | meaning |\n|---|---|---|---|---|\n"
	_, got, ok := strings.Cut(string(page), head)
	if !ok {
		t.Fatal("the page has no table of metrics")
	}
	got, _, _ = strings.Cut(got, "\n\n")
	var want []string
	for _, m := range otelflow.Metrics() {
		attrs := "–"
		if len(m.Attributes) > 0 {
			attrs = "`" + strings.Join(m.Attributes, "` `") + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.Name, m.Kind, m.Unit, attrs, m.Meaning))
	}
	if diff := gocmp.Diff(strings.Join(want, "\n"), strings.TrimSuffix(got, "\n")); diff != "" {
		t.Errorf("table (-want +got):\n%s\n%s", diff, strings.Join(want, "\n"))
	}
}
