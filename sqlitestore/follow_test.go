//go:build unix

package sqlitestore

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// follow waits for each frame of a log until it has the given number of frames.
func follow(ctx context.Context, s *Store, run event.RunID, frames uint64) error {
	for n := uint64(1); n < frames; n++ {
		if err := s.Watch(ctx, run, n); err != nil {
			return fmt.Errorf("watch frame %d of run %s: %w", n+1, run, err)
		}
	}
	return nil
}

// following returns the number of blocked Watch calls.
func (s *Store) following() int {
	n := 0
	for _, run := range s.notifier.frames.Topics() {
		n += s.notifier.frames.Resting(run)
	}
	return n
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for ctx := testContext(t); !cond(); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// openFiles returns the number of open files of the process.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	check(t, err)
	return len(entries)
}

// memory returns the number of bytes of heap and stacks in use.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func TestRUN15_ThousandsOfFollowersShareAFewConnections(t *testing.T) {
	const (
		followers, frames = 5000, 3
		// A waiting call may have one goroutine. The store adds only the poller.
		goroutinesAtMost = followers + 10
		filesAtMost      = 2 * (readerCount + 1) // the database and its write-ahead log
		memoryAtMost     = followers * 32 << 10  // mostly the stacks of the callers
	)
	s := openTest(t)
	other, err := Open(s.path)
	check(t, err)
	defer func() { check(t, other.Close()) }()
	ctx := testContext(t)
	commits := startOwned(t, s, 200)
	goroutines, files, used := runtime.NumGoroutine(), openFiles(t), memory()
	var g errgroup.Group
	for i := range followers {
		g.Go(func() error { return follow(ctx, s, commits[i%len(commits)].Run, frames) })
	}
	for frame := range frames - 1 {
		eventually(t, "all followers are at rest", func() bool { return s.following() == followers })
		eventually(t, "there are no more goroutines than callers and a few", func() bool {
			return runtime.NumGoroutine() <= goroutines+goroutinesAtMost
		})
		if got := openFiles(t) - files; got > filesAtMost {
			t.Errorf("open files: got %d for the followers, want at most %d", got, filesAtMost)
		}
		if got := memory() - used; got > memoryAtMost {
			t.Errorf("memory: got %d bytes for the followers, want at most %d", got, memoryAtMost)
		}
		by := s
		if frame%2 == 1 {
			by = other // a second store on the file represents another process
		}
		for i := range commits {
			c := &commits[i]
			c.CommitID, c.First, c.Last = event.NewCommitID(), c.Last+1, c.Last+1
		}
		answers, err := by.Commit(ctx, commits)
		check(t, err)
		for i, answer := range answers {
			check(t, answer.Err)
			commits[i].Prev = commits[i].CommitID
		}
	}
	check(t, g.Wait())
	if left := s.following(); left != 0 {
		t.Errorf("followers that are left: got %d, want none", left)
	}
}

// startOwned creates runs, claims them, and returns commits that continue their logs, without
// commit IDs.
func startOwned(t *testing.T, s *Store, n int) []store.Commit {
	t.Helper()
	ctx := testContext(t)
	session := store.Session{ID: "a", TTL: time.Hour}
	check(t, s.OpenSession(ctx, session))
	var creates []store.Create
	for range n {
		creates = append(creates, newRun(10))
	}
	_, err := s.Create(ctx, creates)
	check(t, err)
	claimed, err := s.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: []store.Route{route}, Max: n})
	check(t, err)
	var commits []store.Commit
	for _, r := range claimed.Runs {
		commits = append(commits, store.Commit{Run: r.Run, Fence: r.Fence, Prev: r.Last, Last: r.Seq, Frame: []byte{1}})
	}
	return commits
}
