package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// limitedRuns is a store of one partition with a limit, and runs that use it.
type limitedRuns struct {
	t       *testing.T
	st      *redisstore.Store
	server  *redis.Client
	counted *counter
	route   store.Route
	session store.SessionID
	uses    []store.Use
	owned   []store.ClaimedRun
	created event.RunID // the last one
}

func newLimitedRuns(t *testing.T, atOnce int, uses ...store.Use) *limitedRuns {
	t.Helper()
	server := redistest.Start(t)
	client, c := server.Client(t), &counter{}
	client.AddHook(c)
	l := &limitedRuns{
		t: t, st: must(redisstore.New(client, redisstore.Config{Partitions: 1})), server: server.Client(t), counted: c,
		route: store.Route{Queue: "default", Workflow: "orders.fulfil"}, session: "wses_1", uses: uses,
	}
	t.Cleanup(func() { l.st.Close() })
	if err := l.st.OpenSession(t.Context(), store.Session{ID: l.session, TTL: time.Minute, Routes: []store.Route{l.route}}); err != nil {
		t.Fatal(err)
	}
	for _, u := range uses {
		set := []store.SetLimit{{LimitID: store.LimitID{Name: u.Name}, Config: store.LimitConfig{AtOnce: atOnce}}}
		if err := l.st.SetLimits(t.Context(), 0, set); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *limitedRuns) create(n int) {
	l.t.Helper()
	creates := make([]store.Create, n)
	for i := range creates {
		creates[i] = store.Create{
			Run: event.NewRunID(time.Now(), 0), Route: l.route, Frame: []byte("first"), Seq: 1, CommitID: event.NewCommitID(), Uses: l.uses,
		}
	}
	for _, got := range must(l.st.Create(l.t.Context(), creates)) {
		if got.Err != nil {
			l.t.Fatal(got.Err)
		}
		l.created = got.Run
	}
}

func (l *limitedRuns) claim(n, want int) {
	l.t.Helper()
	got := must(l.st.Claim(l.t.Context(), store.Claim{Session: l.session, Token: event.NewToken(), Routes: []store.Route{l.route}, Max: n})).Runs
	if l.owned = append(l.owned, got...); len(got) != want {
		l.t.Fatalf("claimed %d runs, want %d", len(got), want)
	}
}

func (l *limitedRuns) finish() {
	l.t.Helper()
	commits := make([]store.Commit, len(l.owned))
	for i, r := range l.owned {
		commits[i] = store.Commit{
			Run: r.Run, Fence: r.Fence, Prev: r.Last, Frame: []byte("frame"), CommitID: event.NewCommitID(), First: 2, Last: 3,
			Status: event.StatusCompleted, Progress: true, Effect: store.EffectFinish,
		}
	}
	for _, got := range must(l.st.Commit(l.t.Context(), commits)) {
		if got.Err != nil {
			l.t.Fatal(got.Err)
		}
	}
	l.owned = nil
}

// Permits are taken in the claim and given back in the commit: no script is sent for them.
// What the server does beside is of the order of what it does for a run without limits.
func TestCost_LimitedRunsTakeNoScriptMore(t *testing.T) {
	const runs = 100
	l := newLimitedRuns(t, 50, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1})
	ops := []struct {
		name           string
		do             func()
		scripts        int
		commands, runs float64 // in scripts, per run; and those
	}{
		{"create", func() { l.create(runs) }, runs, 16.2, runs},
		{"claim", func() { l.claim(50, 50) }, 1, 20.4, 50},
		{"claim in vain", func() { l.claim(50, 0) }, 1, 24, 1},
		{"finish", func() { l.finish() }, 50, 17.5, 50},
		{"claim after a call", func() { l.claim(50, 50) }, 1, 20.4, 50},
		{"finish of the last", func() { l.finish() }, 50, 17.5, 50},
	}
	for _, op := range ops { // the first time the server is told the scripts
		op.do()
	}
	for _, op := range ops {
		scripts := l.counted.scripts
		commands, _ := counts(t, l.server)
		op.do()
		after, _ := counts(t, l.server)
		scripts, per := l.counted.scripts-scripts, (after-commands)/op.runs
		t.Logf("%s: %d scripts, %.2f commands in scripts per run", op.name, scripts, per)
		if scripts != op.scripts {
			t.Errorf("%s takes %d scripts, want %d", op.name, scripts, op.scripts)
		}
		if per > op.commands {
			t.Errorf("%s takes %.2f commands in scripts per run, want at most %.2f", op.name, per, op.commands)
		}
	}
}

func TestCost_AWaitingRunTakesFewBytes(t *testing.T) {
	const runs = 2000
	for name, uses := range map[string][]store.Use{
		"one limit": {{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}},
		"a key and two limits": {
			{LimitID: store.LimitID{Name: "customer", Key: "cus_01j9zvq3n8k5x2m7w4t6r1y0ab"}, Weight: 1},
			{LimitID: store.LimitID{Name: "gpu"}, Weight: 2}, {LimitID: store.LimitID{Name: "partner-requests"}, Weight: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bytes := map[bool]int64{}
			for _, limited := range []bool{false, true} {
				l := newLimitedRuns(t, 2, uses...)
				if !limited {
					l.uses = nil
				}
				l.create(runs)
				all, kinds := perRun(t, l.server, runs)
				t.Logf("limited %v: %d bytes: %v", limited, all, kinds)
				bytes[limited] = all
				meta := must(l.server.Keys(t.Context(), "*:m:*").Result())[0]
				if enc := must(l.server.ObjectEncoding(t.Context(), meta).Result()); enc != "listpack" {
					t.Errorf("metadata is kept as a %s, want a listpack", enc)
				}
			}
			if more := bytes[true] - bytes[false]; more > 300 {
				t.Errorf("a run that waits for permits takes %d bytes more than one that waits for a worker, want at most 300", more)
			}
		})
	}
}
