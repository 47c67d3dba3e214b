package endure

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/lab/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
)

// TestMain runs the tests or another role of the program.
func TestMain(m *testing.M) {
	if code, ok := harm.Play(os.Args[1:], os.Stderr, Worker); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestEndure_LosesNothing proves that no run is lost under deployments, a restart of the server,
// deleted keys and repairs at the same time. It is the short version of make endure.
func TestEndure_LosesNothing(t *testing.T) {
	redistest.Binary(t)
	var out, progress bytes.Buffer
	code := Command.Main(t.Context(), []string{
		"-json", "-dir", t.TempDir(), "-duration", "8s", "-deploy", "3s", "-bounce", "5s", "-damage", "100", "-upkeep", "2s", "-seed", "5",
	}, &out, &progress)
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || code != harm.ExitSound {
		t.Fatalf("exit code %d, %v:\n%s\n%s", code, err, &out, &progress)
	}
	if r.Runs == 0 || r.Completed+r.Excused != r.Runs || r.Deploys == 0 || r.Bounces == 0 || r.Lines == 0 {
		t.Errorf("got %+v, want that runs were started, workers replaced and the server restarted", r)
	}
}

func TestJudge_CountsWhatWasLostAndWhoIsExcused(t *testing.T) {
	e := newExperiment(&options{}, &bytes.Buffer{})
	e.Site = &harm.Site{Group: &harm.Group{Dir: t.TempDir()}}
	e.Began, e.started = time.Now(), 6
	for run, j := range map[event.RunID]*journey{
		"ok":     {done: true, still: time.Second},
		"wrong":  {done: true, wrong: "its result is 1, want 2"},
		"hangs":  {},
		"harmed": {wrong: "it is gone", done: true},
		"healed": {done: true, still: time.Hour},
	} {
		j.run = run
		e.journeys[run] = j
	}
	e.excused["harmed"], e.excused["healed"] = "key", "key"
	r := e.judge()
	if r.Completed != 1 || r.Lost != 3 || r.Excused != 2 || r.Survived != 1 || r.Longest != time.Second {
		t.Errorf("got %+v, want 1 completed, 3 lost (one was never started), 2 excused, of which 1 survived, standstill 1s", r)
	}
	text := strings.Join(r.Problems, "\n")
	for _, want := range []string{"run wrong (journey-0): its result is 1, want 2", "run hangs (journey-0): it has not ended", "1 runs could not be started"} {
		if !strings.Contains(text, want) {
			t.Errorf("got the problems %q, want %q among them", text, want)
		}
	}
}

func TestRunOf_KnowsTheKeysOfRuns(t *testing.T) {
	for key, want := range map[string]event.RunID{
		"{flowgen:3}1m:01ABC":      "wrun_01ABC",
		"{flowgen:3}1C:01ABC:name": "wrun_01ABC",
		"{flowgen:3}1t":            "",
		"{flowgen:3}1r:xyz":        "",
		"{flowgen:0}:format":       "",
	} {
		if got := runOf(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestJob_WantIsWhatAJourneyReturns(t *testing.T) {
	if got, want := (flows.Job{ID: 3, Steps: 4}).Want(), 0+1+2+3+3+21; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestParse_RefusesWhatMakesNoSense(t *testing.T) {
	redistest.Binary(t)
	for _, args := range [][]string{{"-rate", "0"}, {"-duration", "-1s"}, {"-damage", "-3"}, {"extra"}, {"-nothing"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
