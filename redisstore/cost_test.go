package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// perRun returns the memory usage of all keys in bytes: the sum and the bytes of each kind of key,
// both divided by the number of runs.
func perRun(t testing.TB, client *redis.Client, runs int) (sum int64, kinds map[string]int64) {
	t.Helper()
	ctx := context.Background()
	kinds = map[string]int64{}
	keys := client.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		n, err := client.MemoryUsage(ctx, keys.Val(), 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, kind, _ := strings.Cut(keys.Val(), "}1")
		kind, _, _ = strings.Cut(kind, ":")
		kinds[kind] += n
		sum += n
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	for kind, n := range kinds {
		kinds[kind] = n / int64(runs)
	}
	return sum / int64(runs), kinds
}

func TestSTORE5_CompletedAndSleepingRunsTakeFewBytes(t *testing.T) {
	const runs = 1000
	for name, tt := range map[string]struct {
		start func(f *fleet, n int) event.RunID
		ends  bool
		bound int64
	}{
		"completed three-step run": {func(f *fleet, n int) event.RunID { return start(f, Fulfil, fmt.Sprintf("order-%d", n)) }, true, 2000},
		"sleeping run":             {func(f *fleet, _ int) event.RunID { return start(f, Sleep, 24*time.Hour) }, false, 1700},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			// With a single partition, the indexes are as large as those of a store with 16
			// partitions and 16 times as many runs.
			f := newFleet(t, openURL(t, with(server.URL(), "partitions=1")))
			stop := f.work(f.store, worker.Config{}, done)
			started := make([]event.RunID, runs)
			for n := range started {
				started[n] = tt.start(f, n)
			}
			for _, run := range started {
				for {
					info, err := f.client.Run(run).Info(f.ctx)
					if err != nil {
						t.Fatal(err)
					}
					if tt.ends && info.Status == workflow.StatusCompleted || !tt.ends && info.Status == workflow.StatusSleeping {
						break
					}
				}
			}
			stop()
			per, kinds := perRun(t, server.Client(t), runs)
			t.Logf("%s: %d bytes: %v", name, per, kinds)
			if per > tt.bound {
				t.Errorf("a %s takes %d bytes, want at most %d", name, per, tt.bound)
			}
		})
	}
}

// start starts a run of workflow d and returns its ID.
func start[In, Out any](f *fleet, d workflow.Definition[In, Out], in In) event.RunID {
	f.t.Helper()
	run, err := d.Start(f.ctx, f.client, in)
	if err != nil {
		f.t.Fatal(err)
	}
	return run.ID()
}

// TestCost_TheServerDoesLittleForARun bounds the work of the server for a run of three steps and
// for a heartbeat. It counts the executed commands, including the commands that scripts call. A
// command takes about a microsecond, and so do ten arguments.
func TestCost_TheServerDoesLittleForARun(t *testing.T) {
	const runs = 100
	ctx, server := t.Context(), redistest.Start(t)
	st := openURL(t, with(server.URL(), "partitions=1"))
	defer st.Close()
	admin := server.Client(t)
	route, session := store.Route{Queue: "default", Workflow: "orders.fulfil"}, store.SessionID("wses_1")
	if err := st.OpenSession(ctx, store.Session{ID: session, TTL: time.Minute, Routes: []store.Route{route}}); err != nil {
		t.Fatal(err)
	}
	creates, commits := make([]store.Create, runs), make([]store.Commit, runs)
	commit := func() {
		for i, got := range must(st.Commit(ctx, commits)) {
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			c := &commits[i]
			c.Prev, c.CommitID, c.First, c.Last = c.CommitID, event.NewCommitID(), c.Last+1, c.Last+2
		}
	}
	ops := []struct {
		name            string
		do              func()
		commands, bytes float64 // maximum number of commands and of bytes sent, per run
	}{
		{"create", func() {
			for i := range creates {
				creates[i] = store.Create{Run: event.NewRunID(time.Now(), 0), Route: route, Frame: []byte("first"), Seq: 1, CommitID: event.NewCommitID()}
			}
			must(st.Create(ctx, creates))
		}, 6.2, 340},
		{"claim", func() {
			claim := store.Claim{Session: session, Token: event.NewToken(), Routes: []store.Route{route}, Max: runs}
			for i, r := range must(st.Claim(ctx, claim)).Runs {
				commits[i] = store.Commit{
					Run: r.Run, Fence: r.Fence, Prev: r.Last, Frame: []byte("frame"), CommitID: event.NewCommitID(), First: 2, Last: 3,
					Status: event.StatusRunning, Progress: true,
				}
			}
		}, 3.2, 5},
		{"append", commit, 3, 320},
		{"finish", func() {
			for i := range commits {
				commits[i].Effect, commits[i].Status = store.EffectFinish, event.StatusCompleted
			}
			commit()
		}, 5.2, 350},
		{"heartbeat", func() {
			for range runs {
				must(st.Heartbeat(ctx, 0, session))
			}
		}, 12, 340},
		{"session data", func() {
			data := bytes.Repeat([]byte("x"), store.MaxSessionData)
			for range runs {
				if err := st.SetSessionData(ctx, 0, session, data); err != nil {
					t.Fatal(err)
				}
			}
		}, 3, store.MaxSessionData + 300},
		{"read session data", func() {
			for range runs {
				must(st.SessionData(ctx, 0))
			}
		}, 3, 250},
	}
	for _, op := range ops { // the first round loads the scripts and is not measured
		op.do()
	}
	for _, op := range ops {
		commands, bytes := counts(t, admin)
		op.do()
		after, sent := counts(t, admin)
		perRun, size := (after-commands)/runs, (sent-bytes)/runs
		t.Logf("%s: %.2f commands in scripts and %.0f bytes sent per run", op.name, perRun, size)
		if perRun > op.commands || size > op.bytes {
			t.Errorf("%s takes %.2f commands in scripts and %.0f bytes, want at most %.2f and %.0f", op.name, perRun, size, op.commands, op.bytes)
		}
	}
	for _, c := range creates {
		key := "{flowgen:0}1m:" + strings.TrimPrefix(string(c.Run), "wrun_")
		if enc := must(admin.ObjectEncoding(ctx, key).Result()); enc != "listpack" {
			t.Fatalf("metadata is kept as a %s, want a listpack", enc)
		}
	}
}

// TestCost_RequestsAllocateLittle bounds the allocations of a request. Of the allocations that it
// counts, go-redis makes one for each command, and three to six for each request.
func TestCost_RequestsAllocateLittle(t *testing.T) {
	const rounds = 20
	ctx, server := t.Context(), redistest.Start(t)
	st := openURL(t, server.URL())
	defer st.Close()
	route, session := store.Route{Queue: "default", Workflow: "orders.fulfil"}, store.SessionID("wses_1")
	for p := range st.Partitions() {
		if err := st.OpenSession(ctx, store.Session{ID: session, Partition: p, TTL: time.Minute, Routes: []store.Route{route}}); err != nil {
			t.Fatal(err)
		}
	}
	creates := func(n int, owned bool) (all [rounds + 1][]store.Create) { // AllocsPerRun calls its function one more time
		for i := range all {
			for slot := range n {
				c := store.Create{Run: event.NewRunID(time.Now(), uint16(slot)), Route: route, Frame: []byte("first"), Seq: 1, CommitID: event.NewCommitID()}
				if owned {
					c.Owner = &store.Owner{Session: session, Token: event.NewToken()}
				}
				all[i] = append(all[i], c)
			}
		}
		return all
	}
	allocs := func(all [rounds + 1][]store.Create) float64 {
		i := 0
		return testing.AllocsPerRun(rounds, func() {
			for _, got := range must(st.Create(ctx, all[i])) {
				if got.Err != nil {
					t.Fatal(got.Err)
				}
			}
			i++
		})
	}
	one, many := creates(1, true), creates(32, true)
	got := map[string]float64{
		"create 1 run": allocs(creates(1, false)), "create 32 runs": allocs(creates(32, false)), "create 1 owned run": allocs(one), "create 32 owned runs": allocs(many),
	}
	for name, runs := range map[string][]store.Create{"append to 1 run": one[0], "append to 32 runs": many[0]} {
		commits := make([]store.Commit, len(runs))
		for i, r := range runs {
			commits[i] = store.Commit{Run: r.Run, Fence: r.Owner.Fence(), CommitID: r.CommitID, Frame: r.Frame, Last: r.Seq, Status: event.StatusRunning}
		}
		got[name] = testing.AllocsPerRun(rounds, func() {
			for i := range commits {
				c := &commits[i]
				c.Prev, c.CommitID, c.First, c.Last = c.CommitID, event.NewCommitID(), c.Last+1, c.Last+2
			}
			for _, got := range must(st.Commit(ctx, commits)) {
				if got.Err != nil {
					t.Fatal(got.Err)
				}
			}
		})
	}
	t.Log(got)
	if build, _ := debug.ReadBuildInfo(); slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("pools drop objects at random under the race detector")
	}
	for name, most := range map[string]float64{
		"create 1 run": 8, "create 32 runs": 48, "create 1 owned run": 9, "create 32 owned runs": 85, "append to 1 run": 8, "append to 32 runs": 48,
	} {
		if got[name] > most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", name, got[name], most)
		}
	}
}

// counts returns the number of commands that scripts have called on a server, and the bytes that
// the server has received.
func counts(t *testing.T, client *redis.Client) (commands, bytes float64) {
	t.Helper()
	info := must(client.Info(t.Context(), "commandstats", "stats").Result())
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case name == "total_net_input_bytes":
			bytes = must(strconv.ParseFloat(rest, 64))
		case isCommand && !slices.Contains([]string{"evalsha", "eval", "info", "ping", "hello", "client|setinfo", "client|maint_notifications"}, command):
			calls, _, _ := strings.Cut(strings.TrimPrefix(rest, "calls="), ",")
			commands += must(strconv.ParseFloat(calls, 64))
		}
	}
	return commands, bytes
}
