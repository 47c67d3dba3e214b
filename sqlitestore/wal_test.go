package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestLog_DoesNotGrowForEverWhileSomebodyAlwaysReads(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	const limit = 1 << 20
	check(t, s.write(ctx, func(*tx) error {
		s.writer.log.limit = limit
		return nil
	}))
	var runs []event.RunID
	for range 50 {
		c := newRun(3000)
		_, err := s.Create(ctx, []store.Create{c})
		check(t, err)
		runs = append(runs, c.Run)
	}
	var loads []store.Load
	for _, run := range runs {
		loads = append(loads, store.Load{Run: run})
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 * readerCount {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := s.Load(ctx, loads); err != nil {
					t.Errorf("load: %v", err)
				}
			}
		})
	}
	longest := int64(0)
	for range 12 * trimEvery {
		_, err := s.Create(ctx, []store.Create{newRun(3000)})
		check(t, err)
		info, err := os.Stat(s.wal)
		check(t, err)
		longest = max(longest, info.Size())
	}
	close(stop)
	wg.Wait()
	// A transaction writes about ten pages of 4 KB here.
	if atMost := int64(limit + 4*trimEvery*15*4096); longest > atMost {
		t.Errorf("the log has grown to %d bytes, want at most %d", longest, atMost)
	}
}

// TestLog_IsSyncedBetweenCheckpoints proves that the log is synced while transactions continue, so
// that a checkpoint has few pages left to sync.
func TestLog_IsSyncedBetweenCheckpoints(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	check(t, s.CheckpointEvery(ctx, 0))
	for range syncEvery {
		_, err := s.Create(ctx, []store.Create{newRun(100)})
		check(t, err)
	}
	eventually(t, "the log is synced", func() bool { return s.writer.syncer.syncs.Load() > 0 })
}

// TestLog_FailedSyncIsReportedByEveryWriteAndByClose proves that the store accepts nothing after a
// failed sync of the log, and that it loses nothing that it has accepted before.
func TestLog_FailedSyncIsReportedByEveryWriteAndByClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	check(t, err)
	if !syncsAhead(s.writer.mode) {
		t.Skip("the log is synced only by checkpoints")
	}
	ctx := testContext(t)
	check(t, s.writer.syncer.file.Close()) // makes the next sync fail
	var stored []event.RunID
	var failure error
	for failure == nil {
		c := newRun(100)
		if _, failure = s.Create(ctx, []store.Create{c}); failure == nil {
			stored = append(stored, c.Run)
		}
	}
	if !errors.Is(failure, os.ErrClosed) || len(stored) < syncEvery-1 {
		t.Errorf("create: got error %v after %d runs, want that of the sync after at least %d", failure, len(stored), syncEvery-1)
	}
	for _, runs := range [][]store.Create{{newRun(100)}, {newRun(100), newRun(100)}} {
		if _, err := s.Create(ctx, runs); !errors.Is(err, os.ErrClosed) {
			t.Errorf("create %d runs later: got error %v, want that of the sync", len(runs), err)
		}
	}
	if err := s.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("close: got error %v, want that of the sync", err)
	}
	again, err := Open(path)
	check(t, err)
	defer func() { check(t, again.Close()) }()
	expectRuns(t, again, stored)
}
