package sqlitestore

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// limitPages lets the database grow by at most more pages; 0 removes the limit. It uses the writer,
// because SQLite limits a connection.
func limitPages(t *testing.T, s *Store, more int64) {
	t.Helper()
	check(t, s.write(testContext(t), func(tx *tx) error {
		pages, err := tx.Pragma("page_count")
		if err != nil {
			return err
		}
		limit := "4294967294"
		if more > 0 {
			limit = strconv.FormatInt(pages+more, 10)
		}
		return tx.ExecOnce("PRAGMA max_page_count = " + limit)
	}))
}

func TestCommit_OnAFullDiskLosesNothingAndGoesOnWhenThereIsRoom(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	var stored []event.RunID
	for range 5 {
		c := newRun(3000)
		_, err := s.Create(ctx, []store.Create{c})
		check(t, err)
		stored = append(stored, c.Run)
	}
	limitPages(t, s, 20)
	full := 0
	for range 50 {
		c := newRun(3000)
		if _, err := s.Create(ctx, []store.Create{c}); err == nil {
			stored = append(stored, c.Run)
			continue
		} else if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultFull || !strings.Contains(err.Error(), "no space left on the disk") || !strings.Contains(err.Error(), s.path) {
			t.Fatalf("create: got error %v, want one that names the file and says that there is no room", err)
		}
		full++
	}
	if full == 0 || full == 50 {
		t.Fatalf("%d of 50 runs found no room, want some", full)
	}
	expectRuns(t, s, stored)

	limitPages(t, s, 0)
	c := newRun(3000)
	_, err := s.Create(ctx, []store.Create{c})
	check(t, err)
	expectRuns(t, s, append(stored, c.Run))
}

func TestGroup_OneOperationWithoutRoomDoesNotUndoTheOthers(t *testing.T) {
	s := openTest(t)
	check(t, s.OpenSession(testContext(t), store.Session{ID: "a", Routes: []store.Route{route}}))
	limitPages(t, s, 100)
	leave := occupy(t, s)
	defer leave()
	const n = 20
	var mu sync.Mutex
	var stored []event.RunID
	var wg sync.WaitGroup
	huge := make(chan error, 1)
	wg.Go(func() {
		_, err := s.Create(testContext(t), []store.Create{newRun(1 << 20)})
		huge <- err
	})
	for range n {
		wg.Go(func() {
			c := newRun(1000)
			if _, err := s.Create(testContext(t), []store.Create{c}); err != nil {
				t.Errorf("create: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			stored = append(stored, c.Run)
		})
	}
	awaitQueue(t, s, n+1) // all creates are in one transaction
	leave()
	wg.Wait()
	if err := <-huge; sqlite.ErrCode(err).ToPrimary() != sqlite.ResultFull {
		t.Errorf("create of a huge run: got error %v, want that there is no room", err)
	}
	expectRuns(t, s, stored)
}

// expectRuns fails the test unless exactly these runs are stored and all of them are ready.
func expectRuns(t *testing.T, s *Store, want []event.RunID) {
	t.Helper()
	snap, err := s.Inspect(testContext(t))
	check(t, err)
	if len(snap.Runs) != len(want) || len(snap.Ready[route]) != len(want) {
		t.Fatalf("got %d runs, %d of them ready, want %d", len(snap.Runs), len(snap.Ready[route]), len(want))
	}
	for _, id := range want {
		if snap.Runs[id] == nil {
			t.Errorf("run %s was acknowledged and is not there", id)
		}
	}
}
