package redisstore_test

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// Examine the servers of a store and print the problems.
func ExampleStore_Examine() {
	url, stop := redistest.Example("--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	defer stop()
	st, err := redisstore.Open(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	ctx := context.Background()

	doctor, ok := store.As[store.Doctor](st)
	if !ok {
		return
	}
	report, err := doctor.Examine(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range report.Findings {
		if f.Severity >= store.SeverityWarn {
			fmt.Println(f.Severity, f.Check, f.Found)
			fmt.Println(f.Fix)
		}
	}
	// Output:
	// fail eviction maxmemory-policy allkeys-lru
	// Run CONFIG SET maxmemory-policy noeviction, and write it into redis.conf; then check the store with fsck if evicted_keys of INFO stats is not 0.
}
