package otelflow_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowgen/flowgen/internal/testutil/promtest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/ops"
)

// scraped returns a provider of metrics and the address at which Prometheus scrapes them.
func scraped(t *testing.T, opts ...exporter.Option) (*metric.MeterProvider, string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(append(opts, exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	t.Cleanup(server.Close)
	return metric.NewMeterProvider(metric.WithReader(reader)), strings.TrimPrefix(server.URL, "http://")
}

// everyWay calls f with the configurations that export metrics, and the address at which they are
// scraped.
func everyWay(t *testing.T, f func(*testing.T, otelflow.Config, string)) {
	t.Run("meter provider", func(t *testing.T) {
		provider, target := scraped(t)
		f(t, otelflow.Config{MeterProvider: provider}, target)
	})
	t.Run("producer", func(t *testing.T) {
		p := otelflow.NewProducer()
		provider, target := scraped(t, exporter.WithProducer(p))
		f(t, otelflow.Config{MeterProvider: provider, Producer: p}, target)
	})
}

func TestOPS4_PrometheusScrapesTheMetricsOfRuns(t *testing.T) {
	everyWay(t, scrapesTheMetricsOfRuns)
}

func scrapesTheMetricsOfRuns(t *testing.T, cfg otelflow.Config, target string) {
	s := newSite(t, otelflow.New(cfg))
	stop, err := otelflow.ObserveStore(s.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	prom := promtest.Start(t, target)
	const good, bad = 5, 2
	for n := range good {
		if _, err := s.start(n).Result(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range bad {
		if _, err := s.start(badOrder).Result(t.Context()); err == nil {
			t.Fatal("the order has not failed")
		}
	}
	// Exact values, from the code of the workflows.
	for expr, want := range map[string]float64{
		`flowgen_run_started_total{workflow="shop.order",queue="default"}`:                                     good + bad,
		`flowgen_run_started_total{workflow="shop.shipment"}`:                                                  good,
		`flowgen_run_ended_total{workflow="shop.order",outcome="completed"}`:                                   good,
		`flowgen_run_ended_total{workflow="shop.order",outcome="failed",error_type="errors.*errorString"}`:     bad,
		`flowgen_step_attempts_total{workflow="shop.order",step="shop.reserve",outcome="completed"}`:           good + bad,
		`flowgen_step_attempts_total{step="shop.reserve",outcome="retrying",error_type="errors.*errorString"}`: good + bad,
		`flowgen_step_attempts_total{workflow="shop.shipment",step="shop.ship",outcome="completed"}`:           good,
		`flowgen_run_duration_seconds_count{workflow="shop.order"}`:                                            good + bad,
		`flowgen_step_duration_seconds_count{step="shop.reserve"}`:                                             2 * (good + bad),
		`flowgen_queue_wait_seconds_count{workflow="shop.order"}`:                                              good + bad,
		`flowgen_slot_wait_seconds_count{step="shop.reserve"}`:                                                 2 * (good + bad),
		`flowgen_timer_lateness_seconds_count{workflow="shop.order"}`:                                          good,
		`flowgen_log_length_count{workflow="shop.order"}`:                                                      good + bad,
		`flowgen_payload_size_bytes_count{workflow="shop.order",payload="message"}`:                            good,
		`flowgen_payload_size_bytes_sum{workflow="shop.order",payload="message"}`:                              3 * good, // 100
		`flowgen_payload_size_bytes_count{workflow="shop.order",payload="argument"}`:                           good + bad,
		`flowgen_commits_total{workflow="shop.order"} - on(workflow) flowgen_commit_duration_seconds_count`:    0,
		`flowgen_runs{workflow="shop.order",status="failed"}`:                                                  bad,
		`flowgen_queue_ready{workflow="shop.order",queue="default"}`:                                           0,
	} {
		prom.Await(expr, want)
	}
	prom.Eventually("the worker is idle", func() bool {
		return len(prom.Query("flowgen_worker_steps == 0")) == 1 && len(prom.Query("flowgen_worker_blocked == 0")) == 1
	})
	if late := prom.Sum(`flowgen_timer_lateness_seconds_bucket{workflow="shop.order",le=~"60(.0)?"}`); late != good {
		t.Errorf("%v timers were less than a minute late, want %d", late, good)
	}
}

// TestOPS4_EveryMetricIsExported proves that each metric of the table exists under its Prometheus
// name, with the attributes of the table and no other.
func TestOPS4_EveryMetricIsExportedWithItsAttributes(t *testing.T) {
	everyWay(t, exportsEveryMetric)
}

func exportsEveryMetric(t *testing.T, cfg otelflow.Config, target string) {
	everything(t, cfg)
	for _, m := range otelflow.Metrics() {
		lines := series(t, target, promName(m))
		if len(lines) == 0 {
			t.Errorf("metric %s is not exported as %s", m.Name, promName(m))
		}
		got := map[string]bool{}
		for _, line := range lines {
			for _, label := range labels(line) {
				got[label] = true
			}
		}
		for _, a := range m.Attributes {
			if !got[strings.ReplaceAll(a, ".", "_")] {
				t.Errorf("metric %s has no attribute %s", m.Name, a)
			}
			delete(got, strings.ReplaceAll(a, ".", "_"))
		}
		delete(got, "le")
		if len(got) > 0 {
			t.Errorf("metric %s has attributes %v beside those of the table", m.Name, got)
		}
	}
}

// TestOPS4_TheGaugesOfAProcessAreThoseOfAllItsWorkers proves that the gauges of two workers are added,
// and that a worker that has ended no longer counts.
func TestOPS4_TheGaugesOfAProcessAreThoseOfAllItsWorkers(t *testing.T) {
	provider, target := scraped(t)
	o := otelflow.New(otelflow.Config{MeterProvider: provider})
	st := memstore.New()
	defer func() { _ = st.Close() }()
	begin := func(n int) (stop func()) {
		return o.Worker(observe.Worker{Store: st, Gauges: func() observe.Gauges { return observe.Gauges{Runs: n, Steps: 10 * n} }})
	}
	check := func(runs, steps string) {
		t.Helper()
		for name, want := range map[string]string{"flowgen_worker_runs": runs, "flowgen_worker_steps": steps} {
			if got := series(t, target, name); len(got) != 1 || !strings.HasSuffix(got[0], " "+want) {
				t.Errorf("%s: got %v, want %s", name, got, want)
			}
		}
	}
	first, second := begin(3), begin(4)
	check("7", "70")
	first()
	check("4", "40")
	second()
	if got := series(t, target, "flowgen_worker_runs"); len(got) > 0 {
		t.Errorf("without a worker the series are %v", got)
	}
}

// promName returns the name of a metric in Prometheus, without the suffixes of histograms.
func promName(m otelflow.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.Kind == otelflow.Counter {
		name += "_total"
	}
	return name
}

// series returns the series of a metric at an address.
func series(t *testing.T, target, name string) (lines []string) {
	t.Helper()
	for _, line := range strings.Split(scrape(t, target), "\n") {
		for _, suffix := range []string{"{", " ", "_bucket{", "_count{", "_sum{"} {
			if strings.HasPrefix(line, name+suffix) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func scrape(t *testing.T, target string) string {
	t.Helper()
	got, err := http.Get("http://" + target)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var b strings.Builder
	if err := got.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// labels returns the names of the labels of a series.
func labels(line string) (names []string) {
	_, all, _ := strings.Cut(line, "{")
	all, _, _ = strings.Cut(all, "}")
	for _, pair := range strings.Split(all, ",") {
		if name, _, ok := strings.Cut(pair, "="); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// everything makes a configuration export each metric.
func everything(t *testing.T, cfg otelflow.Config) {
	t.Helper()
	cfg.Messaging = true
	o := otelflow.New(cfg)
	s := newSite(t, o)
	stop, err := otelflow.ObserveStore(s.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := ops.New(s.client).Limits().Set(t.Context(), limit.New("shop.dock", limit.Config{AtOnce: 1}), limit.Config{AtOnce: 2}); err != nil {
		t.Fatal(err)
	}
	bad := s.start(badOrder)
	good, err := order.Start(t.Context(), s.client, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := payment.Execute(t.Context(), s.client, good.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := good.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Result(t.Context()); err == nil {
		t.Fatal("the order has not failed")
	}
	var log []event.Event
	for e, err := range good.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
	}
	// The run that delivers an alert.
	delivery := o.Run(observe.Run{ID: event.NewRunID(time.Now(), 0), Workflow: event.AlertRun, Queue: event.AlertQueue + "ops"})
	delivery.Committed(observe.Commit{Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: time.Now(), Spec: &event.Spec{Workflow: event.AlertRun}},
		{Seq: 2, Type: event.RunStarted, Time: time.Now()},
		{Seq: 3, Type: event.RunCompleted, Time: time.Now()},
	}})
	// The run of a worker that has died.
	o.Run(observe.Run{ID: good.ID(), Workflow: order.Name(), Queue: "default", Recoveries: 1, Log: log[:len(log)-1], Replay: time.Millisecond}).
		Committed(observe.Commit{Events: log[len(log)-1:], Progress: true})
}

// TestOPS4_ACauseIsCountedOnceHoweverOftenItsRunIsClaimed proves that the input and the recoveries of
// a run that is claimed several times before it makes progress count once.
func TestOPS4_ACauseIsCountedOnceHoweverOftenItsRunIsClaimed(t *testing.T) {
	everyWay(t, countsACauseOnce)
}

func countsACauseOnce(t *testing.T, cfg otelflow.Config, target string) {
	o := otelflow.New(cfg)
	id, now := event.NewRunID(time.Now(), 0), time.Now()
	log := []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: now, Payload: []byte("123"), Spec: &event.Spec{Workflow: "w"}},
		{Seq: 2, Type: event.RunStarted, Time: now},
		{Seq: 3, Type: event.StepCreated, Time: now, Name: "s"},
		{Seq: 4, Type: event.StepStarted, Time: now, Ref: 3, Attempt: 1},
		{Seq: 5, Type: event.StepCompleted, Time: now, Ref: 3, Attempt: 1},
		{Seq: 6, Type: event.RunCompleted, Time: now},
	}
	claim := func(n, recoveries int) observe.RunObserver {
		return o.Run(observe.Run{ID: id, Workflow: "w", Queue: "q", Recoveries: recoveries, Log: log[:n]})
	}
	claim(1, 0) // is given back before its code begins
	claim(1, 0)
	claim(1, 0).Committed(observe.Commit{Events: log[1:4]})
	claim(4, 1) // the worker has died
	claim(4, 1)
	claim(4, 2) // another worker has died
	claim(4, 2).Committed(observe.Commit{Events: log[4:5], Progress: true})
	claim(5, 0).Committed(observe.Commit{Events: log[5:], Progress: true})
	for name, want := range map[string]string{
		"flowgen_recoveries_total":         `flowgen_recoveries_total{queue="q",workflow="w"} 2`,
		"flowgen_payload_size_bytes_count": `flowgen_payload_size_bytes_count{payload="input",workflow="w"} 1`,
		"flowgen_payload_size_bytes_sum":   `flowgen_payload_size_bytes_sum{payload="input",workflow="w"} 3`,
	} {
		if got := series(t, target, name); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %q, want %s", name, got, want)
		}
	}
}
