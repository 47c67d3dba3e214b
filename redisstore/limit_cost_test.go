package redisstore_test

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// limitedRuns is a store with one partition and one limit. Its runs use the limit unless change
// removes the use.
type limitedRuns struct {
	t       *testing.T
	st      *redisstore.Store
	server  *redis.Client
	counted *counter
	route   store.Route
	session store.SessionID
	uses    []store.Use
	change  func(n int, c *store.Create) // changes run n of a request; may be nil
	more    []store.Route                // additional routes in each claim
	hinted  bool                         // whether claims follow a hint
	owned   []store.ClaimedRun
	created event.RunID // run that was created last
	inbox   map[event.RunID][]store.Item
}

func newLimitedRuns(t *testing.T, atOnce int, uses ...store.Use) *limitedRuns {
	t.Helper()
	server := redistest.Start(t)
	client, c := server.Client(t), &counter{}
	client.AddHook(c)
	l := &limitedRuns{
		t: t, st: must(redisstore.New(client, redisstore.Config{Partitions: 1})), server: server.Client(t), counted: c,
		route: store.Route{Queue: "default", Workflow: "orders.fulfil"}, session: "wses_1", uses: uses,
		inbox: map[event.RunID][]store.Item{},
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
		if l.change != nil {
			l.change(i, &creates[i])
		}
	}
	for i, got := range must(l.st.Create(l.t.Context(), creates)) {
		if got.Err != nil {
			l.t.Fatal(got.Err)
		}
		l.created = got.Run
		l.inbox[got.Run] = append(l.inbox[got.Run], creates[i].Items...)
	}
}

func (l *limitedRuns) claim(n, want int) {
	l.t.Helper()
	got := must(l.st.Claim(l.t.Context(), store.Claim{Session: l.session, Token: event.NewToken(), Routes: append([]store.Route{l.route}, l.more...), Max: n, Hinted: l.hinted})).Runs
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
		if items := l.inbox[r.Run]; len(items) > 0 {
			commits[i].Consume, commits[i].ConsumeLast = len(items), items[len(items)-1].ID
		}
	}
	for _, got := range must(l.st.Commit(l.t.Context(), commits)) {
		if got.Err != nil {
			l.t.Fatal(got.Err)
		}
	}
	l.owned = nil
}

// costOp is an operation with its maximum cost.
type costOp struct {
	name           string
	do             func()
	scripts        int
	commands, runs float64 // maximum commands in scripts per run; number of runs
}

// measure executes all operations twice and counts the commands of the second execution, for which
// the server has all scripts. It returns the number of commands in scripts per run for each
// operation.
func (l *limitedRuns) measure(ops []costOp) map[string]float64 {
	l.t.Helper()
	for _, op := range ops {
		op.do()
	}
	took := map[string]float64{}
	for _, op := range ops {
		scripts := l.counted.scripts
		commands, _ := counts(l.t, l.server)
		op.do()
		after, _ := counts(l.t, l.server)
		scripts, per := l.counted.scripts-scripts, (after-commands)/op.runs
		took[op.name] = per
		l.t.Logf("%s: %d scripts, %.2f commands in scripts per run", op.name, scripts, per)
		if scripts != op.scripts {
			l.t.Errorf("%s takes %d scripts, want %d", op.name, scripts, op.scripts)
		}
		if per > op.commands {
			l.t.Errorf("%s takes %.2f commands in scripts per run, want at most %.2f", op.name, per, op.commands)
		}
	}
	return took
}

// TestCost_LimitedRunsTakeNoScriptMore proves that permits need no additional script: the claim
// grants them, and the commit gives them back. It also bounds the number of commands that the
// scripts execute.
func TestCost_LimitedRunsTakeNoScriptMore(t *testing.T) {
	const runs = 100
	l := newLimitedRuns(t, 50, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1})
	l.measure([]costOp{
		{"create", func() { l.create(runs) }, runs, 16.7, runs},
		{"claim", func() { l.claim(50, 50) }, 1, 8, 50},
		{"claim in vain", func() { l.claim(50, 0) }, 1, 20.2, 1},
		{"finish", func() { l.finish() }, 50, 16.4, 50},
		{"claim after a call", func() { l.claim(50, 50) }, 1, 8, 50},
		{"finish of the last", func() { l.finish() }, 50, 15.2, 50},
	})
}

// TestCost_AClaimReadsLimitsAndRoutesOnce proves that a claim reads each limit and limiter queue
// once, and does not read a route without ready runs. The worker claims from many routes, and other
// queues wait for the same limits.
func TestCost_AClaimReadsLimitsAndRoutesOnce(t *testing.T) {
	l := newLimitedRuns(t, 3, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}, store.Use{LimitID: store.LimitID{Name: "net"}, Weight: 1})
	l.create(100)
	for n := range 20 {
		l.more = append(l.more, store.Route{Queue: "default", Workflow: fmt.Sprint("orders.other", n)})
	}
	for _, l.hinted = range []bool{false, true} {
		l.measure([]costOp{
			{"claim of three", func() { l.claim(50, 3) }, 1, map[bool]float64{false: 64.2, true: 61.2}[l.hinted], 1},
			{"finish", func() { l.finish() }, 3, 23.2, 3},
		})
	}
}

// TestCost_AClaimReadsNoMoreLinesThanItTakes proves that a claim stops when it has filled its free
// capacity. It does not read further limiter queues that may be admitted.
func TestCost_AClaimReadsNoMoreLinesThanItTakes(t *testing.T) {
	const lines, takes = 300, 50
	l := newLimitedRuns(t, 0)
	l.change = func(n int, c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "customer", Key: strconv.Itoa(n)}, Weight: 1}}
	}
	if err := l.st.SetLimits(t.Context(), 0, []store.SetLimit{{LimitID: store.LimitID{Name: "customer"}, Config: store.LimitConfig{AtOnce: 1}}}); err != nil {
		t.Fatal(err)
	}
	l.create(lines)
	conn := must((&net.Dialer{}).DialContext(t.Context(), "tcp", l.server.Options().Addr))
	defer conn.Close()
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(conn)
	said.Buffer(nil, 1<<20) // a line contains a whole script
	if !said.Scan() || said.Text() != "+OK" {
		t.Fatalf("MONITOR answers %q, %v", said.Text(), said.Err())
	}
	l.claim(takes, takes)
	if err := l.server.Echo(t.Context(), "that is all").Err(); err != nil {
		t.Fatal(err)
	}
	looks, read := 0, 0
	look := regexp.MustCompile(`"ZRANGE" "[^"]*r:[^"]*" "(\d+)" "(-?\d+)"`)
	for said.Scan() && !strings.Contains(said.Text(), "that is all") {
		if m := look.FindStringSubmatch(said.Text()); m != nil {
			from, to := must(strconv.Atoi(m[1])), must(strconv.Atoi(m[2]))
			if looks++; to < 0 {
				to += lines
			}
			read += to - from + 1
		}
	}
	if err := said.Err(); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d looks at %d lines", looks, read); looks == 0 || read > 2*takes {
		t.Errorf("%d looks read up to %d lines to take %d, want at most %d", looks, read, takes, 2*takes)
	}
}

// ordinary returns the operations of runs without a limit and a fairness key. The arguments are
// their maximum costs.
func ordinary(l *limitedRuns, create, claim, finish float64) []costOp {
	return []costOp{
		{"create", func() { l.create(50) }, 50, create, 50},
		{"claim", func() { l.claim(50, 50) }, 1, claim, 50},
		{"finish", func() { l.finish() }, 50, finish, 50},
	}
}

// TestCost_LimitsCostRunsNothingThatUseNone proves that a run without limits costs the same however
// many runs of its partition wait for a limit.
func TestCost_LimitsCostRunsNothingThatUseNone(t *testing.T) {
	free := newLimitedRuns(t, 0)
	want := free.measure(ordinary(free, 6.2, 3.3, 5.2))
	l := newLimitedRuns(t, 1, store.Use{LimitID: store.LimitID{Name: "gpu"}, Weight: 1})
	l.create(20)
	l.claim(20, 1)
	l.finish()
	l.claim(20, 1) // finds the other runs waiting, so the next claims skip them
	l.uses, l.owned = nil, nil
	if diff := cmp.Diff(want, l.measure(ordinary(l, 6.2, 3.3, 5.2))); diff != "" {
		t.Errorf("commands per run beside a limit for which others wait (-without +with):\n%s", diff)
	}
}

// TestCost_FairRunsTakeNoScriptMore proves that a fairness key needs no additional script. The
// script that makes a run ready determines its position, and a claim records the passes once.
func TestCost_FairRunsTakeNoScriptMore(t *testing.T) {
	l := newLimitedRuns(t, 0)
	l.change = func(n int, c *store.Create) { c.Fair, c.Share = "tenant "+strconv.Itoa(n%10), 1+n%3 }
	l.measure(ordinary(l, 11.2, 4.4, 7.2))
}

// TestShares_PassesThatAreOverAreForgotten proves that the pass of an idle fairness key is removed
// soon, even if runs with other keys always wait.
func TestShares_PassesThatAreOverAreForgotten(t *testing.T) {
	l, round := newLimitedRuns(t, 0), 0
	l.change = func(n int, c *store.Create) { c.Fair = []string{"always", fmt.Sprint("once ", round)}[n] }
	passes := func() (n int64) {
		for _, key := range must(l.server.Keys(t.Context(), "*X:*").Result()) {
			n += must(l.server.ZCard(t.Context(), key).Result())
		}
		return n
	}
	l.create(1)
	for range 60 {
		round++
		l.create(2)
		l.claim(2, 2)
	}
	if n := passes(); n > 10 {
		t.Errorf("%d passes are kept, of 61 keys, want at most 10", n)
	}
	l.claim(1, 1)
	if n := passes(); n != 0 {
		t.Errorf("%d passes are kept while nobody waits", n)
	}
}

// TestCost_AStartThatJoinsIsOneScript proves that a start that joins a run needs one script. A
// collecting run is claimed like any other run, and the commit that ends it removes the key.
func TestCost_AStartThatJoinsIsOneScript(t *testing.T) {
	const runs = 50
	for name, g := range map[string]store.Collect{
		"debounce": {Quiet: time.Hour},
		"batch":    {Most: time.Hour, Keep: true, Full: 3},
	} {
		t.Run(name, func(t *testing.T) {
			l, round := newLimitedRuns(t, 0), 0
			l.change = func(n int, c *store.Create) {
				collect := g
				collect.Key = fmt.Sprint(round, "/", n)
				c.Collect, c.Items = &collect, []store.Item{{ID: event.NewItemID(), Body: []byte("input")}}
			}
			start := func() { l.create(runs) }
			ops := []costOp{{"the first start", func() { round++; start() }, runs, 18.2, runs}, {"a start that joins", start, runs, 13, runs}}
			if g.Full > 0 {
				ops = append(ops, costOp{"the start that fills it", start, runs, 20, runs},
					costOp{"claim", func() { l.claim(runs, runs) }, 1, 3.3, runs}, costOp{"finish", l.finish, runs, 20, runs})
			}
			l.measure(ops)
		})
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
				meta := must(l.server.Keys(t.Context(), "*}1m:*").Result())[0]
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
