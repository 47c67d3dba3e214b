package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/check"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/codec"
)

// TestMain runs the tests or another role of the program. For each process that a test starts, a
// goroutine waits for its end. Therefore the leak check finds processes that a test leaves behind.
func TestMain(m *testing.M) {
	if code, ok := harm.Play(os.Args[1:], os.Stderr, Worker); ok {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// summary contains the fields of the -json output that the tests use.
type summary struct {
	Kills, Stalls, Stops, ServerRestarts int
	Changes, Failovers, Pauses           int
	Limits                               []check.Limit
	Runs, Completed, Lost, Executions    int
	Recoveries                           map[string]int
	Sound                                bool
	Dir                                  string
	Violations                           []check.Violation
}

// play executes the command with -json and returns the parsed output. It fails the test unless the
// exit code is want.
func play(t *testing.T, want int, args ...string) summary {
	t.Helper()
	var out, progress bytes.Buffer
	code := Command.Main(t.Context(), append([]string{"-json", "-dir", t.TempDir()}, args...), &out, &progress)
	var s summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil || code != want {
		t.Fatalf("exit code %d, want %d; %v:\n%s\n%s", code, want, err, &out, &progress)
	}
	return s
}

// The test proves that a fleet keeps its promises under each kind of disturbance. Whether a
// disturbance hits an active worker depends on the machine. Therefore the test repeats short
// experiments with other seeds, a limited number of times, until a disturbance hits an active
// worker.
func TestChaos_FleetKeepsItsPromises(t *testing.T) {
	redistest.Binary(t)
	for name, args := range map[string][]string{
		"redis":  {"-store", "redis", "-restart-server", "-runs", "150", "-seconds", "5"},
		"sqlite": {"-runs", "150", "-seconds", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := 7; ; seed++ {
				store := []string{"-seed", strconv.Itoa(seed), "-workers", "2", "-lease", "600ms", "-heartbeat", "100ms", "-every", "300ms"}
				if name == "sqlite" {
					store = append(store, "-store", "sqlite:"+filepath.Join(t.TempDir(), "chaos.db"))
				}
				s := play(t, harm.ExitSound, append(store, args...)...)
				if !s.Sound || s.Runs == 0 || s.Completed != s.Runs || s.Executions < 5*s.Runs {
					t.Errorf("%+v", s)
				}
				recovered := 0
				for _, n := range s.Recoveries {
					recovered += n
				}
				if s.Kills > 0 && recovered > 0 && (name == "redis") == (s.ServerRestarts > 0) {
					return
				}
				if t.Logf("not everybody was harmed: %+v", s); seed == 11 {
					t.Fatal("nobody who was at work is ever harmed")
				}
			}
		})
	}
}

// TestOPS5_AFleetWithACodecKeepsItsPromises proves that nothing is lost and that all user data in the logs are
// sealed while workers are killed and a replica becomes the master.
func TestOPS5_AFleetWithACodecKeepsItsPromises(t *testing.T) {
	redistest.Binary(t)
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLOWGEN_CODEC_KEYS", key.Text())
	for name, args := range map[string][]string{
		"redis":  {"-store", "redis-sentinel", "-failovers", "1"},
		"sqlite": {"-store", "sqlite:" + filepath.Join(t.TempDir(), "chaos.db")},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, harm.ExitSound, append(args, "-limits", "-runs", "100", "-seconds", "3", "-workers", "3",
				"-lease", "600ms", "-heartbeat", "100ms", "-every", "300ms", "-seed", "9")...)
			if !s.Sound || s.Runs != 100 || s.Completed != s.Runs || s.Kills+s.Stalls == 0 || (name == "redis") != (s.Failovers == 1) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The test proves that limits are never exceeded, even when a replica becomes the master. Both
// limits must be full at some time.
func TestChaos_NobodyTakesMoreThanALimitHas(t *testing.T) {
	redistest.Binary(t)
	for name, args := range map[string][]string{
		"redis":  {"-store", "redis-sentinel", "-failovers", "1"},
		"sqlite": {"-store", "sqlite:" + filepath.Join(t.TempDir(), "chaos.db")},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, harm.ExitSound, append(args, "-limits", "-runs", "40", "-seconds", "3", "-workers", "3",
				"-lease", "600ms", "-heartbeat", "100ms", "-every", "300ms", "-seed", "7")...)
			if !s.Sound || s.Runs != 40 || s.Completed != s.Runs || s.Kills+s.Stalls == 0 || s.Changes < 3 || s.Pauses == 0 || len(s.Limits) != 2+flows.Tenants ||
				(name == "redis") != (s.Failovers == 1) {
				t.Errorf("%+v", s)
			}
			for _, l := range s.Limits {
				if keyed := strings.Contains(l.Name, "/"); l.Attempts == 0 || l.Full == 0 || !keyed && l.Changes == 0 {
					t.Errorf("nobody had to wait: %+v", l)
				}
			}
		})
	}
}

func TestChaos_RunsThatDoNotEndAreLostAndExplained(t *testing.T) {
	redistest.Binary(t)
	dir := filepath.Join(t.TempDir(), "logs")
	var out, progress bytes.Buffer
	code := Command.Main(t.Context(), []string{
		"-dir", dir, "-runs", "60", "-workers", "1", "-seconds", "1", "-wait", "1ms", "-lease", "4s", "-seed", "3",
	}, &out, &progress)
	line := out.String()
	if code != harm.ExitBroken || !strings.HasPrefix(line, "runs 60 completed ") || strings.Contains(line, "lost 0") {
		t.Fatalf("exit code %d, want %d:\n%s\n%s", code, harm.ExitBroken, line, &progress)
	}
	violations, err := os.ReadFile(filepath.Join(dir, "violations.txt"))
	if err != nil || !strings.Contains(string(violations), "lost: ") {
		t.Errorf("the violations are %q, %v, want what was lost", violations, err)
	}
	dumps, err := filepath.Glob(filepath.Join(dir, "wrun_*.txt"))
	if err != nil || len(dumps) == 0 {
		t.Errorf("%d logs of runs, %v, want some in %s", len(dumps), err, dir)
	}
	if !strings.Contains(progress.String(), dir) || !strings.Contains(progress.String(), "lost: ") {
		t.Errorf("nothing leads to the explanation:\n%s", &progress)
	}
}

func TestChaos_InterruptedSaysHowFarItCameAndLeavesNobody(t *testing.T) {
	redistest.Binary(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	progress := &watched{text: "under way; ", seen: interrupt}
	code := Command.Main(ctx, []string{"-dir", t.TempDir(), "-runs", "5000", "-workers", "2", "-seconds", "60", "-restart-server"}, &out, progress)
	if code != harm.ExitInterrupted || out.Len() > 0 {
		t.Errorf("exit code %d, want %d; printed %q", code, harm.ExitInterrupted, &out)
	}
	if got := progress.String(); !strings.Contains(got, "interrupted: ") || !strings.Contains(got, "of 5000 runs have ended") {
		t.Errorf("it does not say how far it came:\n%s", got)
	}
}

// watched is a buffer that sends a notification when a text has been written to it three times.
type watched struct {
	bytes.Buffer

	text string
	n    int
	seen func()
	mu   sync.Mutex
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(string(b), w.text) {
		if w.n++; w.n == 3 {
			w.seen()
		}
	}
	return w.Buffer.Write(b)
}

func TestMain_RefusesWrongFlags(t *testing.T) {
	redistest.Binary(t)
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"-runs must be":          {"-runs", "0"},
		"-workers must be":       {"-workers", "-1"},
		"-lease must be at":      {"-lease", "1s", "-heartbeat", "800ms"},
		"-appendfsync sometimes": {"-appendfsync", "sometimes"},
		"not a flag":             {"redis"},
		"not defined":            {"-walk"},
		"lives in one process":   {"-store", "memory:"},
		"this program started":   {"-store", "sqlite:x", "-restart-server"},
		"-failovers 1: want":     {"-failovers", "1"},
		"-limits requires":       {"-limits", "-restart-server", "-appendfsync", "everysec"},
		"exists":                 {"-store", "sqlite:" + file},
		"is not empty":           {"-dir", filepath.Dir(file)},
	} {
		var out, complaint bytes.Buffer
		if code := Command.Main(t.Context(), args, &out, &complaint); code != harm.ExitUsage || !strings.Contains(complaint.String(), want) || out.Len() > 0 {
			t.Errorf("%q: exit code %d and %q, want %d and %q", args, code, &complaint, harm.ExitUsage, want)
		}
	}
}

func TestMain_HelpNamesEveryFlagAndExitCode(t *testing.T) {
	redistest.Binary(t)
	var out, complaint bytes.Buffer
	if code := Command.Main(t.Context(), []string{"--help"}, &out, &complaint); code != 0 || complaint.Len() > 0 {
		t.Errorf("exit code %d, complaint %q", code, &complaint)
	}
	for _, want := range []string{
		"-store S", "-runs N", "-workers N", "-seconds N", "-seed N", "-every D", "-lease D", "-heartbeat D", "-restart-server",
		"-limits", "-nested", "-failovers N", "-appendfsync S", "-wait D", "-dir DIR", "-keep", "-json", "memory:", "130",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help does not mention %q", want)
		}
	}
}

func TestPlan_DependsOnTheSeedAlone(t *testing.T) {
	redistest.Binary(t)
	o := options{Options: harm.Options{Seed: 5}, runs: 600, seconds: 10, lease: time.Second}
	first, again := plan(&o), plan(&o)
	unexported := cmp.AllowUnexported(order{})
	if diff := cmp.Diff(first, again, unexported); diff != "" {
		t.Errorf("the same options give other orders (-first +again):\n%s", diff)
	}
	o.Seed++
	if cmp.Equal(first, plan(&o), unexported) {
		t.Error("another seed gives the same orders")
	}
	count := map[string]int{}
	for i, d := range first {
		count[d.Workflow]++
		if d.at >= o.duration() {
			t.Errorf("order %d is for %v, behind the end", i, d.at)
		}
		if never := d.Fate == check.IsCanceled && d.cancel == 0 && d.next == nil; never {
			t.Errorf("order %d never ends", i)
		}
		if d.next != nil {
			count["replaced"]++
			if d.next.WorkflowID != d.WorkflowID || !d.next.Replaces || d.next.starters != 1 {
				t.Errorf("order %d is not replaced by %+v", i, d.next)
			}
		}
		if d.starters > 1 {
			count["at once"]++
		}
	}
	for _, s := range shares {
		if want := o.runs * s.of / 100; count[s.workflow] < want/2 || count[s.workflow] > want*2 {
			t.Errorf("%d orders of %s, want about %d", count[s.workflow], s.workflow, want)
		}
	}
	if count["replaced"] == 0 || count["at once"] == 0 {
		t.Errorf("there is not everything: %v", count)
	}
}
