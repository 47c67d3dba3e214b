package harm_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestMain runs the role that the first argument names.
func TestMain(m *testing.M) {
	if code, ok := harm.Play(os.Args[1:], os.Stderr, idle); ok {
		os.Exit(code)
	}
	switch {
	case len(os.Args) < 2:
	case os.Args[1] == "polite":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		fmt.Println("ready")
		<-ended
		return
	case os.Args[1] == "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case os.Args[1] == "broken":
		fmt.Println("ready")
		os.Exit(7)
	}
	goleak.VerifyTestMain(m) // For each running process there is a goroutine that waits for its end.
}

const patience = 20 * time.Second

func newGroup(t *testing.T) *harm.Group {
	t.Helper()
	g, err := harm.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// spawn starts a process and waits until it is ready.
func spawn(t *testing.T, g *harm.Group, name, role string) *harm.Process {
	t.Helper()
	p, err := g.Spawn(name, os.Args[0], role)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is ready", func() bool {
		b, err := os.ReadFile(p.Log)
		return err == nil && strings.Contains(string(b), "ready")
	})
	return p
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(patience)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func gone(t *testing.T, p *harm.Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("the process lives")
	}
}

func TestGroup_KillsWhatIsLeftWhenTheProgramHasGone(t *testing.T) {
	g := newGroup(t)
	p, stalled, removed := spawn(t, g, "a", "stubborn"), spawn(t, g, "b", "stubborn"), spawn(t, g, "c", "polite")
	if err := syscall.Kill(stalled.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	removed.Kill()
	g.Close() // Closing the group has the same effect as the end of this process.
	gone(t, p)
	gone(t, stalled)
	if p.Crashed() == nil {
		t.Error("the end of the process was expected by nobody, and is none of its own")
	}
	if err := stalled.Stall(t.Context(), 0); err == nil {
		t.Error("a process that has ended was continued")
	}
}

func TestProcess_StopsInPeace(t *testing.T) {
	p := spawn(t, newGroup(t), "p", "polite")
	if err := p.Stall(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(patience); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := p.Crashed(); err != nil {
		t.Errorf("it was told to end, and is said to have crashed: %v", err)
	}
}

func TestProcess_ThatDoesNotStopIsKilled(t *testing.T) {
	p := spawn(t, newGroup(t), "p", "stubborn")
	if err := p.Stop(50 * time.Millisecond); !errors.Is(err, harm.ErrStuck) || !strings.Contains(err.Error(), p.Log) {
		t.Errorf("stop: %v, want ErrStuck and the path of the log", err)
	}
	gone(t, p)
}

func TestProcess_ThatEndsByItselfHasCrashed(t *testing.T) {
	p := spawn(t, newGroup(t), "p", "broken")
	gone(t, p)
	if err := p.Crashed(); err == nil || !strings.Contains(err.Error(), "exit status 7") || !strings.Contains(err.Error(), p.Log) {
		t.Errorf("crashed: %v, want its exit code and the path of its log", err)
	}
	if p.ExitCode() != 7 {
		t.Errorf("exit code %d, want 7", p.ExitCode())
	}
}

func TestSpawn_MissingProgramIsAnError(t *testing.T) {
	if _, err := newGroup(t).Spawn("x", filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the program does not exist", err)
	}
}

func TestRedis_KeepsItsDataWhenItIsKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const key = "b" // The first node of a cluster of three serves this key.
	for _, kind := range []string{"redis", "redis-cluster"} {
		site, err := harm.Open(ctx, t.TempDir(), kind, harm.Settings("always")...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(site.Close)
		server := site.Servers[0]
		c := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Set(ctx, key, "kept", 0).Err(); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		if err := server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		eventually(t, kind+" answers with what it had", func() bool { return c.Get(ctx, key).Val() == "kept" })
	}
}

func TestPair_KeepsWhatTheReplicaHasReceivedThroughTwoFailovers(t *testing.T) {
	ctx := t.Context()
	p, err := newGroup(t).StartPair(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{p.Sentinel}})
		if err := client.Incr(ctx, "n").Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.Do(ctx, "wait", 1, 5000).Int(); err != nil || got != 1 {
			t.Fatalf("%d replicas have received it, %v, want 1", got, err)
		}
		_ = client.Close()
		if err := p.Failover(ctx); err != nil {
			t.Fatal(err)
		}
		client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{p.Sentinel}})
		if got, err := client.Get(ctx, "n").Int(); err != nil || got != n+1 {
			t.Errorf("after failover %d: got %d, %v, want %d", n+1, got, err, n+1)
		}
		_ = client.Close()
	}
}

func TestCheck_SaysWhyAStoreCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "there.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"memory:": "does not", "sqlite:": "names no file", "sqlite:" + file: "exists", "postgres://x": "none of", "": "none of", "redis://%zz": "invalid",
	} {
		if err := harm.Check(what); err == nil {
			t.Errorf("%q is accepted", what)
		} else if want != "does not" && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", what, err, want)
		}
	}
	for _, what := range []string{"redis", "redis-cluster", "sqlite:" + file + ".new", "rediss://host:1", "redis+cluster://host:1", "redis+sentinel://host:1?master_name=m"} {
		if err := harm.Check(what); err != nil {
			t.Errorf("%q: %v", what, err)
		}
	}
}

func TestOpen_UsesAPrefixOfItsOwnOnAServerThatIsThere(t *testing.T) {
	open := func(url string) *harm.Site {
		t.Helper()
		s, err := harm.Open(t.Context(), "", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	a, b := open("redis://host:1/3?pool_size=4"), open("redis://host:1/3?prefix=mine-")
	if a.Prefix() == b.Prefix() || !strings.Contains(a.URL, "prefix="+a.Prefix()) || !strings.Contains(a.URL, "pool_size=4") {
		t.Errorf("the first is %s with prefix %s", a.URL, a.Prefix())
	}
	if !strings.HasPrefix(b.Prefix(), "mine-") {
		t.Errorf("the prefix is %s, want one below mine-", b.Prefix())
	}
}

func TestOpen_WithoutAServerSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := harm.Open(t.Context(), t.TempDir(), "redis")
	if err == nil || !strings.Contains(err.Error(), "install Redis") || errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v, want what to install", err)
	}
}

// idle is the role of a worker that executes no runs.
var idle = harm.Role{Name: "idle-worker", Work: func(*flag.FlagSet) func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
	return func(*record.Writer) (worker.Config, func(workflow.Registrar)) {
		return worker.Config{}, func(r workflow.Registrar) {
			shim.BindWorkflow(r, shim.NewWorkflow[workflow.None, workflow.None]("idle", "", shim.WorkflowPolicy{}),
				func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
		}
	}
}}

// newExperiment opens an experiment on a SQLite file with workers of the given role.
func newExperiment(t *testing.T, role string) *harm.Experiment {
	t.Helper()
	x, dir := harm.NewExperiment(1, role, io.Discard), t.TempDir()
	if err := x.Open(t.Context(), dir, "sqlite:"+filepath.Join(dir, "x.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func TestExperiment_PlaysItsScheduleAndStopsTheFleet(t *testing.T) {
	x := newExperiment(t, idle.Name)
	done, undone, always := 0, 0, make(chan bool, 1)
	s := &harm.Schedule{
		For: patience, Fleet: harm.Fleet{
			Workers: 2, After: 5 * time.Millisecond, Spread: 10 * time.Millisecond, Kill: 1, Stop: 1, Stall: 1,
			StallFor: time.Millisecond, StallSpread: time.Millisecond, Args: func(int) []string { return nil },
		},
		Faults: []harm.Fault{
			{Name: "thrice", After: time.Millisecond, Times: 3, Undo: func(context.Context) { undone++ },
				Do: func(context.Context, context.Context, *rand.Rand) error { done++; return nil }},
			{Name: "always", After: time.Millisecond, Always: true, Do: func(_, until context.Context, _ *rand.Rand) error {
				if _, bounded := until.Deadline(); bounded {
					t.Error("a fault that continues ends with the others")
				}
				select {
				case always <- true:
				case <-until.Done():
				}
				return nil
			}},
		},
	}
	err := x.Play(t.Context(), s, func(context.Context, context.Context) {
		eventually(t, "every fault has happened", func() bool {
			return x.Count(harm.Kills) > 0 && x.Count(harm.Stops) > 0 && x.Count(harm.Stalls) > 0 && x.Count("thrice") == 3
		})
		<-always
	})
	if err != nil || len(x.Violations) > 0 {
		t.Errorf("play: %v, and %v", err, x.Violations)
	}
	if done != 3 || undone != 1 || x.Count("always") == 0 {
		t.Errorf("done %d times, put back %d times, the other %d times; want 3, 1 and some", done, undone, x.Count("always"))
	}
	if ends := x.Count(harm.Kills) + x.Count(harm.Stops) + 2; len(x.Deaths) != ends || len(x.Stalls) != x.Count(harm.Stalls) {
		t.Errorf("%d deaths and %d stalls are known, want %d and %d", len(x.Deaths), len(x.Stalls), ends, x.Count(harm.Stalls))
	}
}

func TestExperiment_WorkersThatEndByThemselvesAreViolationsAndReplaced(t *testing.T) {
	x := newExperiment(t, "broken")
	s := &harm.Schedule{For: patience, Forgiving: true, Fleet: harm.Fleet{Workers: 1, Args: func(int) []string { return nil }}}
	err := x.Play(t.Context(), s, func(context.Context, context.Context) {
		eventually(t, "it is replaced twice", func() bool {
			_, err := os.Stat(filepath.Join(x.Dir, "worker-1.3.log"))
			return err == nil
		})
	})
	if err != nil || len(x.Violations) < 2 || !strings.Contains(x.Violations[0].String(), "process: worker-1.1 ended by itself (exit status 7)") {
		t.Errorf("play: %v, and %v, want that the workers ended", err, x.Violations)
	}
}

func TestPlay_RunsTheRoleThatIsNamed(t *testing.T) {
	for _, args := range [][]string{nil, {"chaos"}, {"-runs"}} {
		if _, ok := harm.Play(args, os.Stderr, idle); ok {
			t.Errorf("%q is taken for a role", args)
		}
	}
	dir := t.TempDir()
	var complaint bytes.Buffer
	if code, ok := harm.Play([]string{idle.Name, "-name", "w", "-records", dir, "-store", "nowhere:"}, &complaint, idle); !ok || code == 0 || !strings.Contains(complaint.String(), "nowhere") {
		t.Errorf("a worker without a store: %d, %t, %q, want a failure that names it", code, ok, &complaint)
	}
	if !record.Exists(dir, "w") {
		t.Error("the worker has no records, which show that it handles SIGTERM")
	}
}
