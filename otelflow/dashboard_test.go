package otelflow_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/promtest"
	"github.com/flowgen/flowgen/otelflow"
)

// dashboard returns the queries of the dashboard, by title of the panel.
func dashboard(t *testing.T) map[string][]string {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../docs/grafana/flowgen.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], strings.NewReplacer("$__rate_interval", "1m", "$workflow", ".*").Replace(target.Expr))
		}
	}
	return queries
}

func TestOPS4_PrometheusAnswersEachQueryOfTheDashboard(t *testing.T) {
	provider, target := scraped(t)
	everything(t, otelflow.Config{MeterProvider: provider})
	prom := promtest.Start(t, target)
	queries := dashboard(t)
	if len(queries) < 10 {
		t.Fatalf("the dashboard has %d panels with queries", len(queries))
	}
	for title, all := range queries {
		for _, query := range all {
			prom.Eventually(title+": an answer to "+query, func() bool { return len(prom.Query(query)) > 0 })
		}
	}
}

func TestOPS4_DashboardAndAlertsNameMetricsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range otelflow.Metrics() {
		known[promName(m)] = true
		if m.Kind == otelflow.Histogram {
			known[promName(m)+"_bucket"] = true
		}
	}
	files := []string{"../docs/grafana/flowgen.json"}
	rules, err := filepath.Glob("../docs/prometheus/*.yml")
	if err != nil || len(rules) == 0 {
		t.Fatalf("alert rules: %v, %v", rules, err)
	}
	used := map[string]bool{}
	for _, file := range append(files, rules...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bflowgen_[a-z_]+`).FindAllString(string(text), -1) {
			used[name] = true
			if !known[name] {
				t.Errorf("%s names %s, which is not exported", file, name)
			}
		}
	}
	for _, m := range otelflow.Metrics() {
		if !strings.HasPrefix(m.Name, "messaging.") && !used[promName(m)] && !used[promName(m)+"_bucket"] {
			t.Errorf("metric %s is on no panel and in no rule", m.Name)
		}
	}
	for _, file := range rules {
		if out, ok := promtest.Tool(t, "check", "rules", file); !ok || !strings.Contains(out, "SUCCESS") {
			t.Errorf("promtool check rules %s: %s", file, out)
		}
	}
}

func TestOPS4_HistogramsHaveExemplarsWithTheTraceOfTheRun(t *testing.T) {
	everyWay(t, hasExemplars)
}

func hasExemplars(t *testing.T, cfg otelflow.Config, target string) {
	r := newReceiver(t)
	cfg.TracerProvider = r.provider()
	s := newSite(t, otelflow.New(cfg))
	prom := promtest.Start(t, target)
	if _, err := s.start(1).Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	var found []string
	prom.Eventually("an exemplar", func() bool {
		found = prom.Exemplars("flowgen_step_duration_seconds_bucket")
		return len(found) > 0
	})
	s.stop()
	all, _ := r.spans()
	known := traces(all)
	for _, id := range found {
		if !slices.Contains(known, id) {
			t.Errorf("exemplar of trace %q, want one of %v", id, known)
		}
	}
}
