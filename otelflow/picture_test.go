package otelflow_test

import (
	"cmp"
	"encoding/hex"
	"flag"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/flowgen/flowgen/internal/testutil/promtest"
	"github.com/flowgen/flowgen/otelflow"
)

var pictures = flag.String("pictures", "", "directory in which the pictures of docs/use/telemetry.md are drawn (a minute)")

// TestPictures_DrawThePageOfTelemetry draws the pictures of the page from real runs: the trace of a
// run whose workers were killed, and queries of the dashboard in a Prometheus server.
func TestPictures_DrawThePageOfTelemetry(t *testing.T) {
	if *pictures == "" {
		t.Skip("without -pictures")
	}
	out, err := filepath.Abs(*pictures)
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	killAt(t, "sqlite:"+filepath.Join(t.TempDir(), "flows.db"), 2, r)
	all, _ := r.spans()
	page := filepath.Join(t.TempDir(), "trace.html")
	if err := os.WriteFile(page, []byte(waterfall(all)), 0o600); err != nil {
		t.Fatal(err)
	}
	draw(t, "file://"+page, filepath.Join(out, "telemetry-trace.png"), 1100, 80+30*len(all))

	provider, target := scraped(t)
	s := newSite(t, otelflow.New(otelflow.Config{MeterProvider: provider}))
	prom := promtest.Start(t, target)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := range 3000 {
		<-tick.C
		in := n + 1
		if n%7 == 0 {
			in = badOrder
		}
		s.start(in)
	}
	queries := dashboard(t)
	graphs := url.Values{}
	for i, title := range []string{"Runs that began and ended", "Attempts of steps"} {
		for k, v := range map[string]string{"expr": queries[title][len(queries[title])-1], "tab": "0", "range_input": "1m", "stacked": "0"} {
			graphs.Set(fmt.Sprintf("g%d.%s", i, k), strings.ReplaceAll(v, "[1m]", "[5s]"))
		}
	}
	draw(t, prom.URL+"/classic/graph?"+graphs.Encode(), filepath.Join(out, "telemetry-metrics.png"), 1200, 1590)
}

// draw takes a picture of a page.
func draw(t *testing.T, page, file string, width, height int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=10000",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+file, page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// waterfall returns a page that shows spans as bars.
func waterfall(all []*tracepb.Span) string {
	slices.SortStableFunc(all, func(x, y *tracepb.Span) int {
		return cmp.Or(cmp.Compare(x.StartTimeUnixNano, y.StartTimeUnixNano), -cmp.Compare(x.EndTimeUnixNano, y.EndTimeUnixNano))
	})
	from, to := all[0].StartTimeUnixNano, all[0].EndTimeUnixNano
	for _, s := range all {
		to = max(to, s.EndTimeUnixNano)
	}
	depth := map[string]int{}
	var b strings.Builder
	fmt.Fprintf(&b, `<body style="font:14px sans-serif;margin:16px"><div style="margin-bottom:12px">trace %s · %d spans · %.0f ms</div>`,
		hex.EncodeToString(all[0].TraceId), len(all), float64(to-from)/1e6)
	var under func(parent string)
	under = func(parent string) {
		for _, s := range all {
			if string(s.ParentSpanId) != parent {
				continue
			}
			if parent != "" {
				depth[string(s.SpanId)] = depth[parent] + 1
			}
			color := "#4c78a8"
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
				color = "#d62728"
			}
			worker := attribute(s, "flowgen.worker")
			if worker != "" {
				worker += " " + attribute(s, "flowgen.outcome")
			}
			left, width := 100*float64(s.StartTimeUnixNano-from)/float64(to-from), 100*float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/float64(to-from)
			fmt.Fprintf(&b, `<div style="display:flex;height:30px"><div style="width:260px;padding-left:%dpx">%s</div><div style="flex:1;position:relative">`+
				`<div style="position:absolute;left:%.2f%%;width:max(3px,%.2f%%);height:18px;background:%s"></div></div><div style="width:240px;padding-left:12px;color:#555">%.0f ms %s</div></div>`,
				14*depth[string(s.SpanId)], html.EscapeString(s.Name), left, width, color, float64(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6, html.EscapeString(worker))
			under(string(s.SpanId))
		}
	}
	under("")
	return b.String()
}
