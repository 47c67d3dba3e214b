package redisstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

var other = store.Route{Queue: "slow", Workflow: "orders.audit"}

// census is a store of one partition with a session that serves two routes.
type census struct {
	*testing.T
	client *redis.Client
	st     *redisstore.Store
	ids    *storetest.IDs
	s      store.Session
}

func newCensus(t *testing.T) *census {
	t.Helper()
	server := redistest.Start(t)
	c := &census{T: t, client: server.Client(t), ids: &storetest.IDs{}, st: openURL(t, with(server.URL(), "partitions=1"))}
	t.Cleanup(func() {
		if err := c.st.Close(); err != nil {
			t.Error(err)
		}
	})
	c.s = store.Session{ID: "web/1", Worker: "web", TTL: time.Hour, Routes: []store.Route{orders, other}, Fingerprint: "v1"}
	if err := c.st.OpenSession(t.Context(), c.s); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *census) start(runs int) {
	c.Helper()
	all := make([]store.Create, runs)
	for i := range all {
		all[i] = storetest.NewLog(c.ids, c.st.Clock(), event.NewRunID(time.Now(), 0), event.Spec{Workflow: orders.Workflow, Queue: orders.Queue}).Create()
	}
	if _, err := c.st.Create(c.Context(), all); err != nil {
		c.Fatal(err)
	}
}

func (c *census) claim(n int) {
	c.Helper()
	got, err := c.st.Claim(c.Context(), store.Claim{Session: c.s.ID, Token: event.NewToken(), Routes: []store.Route{orders}, Max: n})
	if err != nil || len(got.Runs) != n {
		c.Fatalf("claimed %d runs, %v, want %d", len(got.Runs), err, n)
	}
}

// commands returns the number of commands that the server executes for one call of Fleet.
func (c *census) commands() int {
	c.Helper()
	if _, err := c.st.Fleet(c.Context()); err != nil { // loads the script
		c.Fatal(err)
	}
	if err := c.client.ConfigResetStat(c.Context()).Err(); err != nil {
		c.Fatal(err)
	}
	if _, err := c.st.Fleet(c.Context()); err != nil {
		c.Fatal(err)
	}
	all := 0
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(c.client.Info(c.Context(), "commandstats").Val(), -1) {
		calls, _ := strconv.Atoi(m[2])
		all += calls
	}
	return all
}

func TestOPS1_TheFleetCostsNoMoreWithMoreRuns(t *testing.T) {
	c := newCensus(t)
	c.start(1)
	few := c.commands()
	c.start(3000)
	if many := c.commands(); many != few || few > 20 {
		t.Errorf("with one run the server executes %d commands, with 3,001 %d, want the same, of at most 20", few, many)
	}
}

func TestOPS1_TheFleetSaysWhatItHasNotLookedAt(t *testing.T) {
	c := newCensus(t)
	c.start(30)
	c.claim(12)
	for budget, want := range map[int]string{100: "18 12 0 false", 12: "18 12 0 false", 11: "18 11 1 true", 0: "18 0 12 true"} {
		f, err := c.st.FleetWithin(t.Context(), budget)
		if err != nil {
			t.Fatal(err)
		}
		l := f.Routes[slices.IndexFunc(f.Routes, func(l store.RouteLoad) bool { return l.Route == orders })]
		if got := fmt.Sprint(l.Ready, l.Owned, l.Parked, l.Inexact); got != want || f.Sessions[0].Owned != 12 {
			t.Errorf("with a budget of %d: got %s, and that the session owns %d, want %s and 12", budget, got, f.Sessions[0].Owned, want)
		}
	}
}

func TestOPS1_TheFleetHasASessionWhoseNamesAreDamaged(t *testing.T) {
	c := newCensus(t)
	c.start(1)
	c.claim(1)
	keys, err := c.client.Keys(t.Context(), "*z:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys of sessions: %q, %v", keys, err)
	}
	if err := c.client.HSet(t.Context(), keys[0], "n", "99:cut short").Err(); err != nil {
		t.Fatal(err)
	}
	f, err := c.st.Fleet(t.Context())
	if err != nil || len(f.Sessions) != 1 || len(f.Sessions[0].Routes) != 0 || f.Sessions[0].Owned != 1 {
		t.Errorf("got %+v, %v, want one session without names, and its run", f.Sessions, err)
	}
}

// TestOPS1_TheFleetGoesOnWhereAKeyWasOverwritten proves that Fleet skips and reports a key that
// another program has overwritten.
func TestOPS1_TheFleetGoesOnWhereAKeyWasOverwritten(t *testing.T) {
	c := newCensus(t)
	c.start(3)
	c.claim(1)
	for _, kind := range []string{"*r:*", "*o:*", "*Y"} {
		keys, err := c.client.Keys(t.Context(), kind).Result()
		if err != nil {
			t.Fatal(err)
		}
		key := "{flowgen:0}1Y"
		if len(keys) > 0 {
			key = keys[0]
		}
		if err := c.client.Set(t.Context(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
		f, err := c.st.Fleet(t.Context())
		if err != nil || len(f.Routes) != 2 || len(f.Sessions) != 1 {
			t.Errorf("%s overwritten: got %+v, %v, want both routes and the session", key, f, err)
		}
		if told := c.st.Damage(); len(told) != 1 {
			t.Errorf("%s overwritten: told %v, want that key", key, told)
		}
	}
}
