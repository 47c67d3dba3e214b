package sqlitestore

import (
	"os"
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
	eventually(t, "the log is synced", func() bool { return s.writer.syncs.Load() > 0 })
}
