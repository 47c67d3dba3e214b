package otelflow_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var manyRuns = flag.Int("runs", 1_000, "number of runs of TestOPS4_SeriesDoNotGrowWithRunsKeysAndTenants")

// exported returns the number of series at an address.
func exported(t *testing.T, target string) (n int) {
	t.Helper()
	for _, line := range strings.Split(scrape(t, target), "\n") {
		if strings.HasPrefix(line, "flowgen_") {
			n++
		}
	}
	return n
}

func TestOPS4_SeriesDoNotGrowWithRunsKeysAndTenants(t *testing.T) {
	everyWay(t, seriesDoNotGrow)
}

func seriesDoNotGrow(t *testing.T, cfg otelflow.Config, target string) {
	s := newSite(t, otelflow.New(cfg))
	stop, err := otelflow.ObserveStore(s.client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	started := 0
	start := func(n int) {
		t.Helper()
		for n > 0 {
			var batch []workflow.StartRequest[int]
			for range min(n, 500) {
				started++
				batch = append(batch, workflow.StartRequest[int]{Input: started, Options: []workflow.StartOption{
					workflow.WithID(fmt.Sprint("shipment-", started)), workflow.WithTags(map[string]string{"tenant": fmt.Sprint("tenant-", started)}),
				}})
			}
			n -= len(batch)
			runs, err := shipment.StartMany(t.Context(), s.client, batch)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range runs {
				if _, err := one.Run.Result(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	start(500)
	before := exported(t, target)
	start(*manyRuns)
	after := exported(t, target)
	t.Logf("%d series after 500 runs, and %d after %d runs with distinct IDs, workflow IDs, tags and inputs", before, after, started)
	if before < 100 || after != before {
		t.Errorf("%d series after 500 runs, and %d after %d", before, after, started)
	}
}

// TestOPS4_NamesBeyondTheBoundBecomeOther proves that a program that builds names of workflows from
// input does not create a series for each input.
func TestOPS4_NamesBeyondTheBoundBecomeOther(t *testing.T) {
	everyWay(t, boundsNames)
}

func boundsNames(t *testing.T, cfg otelflow.Config, target string) {
	const most = 3
	cfg.MaxNames = most
	o := otelflow.New(cfg)
	for n := range 100 {
		name := fmt.Sprint("made-up-", n)
		created := event.Event{Seq: 1, Type: event.RunCreated, Time: time.Now(), Spec: &event.Spec{Workflow: name}}
		started := event.Event{Seq: 2, Type: event.RunStarted, Time: time.Now()}
		run := o.Run(observe.Run{ID: event.NewRunID(time.Now(), 0), Workflow: name, Queue: name})
		run.Committed(observe.Commit{Events: []event.Event{created, started}})
	}
	lines := series(t, target, "flowgen_run_started_total")
	if len(lines) != most+1 {
		t.Fatalf("%d series, want %d:\n%s", len(lines), most+1, strings.Join(lines, "\n"))
	}
	if want := `workflow="other"} 97`; !strings.Contains(strings.Join(lines, "\n"), want) {
		t.Errorf("no series has %s:\n%s", want, strings.Join(lines, "\n"))
	}
}
