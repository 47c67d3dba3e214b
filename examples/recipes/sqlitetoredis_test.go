package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/examples/recipes/sqlitetoredis"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/redis/go-redis/v9"
)

// The test proves that the same program runs on both stores, and that its second execution finds
// the order fulfilled. The program refuses a Redis server without persistence.
func TestSqlitetoredis_TheSameProgramRunsOnBothStores(t *testing.T) {
	ctx := limited(t)
	server := redistest.Start(t).URL()
	if _, err := sqlitetoredis.Open(ctx, server); err == nil || !strings.Contains(err.Error(), "persistence") {
		t.Errorf("a Redis that keeps nothing: %v", err)
	}
	options, err := redis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	settings := redis.NewClient(options)
	defer func() { _ = settings.Close() }()
	if err := settings.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "orders.db"), "redis": server} {
		for _, want := range []string{"order-7 ships\norder-7 is fulfilled\n", "order-7 is fulfilled\n"} {
			var out strings.Builder
			if err := run(ctx, []string{"-store", url, "sqlitetoredis"}, &out); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := out.String(); got != want {
				t.Errorf("%s: it prints %q, want %q", name, got, want)
			}
		}
	}
}
