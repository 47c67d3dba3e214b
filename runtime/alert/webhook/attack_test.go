package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/alert/webhook"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var attackRuns = flag.Int("alert.runs", 120, "number of failing runs in the tests that kill workers and servers")

const (
	attackGroups  = 10
	attackWorkers = 3
	workerStore   = "ALERT_TEST_STORE"
	workerHook    = "ALERT_TEST_HOOK"
	workerPace    = "ALERT_TEST_PACE" // time between the failures of two runs
	attackWindow  = time.Minute
	patience      = 5 * time.Minute
)

// TestMain runs a worker if the environment requests it, and otherwise the tests.
func TestMain(m *testing.M) {
	if os.Getenv(workerStore) == "" {
		redistest.Main(m)
		return
	}
	if err := workerProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var failing = shim.NewWorkflow[int, int]("test.failing", "n", shim.WorkflowPolicy{})

// workerProcess runs a worker until it is killed.
func workerProcess() error {
	st, err := redisstore.Open(os.Getenv(workerStore))
	if err != nil {
		return err
	}
	pace, err := time.ParseDuration(os.Getenv(workerPace))
	if err != nil {
		return err
	}
	cfg := alert.Config{
		Rules:   []alert.Rule{{Name: "failures", Conditions: []alert.Condition{alert.Failed}, Window: attackWindow, Target: "ops"}},
		Targets: map[string]alert.Target{"ops": &webhook.Webhook{URL: os.Getenv(workerHook), Secret: secret, AllowPrivate: true, Timeout: 500 * time.Millisecond}},
	}
	w := worker.New(workflow.NewClient(st, workflow.ClientConfig{}), worker.Config{Alerts: cfg, Heartbeat: 300 * time.Millisecond, ClaimExpiry: time.Second, Recoveries: 1000})
	shim.BindWorkflow(w, failing, func(ctx workflow.Context, n int) (int, error) {
		if err := workflow.Sleep(ctx, time.Duration(n)*pace); err != nil {
			return 0, err
		}
		return 0, errors.New("no " + groupName(n))
	})
	return w.Run(context.Background())
}

// groupName returns a word for each group. Digits would not distinguish groups.
func groupName(n int) string { return string(rune('a' + n%attackGroups)) }

// unreliable is a receiver that sometimes fails.
type unreliable struct {
	mu       sync.Mutex
	accepted map[event.RunID]int         // number of times that an alert was accepted
	alerts   map[event.RunID]alert.Alert // by webhook-id
	refused  int
}

func (u *unreliable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct{ Data alert.Alert }
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := event.RunID(r.Header.Get("webhook-id"))
	n := rand.IntN(10)
	u.mu.Lock()
	if n < 3 {
		u.refused++
	}
	if n > 1 { // also the case in which the answer is lost
		u.accepted[id]++
		u.alerts[id] = m.Data
	}
	u.mu.Unlock()
	switch n {
	case 0:
		http.Error(w, "no", http.StatusInternalServerError)
	case 1, 2: // no answer in time
		<-r.Context().Done()
	}
}

// startWorker starts a worker process, and returns a function that kills it.
func startWorker(t *testing.T, st, hook string, pace time.Duration) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerStore+"="+st, workerHook+"="+hook, workerPace+"="+pace.String())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// TestOPS9_EachGroupIsAlertedOncePerWindowWhateverIsKilled kills workers and restarts Redis while
// runs fail and a receiver loses alerts.
func TestOPS9_EachGroupIsAlertedOncePerWindowWhateverIsKilled(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	attack(t, server.URL(), 40*time.Millisecond, func(context.Context) {
		server.Kill()
		server.Restart(t)
	})
}

// TestOPS9_EachGroupIsAlertedOncePerWindowWhileMastersFailOver kills workers and masters of a
// cluster, whose replicas are promoted, while runs in all partitions fail and a receiver loses
// alerts. The store waits for the replica of each write, so no failover loses one.
func TestOPS9_EachGroupIsAlertedOncePerWindowWhileMastersFailOver(t *testing.T) {
	cluster := redistest.StartCluster(t, true)
	shard := 0
	attack(t, cluster.URL()+"&wait_replicas=1&wait_timeout=1s&read_timeout=2s&dial_timeout=1s", 120*time.Millisecond, func(ctx context.Context) {
		master, replica := &cluster.Masters[shard], &cluster.Replicas[shard]
		shard = (shard + 1) % len(cluster.Masters)
		(*master).Kill()
		replicates(ctx, t, *replica, "role:master")
		(*master).Restart(t)
		*master, *replica = *replica, *master
		replicates(ctx, t, *replica, "master_link_status:up")
	})
}

// replicates waits until a server reports a state of its replication.
func replicates(ctx context.Context, t *testing.T, s *redistest.Server, state string) {
	t.Helper()
	client := s.Client(t)
	await(ctx, t, s.Addr+" reports "+state, func() bool {
		info, err := client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, state)
	})
}

// attack kills workers while runs fail, one run after each pace, and calls harm before every sixth
// kill, beginning with the second. It compares the accepted alerts with the logs of all runs.
func attack(t *testing.T, url string, pace time.Duration, harm func(ctx context.Context)) {
	hook := &unreliable{accepted: map[event.RunID]int{}, alerts: map[event.RunID]alert.Alert{}}
	server := httptest.NewServer(hook)
	defer server.Close()
	kill := make([]func(), attackWorkers)
	for i := range kill {
		kill[i] = startWorker(t, url, server.URL, pace)
	}
	defer func() {
		for _, f := range kill {
			f()
		}
	}()
	st, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n := range *attackRuns {
		if _, err := failing.Start(ctx, client, n, workflow.WithID(fmt.Sprint("run-", n))); err != nil {
			t.Fatal(err)
		}
	}
	kills, harms := 0, 0
	await(ctx, t, "all runs fail", func() bool {
		if kills++; kills%6 == 2 {
			harm(ctx)
			harms++
		}
		i := rand.IntN(len(kill))
		kill[i]()
		kill[i] = startWorker(t, url, server.URL, pace)
		got, err := client.Count(ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusFailed}})
		return err == nil && got.Total() == *attackRuns
	})
	want := expected(ctx, t, client, st)
	await(ctx, t, "all alerts are accepted", func() bool {
		hook.mu.Lock()
		defer hook.mu.Unlock()
		for id := range want {
			if hook.accepted[id] == 0 {
				return false
			}
		}
		return true
	})
	hook.mu.Lock()
	defer hook.mu.Unlock()
	perWindow, again := map[string]int{}, 0
	for id, a := range hook.alerts {
		if perWindow[a.Group+a.Window.String()]++; !want[id] {
			t.Errorf("alert %s about %s in %v: no run of the group has failed in this window", id, a.Group, a.Window)
		}
		again += hook.accepted[id] - 1
	}
	for window, n := range perWindow {
		if n != 1 {
			t.Errorf("%s: got %d alerts, want 1", window, n)
		}
	}
	t.Logf("%d failed runs in %d groups and windows, %d kills of workers, %d of servers: %d alerts accepted, %d of them again with the same ID, %d deliveries refused or unanswered",
		*attackRuns, len(want), kills, harms, len(hook.alerts), again, hook.refused)
}

// expected returns the IDs of the alerts that the logs of all runs call for.
func expected(ctx context.Context, t *testing.T, client *workflow.Client, st store.Store) map[event.RunID]bool {
	t.Helper()
	rule, want := &alert.Rule{Name: "failures", Window: attackWindow}, map[event.RunID]bool{}
	for run, err := range client.List(ctx, workflow.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := st.Load(ctx, []store.Load{{Run: run.ID}})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got)
		}
		f, err := event.DecodeFrame(got[0].Frames[len(got[0].Frames)-1])
		if err != nil {
			t.Fatal(err)
		}
		last := f.Events[len(f.Events)-1]
		want[event.AlertRunID(rule.Name, run.Group, rule.WindowOf(last.Time))] = true
	}
	return want
}

// await calls cond, at most twice per second, until it returns true.
func await(ctx context.Context, t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
