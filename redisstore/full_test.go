package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestSTORE4_AStoreOfAServerAtItsMemoryLimitIsOpenedAndRead proves that a store can be opened and
// read if its server is at its memory limit. Writes fail with the reason, and succeed after memory
// becomes available.
func TestSTORE4_AStoreOfAServerAtItsMemoryLimitIsOpenedAndRead(t *testing.T) {
	server := redistest.Start(t)
	for name, url := range map[string]string{"one partition": with(server.URL(), "partitions=1&prefix=one"), "several": with(server.URL(), "prefix=many")} {
		t.Run(name, func(t *testing.T) {
			limit := func(bytes string) {
				t.Helper()
				if err := server.Client(t).ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
					t.Fatal(err)
				}
			}
			ids := &storetest.IDs{}
			create := func(st *redisstore.Store) (event.RunID, error) {
				run := event.NewRunID(time.Now(), 0)
				got, err := st.Create(t.Context(), []store.Create{storetest.NewLog(ids, st.Clock(), run, event.Spec{Workflow: orders.Workflow, Queue: orders.Queue}).Create()})
				if err == nil {
					err = got[0].Err
				}
				return run, err
			}
			before := openURL(t, url)
			run, err := create(before)
			if err != nil {
				t.Fatal(err)
			}
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
			limit("1mb")
			defer limit("0")
			st := openURL(t, url)
			defer func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}()
			page, err := st.List(t.Context(), store.Query{})
			if err != nil || len(page.Runs) != 1 || page.Runs[0].Run != run {
				t.Errorf("a list: %+v, %v", page, err)
			}
			if got, err := st.Load(t.Context(), []store.Load{{Run: run, Inbox: true}}); err != nil || got[0].Err != nil || len(got[0].Frames) != 1 {
				t.Errorf("a log: %+v, %v", got, err)
			}
			if got, err := st.Count(t.Context(), store.Query{}); err != nil || got.Total() != 1 {
				t.Errorf("a count: %+v, %v", got, err)
			}
			if _, err := st.FailureGroups(t.Context(), store.FailureGroupQuery{}); err != nil {
				t.Errorf("failures: %v", err)
			}
			if _, err := st.Fleet(t.Context()); err != nil {
				t.Errorf("workers and queues: %v", err)
			}
			for partition := range st.Partitions() {
				if _, err := st.Limits(t.Context(), partition, store.LimitID{}, 10); err != nil {
					t.Errorf("limits: %v", err)
				}
			}
			if _, err := store.Journal(t.Context(), st, store.JournalQuery{}); err != nil {
				t.Errorf("the journal: %v", err)
			}
			if _, err := create(st); err == nil || !strings.Contains(err.Error(), "memory limit") {
				t.Errorf("a start: got %v, want the reason", err)
			}
			limit("0")
			if _, err := create(st); err != nil {
				t.Errorf("once there is memory: %v", err)
			}
		})
	}
}
