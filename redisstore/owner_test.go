package redisstore

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestCreate_ALocalStartNamesItsRoute proves that another process can read a run that was created
// as claimed. Such a creation sets no wake, which is the usual place for the name of the route.
func TestCreate_ALocalStartNamesItsRoute(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	l := g.start("", func(c *store.Create) { c.Owner = &store.Owner{Session: session, Token: g.ids.Token()} })
	other, err := New(g.client, Config{Clock: g.clock, Prefix: g.cfg.Prefix, Partitions: 1})
	g.check(err)
	defer other.Close()
	got, err := other.Load(g.ctx, []store.Load{{Run: l.Run}})
	g.check(err)
	if rec := got[0].Record; got[0].Err != nil || rec.Route != guardedRoute || rec.Owner != session {
		t.Errorf("run: got route %v, owner %s, %v, want %v and %s", rec.Route, rec.Owner, got[0].Err, guardedRoute, session)
	}
	g.sound()
}

// TestCost_ALocalStartTakesFewCommands proves that starts that create claimed runs need one script
// for all and no more commands than starts without the claim.
func TestCost_ALocalStartTakesFewCommands(t *testing.T) {
	const runs = 200
	server := redistest.Start(t)
	for name, tt := range map[string]struct {
		named bool
		most  int
	}{"without a workflow id": {false, 4}, "with a workflow id": {true, 7}} {
		t.Run(name, func(t *testing.T) {
			ids, client := &storetest.IDs{}, server.Client(t)
			st, err := New(client, Config{Prefix: redistest.Prefix(), Partitions: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			ctx, session := t.Context(), ids.Session()
			if err := st.OpenSession(ctx, store.Session{ID: session, TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
			starts := make([]store.Create, 1+runs)
			for n := range starts {
				starts[n] = store.Create{
					Run: event.NewRunID(time.Now(), 0), Route: guardedRoute, Frame: []byte("frame"), CommitID: ids.CommitID(), Seq: 1,
					Owner: &store.Owner{Session: session, Token: ids.Token()},
				}
				if tt.named {
					starts[n].WorkflowID = fmt.Sprintf("order-%d", n)
				}
			}
			create := func(starts []store.Create) {
				answers, err := st.Create(ctx, starts)
				if err != nil || answers[0].Fence != starts[0].Owner.Fence() {
					t.Fatalf("create: got %+v, %v, want a fence", answers, err)
				}
			}
			create(starts[:1]) // loads the script
			if err := client.ConfigResetStat(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			create(starts[1:])
			stats := client.Info(ctx, "commandstats").Val()
			all, scripts := 0, 0
			for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
				calls, _ := strconv.Atoi(m[2])
				all += calls
				if m[1] == "evalsha" {
					scripts += calls
				}
			}
			if resets := 1; all > tt.most*runs+resets || scripts != 1 {
				t.Errorf("%d local starts took %d commands and %d scripts, want %d each and 1 script:\n%s", runs, all, scripts, tt.most, stats)
			}
		})
	}
}
