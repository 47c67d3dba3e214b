package worker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

func TestOPS6_ConfigFromEnv_SetsEachField(t *testing.T) {
	for name, value := range map[string]string{
		"QUEUES": "default,mail", "CONCURRENCY": "3", "GRACE": "2m", "HEARTBEAT": "1s", "CLAIM_EXPIRY": "4s", "RUN_BUDGET": "7s", "RECOVERIES": "2",
		"PARKED": "9", "RUNS": "17", "MAX_LOG_EVENTS": "600", "MAX_LOG_BYTES": "1MiB", "CAPACITY": "gpu=2", "AT_ONCE": "mail=10,default=5",
		"NO_LOCAL_START": "true", "PIN": "true", "BLOCKED_AFTER": "250ms", "NAME": "mail-3", "BUILD": "v1.2+b",
	} {
		t.Setenv("FLOWGEN_WORKER_"+name, value)
	}
	got, err := worker.ConfigFromEnv()
	want := worker.Config{
		Queues: []string{"default", "mail"}, Concurrency: 3, Grace: 2 * time.Minute, Heartbeat: time.Second, ClaimExpiry: 4 * time.Second, RunBudget: 7 * time.Second,
		Recoveries: 2, Parked: 9, Runs: 17, MaxLogEvents: 600, MaxLogBytes: 1 << 20, Capacity: map[string]int{"gpu": 2}, AtOnce: map[string]int{"mail": 10, "default": 5},
		NoLocalStart: true, Pin: true, BlockedAfter: 250 * time.Millisecond, Name: "mail-3", Build: "v1.2+b",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestOPS6_ConfigFromEnv_ReportsAnExpiryThatNewWouldRefuse(t *testing.T) {
	t.Setenv("FLOWGEN_WORKER_HEARTBEAT", "20s")
	got, err := worker.ConfigFromEnv()
	if e, ok := errors.AsType[*store.VariableError](err); !ok || e.Name != "FLOWGEN_WORKER_CLAIM_EXPIRY" || got.Heartbeat != 0 {
		t.Errorf("got %+v, %v, want an error about FLOWGEN_WORKER_CLAIM_EXPIRY and no configuration", got, err)
	}
}

func TestOPS10_ConfigFromEnv_ReportsABuildThatNewWouldRefuse(t *testing.T) {
	for _, build := range []string{"release 7", "v1@b", "é", strings.Repeat("b", 65)} {
		t.Setenv("FLOWGEN_WORKER_BUILD", build)
		got, err := worker.ConfigFromEnv()
		if e, ok := errors.AsType[*store.VariableError](err); !ok || e.Name != "FLOWGEN_WORKER_BUILD" || got.Build != "" {
			t.Errorf("build %q: got %+v, %v, want an error about FLOWGEN_WORKER_BUILD and no configuration", build, got, err)
		}
	}
}
