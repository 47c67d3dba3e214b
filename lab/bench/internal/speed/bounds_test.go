package speed

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// The test proves that counts that do not depend on the load of the machine are within their
// bounds. Each bound is slightly above the count at the time when the bound was set.
func TestSpeed_CountsStayWithinTheirBounds(t *testing.T) {
	redistest.Binary(t)
	sqlite := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	for name, tt := range map[string]struct {
		args   []string
		bounds map[string]float64
	}{
		"sequential steps on Redis": {
			[]string{"-store", "redis", "-workload", "long", "-steps", "3000"},
			map[string]float64{"allocs_per_step": 23, "alloc_bytes_per_step": 3100, "commits_per_step": 1.05, "commands_per_step": 1.1, "server_calls_per_run": 3000 * 5.1},
		},
		"sequential steps in memory": {
			[]string{"-store", "memory:", "-workload", "long", "-steps", "3000"},
			map[string]float64{"allocs_per_step": 17, "alloc_bytes_per_step": 2900, "commits_per_step": 1.05},
		},
		"sequential steps on SQLite": {
			[]string{"-store", sqlite, "-workload", "long", "-steps", "3000"},
			map[string]float64{"allocs_per_step": 24, "alloc_bytes_per_step": 3700, "commits_per_step": 1.05},
		},
		"runs that are waited for on SQLite": { // The count is lower on an idle machine. It is up to 107 on a busy one because of operations that depend on time.
			[]string{"-store", sqlite, "-workload", "latency", "-runs", "1000"},
			map[string]float64{"allocs_per_step": 110, "commits_per_step": 1},
		},
		"short runs in memory": {
			[]string{"-store", "memory:", "-workload", "chain", "-runs", "3000"},
			map[string]float64{"allocs_per_step": 30, "alloc_bytes_per_step": 6500, "commits_per_step": 1.1},
		},
		"short runs in memory with metrics": {
			[]string{"-store", "memory:", "-workload", "chain", "-runs", "3000", "-telemetry", "metrics"},
			map[string]float64{"allocs_per_step": 31, "alloc_bytes_per_step": 6700, "commits_per_step": 1.1},
		},
		"short runs in memory with spans": {
			[]string{"-store", "memory:", "-workload", "chain", "-runs", "3000", "-telemetry", "spans"},
			map[string]float64{"allocs_per_step": 90, "alloc_bytes_per_step": 12_500, "commits_per_step": 1.1},
		},
		"short runs on Redis": {
			[]string{"-store", "redis", "-workload", "chain", "-runs", "3000"},
			map[string]float64{"allocs_per_step": 30, "alloc_bytes_per_step": 6800, "commits_per_step": 1.1, "commands_per_run": 4.5, "server_calls_per_run": 31},
		},
		"runs that are waited for on Redis": {
			[]string{"-store", "redis", "-workload", "latency", "-runs", "1000"},
			map[string]float64{"allocs_per_step": 95, "commits_per_step": 1, "commands_per_run": 5, "server_calls_per_run": 26},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := speed(t, 0, append(tt.args, "-limit", "0", "-json")...)
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(out), &fields); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for field, bound := range tt.bounds {
				if field == "allocs_per_step" || field == "alloc_bytes_per_step" {
					bound *= slack
				}
				got, ok := fields[field].(float64)
				if t.Logf("%s: %.4g, at most %.4g", field, got, bound); !ok || got <= 0 || got > bound {
					t.Errorf("%s: got %v, want at most %.4g", field, fields[field], bound)
				}
			}
		})
	}
}
