package redisstore

import (
	"context"
	"maps"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// sortsNot creates a user that may not call SORT_RO, and returns a client of that user.
func sortsNot(t *testing.T) redis.UniversalClient {
	t.Helper()
	server, name := redistest.Shared(t), redistest.Prefix()
	admin := server.Client(t)
	if err := admin.Do(t.Context(), "acl", "setuser", name, "on", ">secret", "~*", "&*", "+@all", "-sort_ro").Err(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: name, Password: "secret"})
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		if err := admin.Do(context.WithoutCancel(t.Context()), "acl", "deluser", name).Err(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// TestOPS1_CountsAreTheSameWhereTheServerSortsByNoOtherKeys proves that the counts are the same if
// the user may not call SORT_RO with external keys. The store then reads the runs one by one.
func TestOPS1_CountsAreTheSameWhereTheServerSortsByNoOtherKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		client     redis.UniversalClient
		prefix     string
		partitions int
	}{
		"a server":                {redistest.Shared(t).Client(t), redistest.Prefix(), 2},
		"a prefix with a star":    {redistest.Shared(t).Client(t), redistest.Prefix() + "*m:", 2},
		"a user who may not sort": {sortsNot(t), redistest.Prefix(), 2},
		"a cluster":               {redistest.SharedCluster(t).Client(t), redistest.Prefix(), 16},
	} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			st, err := New(tt.client, Config{Clock: clock, Prefix: tt.prefix, Partitions: tt.partitions})
			if err != nil {
				t.Fatal(err)
			}
			g := guard(t, tt.client, clock, st)
			for i := range 20 {
				g.start("order-"+strconv.Itoa(i), func(c *store.Create) {
					if i%4 == 0 {
						c.Status = event.StatusHeld
					}
				})
			}
			counts, err := g.Count(g.ctx, store.Query{})
			g.check(err)
			want := map[store.Counted]int{
				{Status: event.StatusPending, Route: guardedRoute}: 15, {Status: event.StatusHeld, Route: guardedRoute}: 5,
			}
			if !maps.Equal(counts.Runs, want) || !counts.Exact || counts.Looked != 20 {
				t.Errorf("counts: got %+v, want %v, exactly, of 20 that were looked at", counts, want)
			}
		})
	}
}
