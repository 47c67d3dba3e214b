package speed

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// speed runs the program and returns its output. It fails the test unless the exit code is want.
// want.
func speed(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), args, &out, &errs); code != want {
		t.Fatalf("speed %v ended with %d, want %d: %s", args, code, want, errs.String())
	}
	return out.String(), errs.String()
}

// required contains the fields that a line of output must have. The value is true if the field may
// be zero.
var required = map[string]bool{
	"workload": false, "store": false, "unit": false, "runs": false, "steps": false, "count": false, "seconds": false,
	"steps_per_second": false, "runs_per_second": false, "p50_ms": false, "p99_ms": false, "commands_per_run": false,
	"commands_per_step": false, "allocs_per_step": false, "alloc_bytes_per_step": false, "peak_memory_mb": false,
	"worker_cpu_us_per_step": false, "limit_per_second": false, "ratio_to_limit": false, "steps_ratio_to_limit": false,
	"commits_per_batch": false,
	"commits_per_step":  true, // Without a worker there are no commits.
	"bytes_per_run":     true, // Some workloads start no run in a round.
	// Only a store with a server has these fields.
	"server_calls_per_run": true, "server_cpu_us_per_step": true,
}

func TestSpeed_MeasuresEveryWorkloadOnEveryStore(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	for name, store := range map[string]string{
		"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "x.db"), "redis": "redis",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _ := speed(t, 0, "-store", store, "-json", "-runs", "12", "-steps", "4", "-batch", "5", "-inflight", "8", "-limit", "2ms", "-wake", "2s")
			var measured []string
			for line := range strings.Lines(out) {
				fields := map[string]any{}
				if err := json.Unmarshal([]byte(line), &fields); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				workload, _ := fields["workload"].(string)
				measured = append(measured, workload)
				for field, zero := range required {
					if v, ok := fields[field]; !ok || !zero && (v == 0.0 || v == "") {
						t.Errorf("%s: %s is %v", workload, field, v)
					}
				}
				checkCounts(t, name, fields)
			}
			var all []string
			for _, w := range workloads {
				all = append(all, w.name)
			}
			if diff := cmp.Diff(all, measured); diff != "" {
				t.Errorf("measured other workloads (-want +got):\n%s", diff)
			}
			if name == "sqlite" {
				left, err := os.ReadDir(filepath.Dir(strings.TrimPrefix(store, "sqlite:")))
				if err != nil || len(left) != 0 {
					t.Errorf("%v were left behind, %v", left, err)
				}
			}
		})
	}
}

// checkCounts checks the counts that do not depend on the machine.
func checkCounts(t *testing.T, store string, fields map[string]any) {
	t.Helper()
	if fields["store"] != store {
		t.Errorf("the store is %v, want %s", fields["store"], store)
	}
	workload := fields["workload"]
	if calls := fields["server_calls_per_run"].(float64); (calls > 0) != (store == "redis") {
		t.Errorf("%s: the server of %s executed %v commands per run", workload, store, calls)
	}
	steps := map[any]float64{"chain": 48, "latency": 48, "long": 48, "fanout": 48, "sleepers": 12, "children": 48, "messages": 48, "start-only": 12}
	if want, ok := steps[workload]; ok && fields["steps"] != want {
		t.Errorf("%s: %v steps, want %v", workload, fields["steps"], want)
	}
	// The first commit of a run that the worker creates is part of its creation. A run that the
	// worker claims needs a separate commit.
	commits := map[any][2]float64{"latency": {1, 5.0 / 4}, "long": {1, 5.0 / 4}, "sleepers": {1, 1}, "start-only": {0, 0}}
	got := fields["commits_per_step"].(float64)
	if want, ok := commits[workload]; ok && (got < want[0] || got > want[1]) {
		t.Errorf("%s: %v commits per step, want between %v and %v", workload, got, want[0], want[1])
	}
	created := workload != "messages" && workload != "replay"
	fits := workload == "sleepers" && store == "sqlite" // About a dozen runs fit into the free space of pages.
	if created && !fits && store != "memory" && fields["bytes_per_run"].(float64) < 100 {
		t.Errorf("%s: a run takes %v bytes, that cannot be", workload, fields["bytes_per_run"])
	}
}

func TestSpeed_LeavesNothingOnAServerThatIsNotItsOwn(t *testing.T) {
	server := redistest.Shared(t)
	out, _ := speed(t, 0, "-store", server.URL(), "-workload", "chain,latency", "-runs", "10", "-count", "2", "-limit", "1ms")
	for _, want := range []string{"chain on redis: 30 steps in 10 runs", "latency on redis", "medians of 2", "bare appends/s"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil && !errors.Is(err, redis.Nil) || len(keys) != 0 {
		t.Errorf("%d keys were left behind, such as %v, %v", len(keys), slices.Collect(slices.Values(keys))[:min(len(keys), 3)], err)
	}
}

func TestSpeed_PrintsTheTableOfTheDocumentation(t *testing.T) {
	out, _ := speed(t, 0, "-workload", "chain,children", "-runs", "8", "-steps", "2", "-limit", "0", "-count", "3", "-table")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], "| `chain` |") || !strings.HasPrefix(lines[3], "| `children` |") {
		t.Fatalf("want a head and two rows:\n%s", out)
	}
	for _, line := range lines {
		if got := strings.Count(line, "|"); got != len(columns)+2 {
			t.Errorf("%d bars, want %d: %s", got, len(columns)+2, line)
		}
	}
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "internals", "performance.md"))
	if err != nil || !strings.Contains(string(b), lines[0]) {
		t.Errorf("docs/internals/performance.md has no table with the head %q, %v", lines[0], err)
	}
}

func TestSpeed_ExplainsWhatIsWrongWithItsArguments(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-workload", "chian"}, 2, "the workloads are chain, latency"},
		{[]string{"-count", "0"}, 2, "at least 1"},
		{[]string{"surplus"}, 2, "surplus"},
		{[]string{"-json", "-table"}, 2, "mutually exclusive"},
		{[]string{"-store", "redis+cluster://localhost"}, 1, "use memory:"},
		{[]string{"-store", "sqlite:somewhere/"}, 1, "name a file"},
		{[]string{"-store", "redis://127.0.0.1:1"}, 1, "reach the server"},
	} {
		if _, stderr := speed(t, tt.code, tt.args...); !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: got %q, want something with %q", tt.args, stderr, tt.want)
		}
	}
}

func TestSpeed_HelpNamesEveryWorkloadWithItsSizes(t *testing.T) {
	_, help := speed(t, 0, "-help")
	for _, w := range workloads {
		if !strings.Contains(help, w.name) || !strings.Contains(help, w.about) {
			t.Errorf("the help lacks %s", w.name)
		}
	}
	for _, want := range []string{"-runs 20000 -steps 3", "-runs 100000", "(default 256)", "(default 100ms)"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}

func TestSpeed_DrawsHowCostsGrow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plots")
	// With only 30 runs, other allocations would exceed the memory of the runs.
	out, _ := speed(t, 0, "-plot", dir, "-runs", "1000", "-steps", "200", "-limit", "0", "-json")
	if got := strings.Count(out, "\n"); got != 6 { // The sweeps consist of 10, 100 and 1,000 runs, and of 10, 100 and 200 steps.
		t.Errorf("%d sizes were measured, want 6:\n%s", got, out)
	}
	for _, name := range []string{"runs-time.svg", "runs-bytes.svg", "steps-time.svg", "steps-bytes.svg"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(b)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s is no XML: %v", name, err)
			}
		}
	}
}

func TestSpeed_WritesProfilesAndSaysWhatGoesOn(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "cpu"), filepath.Join(dir, "mem"), filepath.Join(dir, "trace")}
	_, stderr := speed(t, 0, "-workload", "chain", "-runs", "10", "-progress", "-limit", "0",
		"-cpuprofile", files[0], "-memprofile", files[1], "-trace", files[2])
	if !strings.Contains(stderr, "chain: measurement 1 of 1") {
		t.Errorf("the progress is %q", stderr)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
