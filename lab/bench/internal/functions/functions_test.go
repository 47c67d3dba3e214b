package functions

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if code, ok := Play(os.Args[1:], os.Stderr); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestOPS7_RunsEndAlthoughFunctionsAreKilledAtEachCommit is the command with few runs.
func TestOPS7_RunsEndAlthoughFunctionsAreKilledAtEachCommit(t *testing.T) {
	for st, when := range map[string][]string{"sqlite": {"before", "after"}, "redis": {"before"}} {
		t.Run(st, func(t *testing.T) {
			t.Parallel()
			p := &Program{Store: st, Runs: 2, Instances: 4, Kill: strings.Join(when, ","), wait: 4 * time.Minute}
			if err := p.Run(t.Context(), t.TempDir()); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			sound, err := p.Report(io.MultiWriter(&out, t.Output()))
			if err != nil || !sound {
				t.Errorf("not sound: %v\n%s", err, &out)
			}
			r := &p.result
			if want := len(when) * (steps + 1) * p.Runs; r.Kills != want { // a run has a commit for each step, and one for its end
				t.Errorf("%d kills, want %d", r.Kills, want)
			}
			if want := 2 * steps * p.Runs; r.Executions != want { // a step whose completion was not durable is executed again
				t.Errorf("%d executions of steps, want %d", r.Executions, want)
			}
			if r.Lost == 0 {
				t.Error("no dispatcher has lost the store")
			}
		})
	}
}
